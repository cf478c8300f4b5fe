"""A manifest says what the model could see: each page's text stands in the rebuilt request at its level, in the blocks
that are named, and each block is a page's or is said to be something else.
"""

import json
from collections import Counter

import attrs
import pytest

from mnemosyne.domain.history.context_view import view
from mnemosyne.domain.history.manifest import Manifest
from mnemosyne.domain.history.page_layout import BlockUse, lay_out
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.objects.aggregate import make_object
from mnemosyne.domain.objects.events import ObjectFaulted
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.recall.memory_results import record_name, render_shown_again
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import ContentMissing, NotFound
from mnemosyne.services.manifests import manifest_as_json, manifest_of, read_manifest
from mnemosyne.services.sessions import Archive
from tests.domain.memory_objects import made
from tests.golden.sessions import FOLDERS, LOGS, opened
from tests.replay import stories
from tests.services.manifest_checks import check_manifest
from tests.services.talking import Plain, rich_session, talking

WITH_CONTENTS = [folder for folder in FOLDERS if (folder / "contents.jsonl").exists()]


async def check_all(archive: Archive) -> list[Manifest]:
    """The manifests of every request on record, each checked against the request."""
    found = []
    for stream in await archive.events.streams():
        events = await archive.events.read(stream)
        history = history_of(str(stream), events)
        for attempt in history.attempts:
            for each in [attrs.evolve(attempt, round=each) for each in attempt.rounds] or [attempt]:
                try:
                    manifest = await manifest_of(archive, stream, events, history, each)
                except (ContentMissing, NotFound):
                    continue  # a session that was forgotten, or a request that is no conversation
                await check_manifest(archive, stream, history, manifest)
                found.append(manifest)
    return found


def levels(manifests: list[Manifest]) -> Counter[Fidelity]:
    return Counter(page.level for manifest in manifests for page in manifest.pages if page.blocks)


async def test_the_manifest_of_every_recorded_request_agrees_with_its_bytes() -> None:
    """The recorded sessions hold blocks of every use, or this would say less than it seems to."""
    found = [each for folder in WITH_CONTENTS for each in await check_all(opened(folder))]
    uses = {other.use for manifest in found for other in manifest.others}
    assert uses >= set(BlockUse) - {BlockUse.UNKNOWN, BlockUse.FILLER}
    assert set(levels(found)) >= {Fidelity.FULL, Fidelity.COMPACT, Fidelity.EVICTED}


@pytest.mark.parametrize(
    ("seed", "turns"), [(6, 12), *(pytest.param(seed, 30, marks=pytest.mark.soak) for seed in range(20, 40))]
)
async def test_the_manifests_of_any_managed_story_agree_with_its_requests(seed: int, turns: int) -> None:
    """Whatever a user, an agent and its model do: rewrites, restores, forks, cleanup tags, texts that are brought."""
    found = await check_all(Plain(await stories.play(seed, turns=turns)))
    assert set(levels(found)) >= {Fidelity.FULL, Fidelity.EVICTED}


async def test_an_observed_session_has_every_page_in_full() -> None:
    async with talking() as talk:
        await rich_session(talk)
    found = await check_all(talk.archive)
    assert set(levels(found)) == {Fidelity.FULL}


async def managed() -> tuple[Archive, Manifest]:
    """An archive, and the manifest of a request in which pages stand at several levels."""
    archive = opened(LOGS / "managed-before-tariffs")
    (stream,) = await archive.events.streams()
    return archive, await read_manifest(archive, str(stream), "main", "8")


async def test_what_a_manifest_says_wrongly_is_noticed() -> None:
    """A check that agrees with everything would prove nothing."""
    archive, manifest = await managed()
    history = history_of("", await archive.events.read(manifest.stream))
    page = next(each for each in manifest.pages if each.level is Fidelity.COMPACT)
    full = next(each for each in manifest.pages if each.level is Fidelity.FULL)
    wrong = [
        attrs.evolve(page, level=Fidelity.FULL),
        attrs.evolve(page, blocks=full.blocks),
        attrs.evolve(page, blocks=()),
        attrs.evolve(page, level=Fidelity.STUB),
    ]
    for each in wrong:
        pages = [each if page.object.id == other.object.id else other for other in manifest.pages]
        with pytest.raises(AssertionError):
            await check_manifest(archive, manifest.stream, history, attrs.evolve(manifest, pages=pages))
    for others in (manifest.others[1:], (*manifest.others, attrs.evolve(manifest.others[0], number=full.blocks[0]))):
        with pytest.raises(AssertionError):
            await check_manifest(archive, manifest.stream, history, attrs.evolve(manifest, others=others))
    with pytest.raises(AssertionError):
        await check_manifest(archive, manifest.stream, history, attrs.evolve(manifest, sha256=b"x" * 32))


async def test_what_is_memorys_own_is_counted_and_the_rest_is_not() -> None:
    _, manifest = await managed()
    ours = {BlockUse.MEMORY_TOOL, BlockUse.TOLD, BlockUse.OBSERVED, BlockUse.FILLER}
    stubs = sum(each.object.stub_tokens for each in manifest.pages if each.blocks and each.level is Fidelity.STUB)
    assert any(each.use in ours for each in manifest.others)
    assert stubs < manifest.metadata < manifest.tokens
    assert manifest_as_json(manifest)["request"]["metadata"] == manifest.metadata
    async with talking() as talk:
        await rich_session(talk)
    assert [each.metadata for each in await check_all(talk.archive) if each.metadata] == []


async def test_its_json_names_the_request_the_policy_the_budget_and_why_each_page_is_as_it_is() -> None:
    _, manifest = await managed()
    told = manifest_as_json(manifest)
    assert told["manifest"] == 2
    assert (told["branch"], told["turn"], told["attempt"], told["round"]) == ("main", 8, 1, 1)
    assert (told["request"]["sha256"], told["request"]["ok"]) == (manifest.sha256.hex(), True)
    assert (told["policy"]["mode"], told["policy"]["window"], told["policy"]["tariff"]) == ("manage", 14_000, "api")
    assert told["budget"]["zone"] == "caution"
    assert (told["epoch"]["number"], told["epoch"]["turn"]) == (4, 8)
    by_why = {(each["level"], each["why"], each["since"]): each for each in told["pages"]}
    assert by_why.keys() == {("L0", None, None), ("L4", "pressure", 5), ("L4", "pressure", 8), ("L2", "prefetch", 6)}
    brought = by_why["L2", "prefetch", 6]
    assert brought["levels"]["L2"] == brought["tokens"] < brought["tokens_in_full"]
    assert 0 <= brought["worth"] <= 1
    shown = [each for each in told["pages"] if each["blocks"]]
    assert told["effective"] == {
        "sent": sum(each["tokens"] for each in shown),
        "used_later": sum(each["tokens"] for each in shown if each["used_later"]),
    }


async def test_what_was_needed_again_after_a_request_was_of_use_in_it() -> None:
    archive = opened(LOGS / "hidden-rounds")
    (stream,) = await archive.events.streams()
    events = await archive.events.read(stream)
    missed = {each.envelope.event.object for each in events if isinstance(each.envelope.event, ObjectFaulted)}
    before, last = [await read_manifest(archive, str(stream), "main", turn) for turn in ("4", "7")]
    assert {page.object.id for page in before.pages if page.is_used} >= missed != set()
    assert missed.isdisjoint(page.object.id for page in last.pages if page.is_used)


async def test_of_a_managed_turn_the_first_request_that_went_upstream_is_described() -> None:
    archive = opened(LOGS / "hidden-rounds")
    (stream,) = await archive.events.streams()
    first, second = [await read_manifest(archive, str(stream), "main", turn) for turn in ("5", "5/2")]
    assert [manifest_as_json(each)["round"] for each in (first, second)] == [1, 2]
    assert first.sha256 != second.sha256


async def test_a_request_that_is_no_conversation_has_none() -> None:
    archive = opened(LOGS / "observed")
    (stream,) = await archive.events.streams()
    history = history_of("", await archive.events.read(stream))
    opaque = next(each.began for each in history.attempts if each.began.opaque is not None)
    with pytest.raises(NotFound, match="has no manifest"):
        await read_manifest(archive, str(stream), opaque.branch, f"{opaque.turn}.{opaque.attempt}")


@pytest.mark.parametrize("back", [0, 1, 2])
async def test_of_pages_with_equal_words_the_one_that_came_back_is_not_in_its_own_place(back: int) -> None:
    words = "We decided to make nine attempts."
    texts = ["a", words, "b", words, "c", words, "d"]
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": [{"type": "text", "text": each}]} for n, each in enumerate(texts)]
    pages = {
        each: (make_object(made(each, 2 * number + 1)), Fidelity.FULL)
        for number, each in enumerate(("aaaaaaa", "bbbbbbb", "ccccccc"))
    }
    came = list(pages)[back]
    brought = render_shown_again([(record_name(pages[came][0], Fidelity.FULL), words)])
    sent = [each for number, each in enumerate(messages) if number != 2 * back + 1]
    sent[-1] = {"role": "user", "content": [{"type": "text", "text": "d"}, {"type": "text", "text": brought}]}
    client, wire = (json.dumps({"messages": each}).encode() for each in (messages, sent))
    views = [view(body, (), MESSAGES) for body in (wire, client)]
    layout = lay_out(wire, views[0], views[1], pages, {}, None)
    assert layout.back == {came}
    others = [each for each in pages if each != came]
    standing = [number for number, each in enumerate(sent) if each["role"] == "assistant"]
    assert layout.blocks == {came: (len(sent),), **{each: (at,) for each, at in zip(others, standing, strict=True)}}
