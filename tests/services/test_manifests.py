"""A manifest agrees with its request: pages name their blocks and levels, and each other block has a named use."""

import json
from typing import Any

import attrs
import pytest

from mnemosyne.domain.history.context_view import view
from mnemosyne.domain.history.manifest import Manifest
from mnemosyne.domain.history.page_layout import BlockUse, lay_out
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.history.window_contents import list_contents
from mnemosyne.domain.objects.aggregate import make_object
from mnemosyne.domain.objects.events import ObjectFaulted
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.recall.memory_results import record_name, render_shown_again
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import ContentMissing, NotFound
from mnemosyne.services.manifests import manifest_as_json, manifest_of, read_manifest
from mnemosyne.services.sessions import Archive
from tests.domain.remembered import made
from tests.golden.sessions import FOLDERS, LOGS, opened
from tests.replay import stories
from tests.services.manifest_checks import check_manifest
from tests.services.talking import Plain, rich_session, talking

WITH_CONTENTS = [folder for folder in FOLDERS if (folder / "contents.jsonl").exists()]


async def check_all(archive: Archive) -> list[Manifest]:
    """The manifests of all recorded requests, each checked against its request."""
    found = []
    for stream in await archive.events.streams():
        events = await archive.events.read(stream)
        history = history_of(str(stream), events)
        for attempt in history.attempts:
            for each in [attrs.evolve(attempt, round=each) for each in attempt.rounds] or [attempt]:
                try:
                    manifest = await manifest_of(archive, stream, events, history, each)
                except (ContentMissing, NotFound):
                    continue  # a deleted session, or a request that is no conversation
                await check_manifest(archive, stream, history, manifest)
                contents = list_contents(manifest)
                assert contents.tokens == manifest.tokens or (contents.is_counted and contents.tokens > manifest.tokens)
                found.append(manifest)
    return found


def levels(manifests: list[Manifest]) -> set[Fidelity]:
    return {page.level for manifest in manifests for page in manifest.pages if page.blocks}


@pytest.mark.release
async def test_the_manifest_of_every_recorded_request_agrees_with_its_bytes() -> None:
    """The recorded sessions contain blocks of every use."""
    found = [each for folder in WITH_CONTENTS for each in await check_all(opened(folder))]
    uses = {other.use for manifest in found for other in manifest.others}
    assert uses >= set(BlockUse) - {BlockUse.UNKNOWN, BlockUse.FILLER}
    assert levels(found) >= {Fidelity.FULL, Fidelity.COMPACT, Fidelity.EVICTED}


@pytest.mark.parametrize(
    ("seed", "turns"), [(6, 12), *(pytest.param(seed, 30, marks=pytest.mark.soak) for seed in range(20, 40))]
)
async def test_the_manifests_of_a_managed_story_agree_with_its_requests(seed: int, turns: int) -> None:
    assert levels(await check_all(Plain(await stories.play(seed, turns=turns)))) >= {Fidelity.FULL, Fidelity.EVICTED}


async def managed() -> tuple[Archive, Manifest]:
    """An archive, and the manifest of a request with pages at several levels."""
    archive = opened(LOGS / "managed-before-tariffs")
    (stream,) = await archive.events.streams()
    return archive, await read_manifest(archive, str(stream), "main", "8")


async def test_a_wrong_manifest_fails_the_check() -> None:
    archive, manifest = await managed()
    history = history_of("", await archive.events.read(manifest.stream))
    page = next(each for each in manifest.pages if each.level is Fidelity.COMPACT)
    full = next(each for each in manifest.pages if each.level is Fidelity.FULL)

    def replace(**changes: Any) -> Manifest:
        changed = attrs.evolve(page, **changes)
        pages = [changed if page.object.id == other.object.id else other for other in manifest.pages]
        return attrs.evolve(manifest, pages=pages)

    extra = attrs.evolve(manifest.others[0], number=full.blocks[0])
    for wrong in (
        replace(level=Fidelity.FULL),
        replace(blocks=full.blocks),
        replace(blocks=()),
        replace(level=Fidelity.STUB),
        attrs.evolve(manifest, others=manifest.others[1:]),
        attrs.evolve(manifest, others=(*manifest.others, extra)),
        attrs.evolve(manifest, sha256=b"x" * 32),
    ):
        with pytest.raises(AssertionError):
            await check_manifest(archive, manifest.stream, history, wrong)


async def test_only_the_proxy_s_own_blocks_are_metadata() -> None:
    _, manifest = await managed()
    ours = {BlockUse.MEMORY_TOOL, BlockUse.TOLD, BlockUse.OBSERVED, BlockUse.FILLER}
    stubs = sum(each.object.stub_tokens for each in manifest.pages if each.blocks and each.level is Fidelity.STUB)
    assert any(each.use in ours for each in manifest.others)
    assert stubs < manifest.metadata < manifest.tokens
    assert manifest_as_json(manifest)["request"]["metadata"] == manifest.metadata
    async with talking() as talk:
        await rich_session(talk)
    observed = await check_all(talk.archive)
    assert levels(observed) == {Fidelity.FULL}
    assert [each.metadata for each in observed if each.metadata] == []


async def test_json_has_request_policy_budget_and_the_reason_for_each_page() -> None:
    _, manifest = await managed()
    manifested = manifest_as_json(manifest)
    assert manifested["manifest"] == 2
    assert (manifested["branch"], manifested["turn"], manifested["attempt"], manifested["round"]) == ("main", 8, 1, 1)
    assert (manifested["request"]["sha256"], manifested["request"]["ok"]) == (manifest.sha256.hex(), True)
    policy = [manifested["policy"][name] for name in ("mode", "window", "tariff", "grounding", "restores", "faults")]
    assert policy == ["manage", 14_000, "api", "free", "both", 3]
    assert manifested["budget"]["zone"] == "caution"
    assert (manifested["epoch"]["number"], manifested["epoch"]["turn"]) == (4, 8)
    tools = [block for block in manifest.view.blocks if block.section == "tools"]
    assert tools
    assert manifested["tools"]["tokens"] == sum(block.tokens or 0 for block in tools)
    other = attrs.evolve(manifest.view, blocks=tuple(each for each in manifest.view.blocks if each is not tools[0]))
    assert manifest_as_json(attrs.evolve(manifest, view=other))["tools"]["sha256"] != manifested["tools"]["sha256"]
    by_why = {(each["level"], each["why"], each["since"]): each for each in manifested["pages"]}
    assert by_why.keys() == {("L0", None, None), ("L4", "pressure", 5), ("L4", "pressure", 8), ("L2", "prefetch", 6)}
    prefetched = by_why["L2", "prefetch", 6]
    assert prefetched["levels"]["L2"] == prefetched["tokens"] < prefetched["tokens_in_full"]
    assert 0 <= prefetched["worth"] <= 1
    shown = [each for each in manifested["pages"] if each["blocks"]]
    assert manifested["effective"] == {
        "sent": sum(each["tokens"] for each in shown),
        "used_later": sum(each["tokens"] for each in shown if each["used_later"]),
    }


async def test_objects_needed_later_count_as_used_and_a_turn_is_its_first_round() -> None:
    archive = opened(LOGS / "hidden-rounds")
    (stream,) = await archive.events.streams()
    events = await archive.events.read(stream)
    missed = {each.envelope.event.object for each in events if isinstance(each.envelope.event, ObjectFaulted)}
    turns = ("4", "7", "5", "5/2")
    before, last, first, second = [await read_manifest(archive, str(stream), "main", turn) for turn in turns]
    assert {page.object.id for page in before.pages if page.is_used} >= missed != set()
    assert missed.isdisjoint(page.object.id for page in last.pages if page.is_used)
    assert [manifest_as_json(each)["round"] for each in (first, second)] == [1, 2]
    assert first.sha256 != second.sha256


async def test_a_request_that_is_no_conversation_has_no_manifest() -> None:
    archive = opened(LOGS / "observed")
    (stream,) = await archive.events.streams()
    history = history_of("", await archive.events.read(stream))
    opaque = next(each.began for each in history.attempts if each.began.opaque is not None)
    with pytest.raises(NotFound, match="has no manifest"):
        await read_manifest(archive, str(stream), opaque.branch, f"{opaque.turn}.{opaque.attempt}")


@pytest.mark.parametrize("back", [0, 1, 2])
async def test_of_pages_with_equal_text_the_restored_one_is_not_in_its_own_place(back: int) -> None:
    words = "We decided to make nine attempts."
    texts = ["a", words, "b", words, "c", words, "d"]
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": [{"type": "text", "text": each}]} for n, each in enumerate(texts)]
    pages = {
        each: (make_object(made(each, 2 * number + 1)), Fidelity.FULL)
        for number, each in enumerate(("aaaaaaa", "bbbbbbb", "ccccccc"))
    }
    restored = list(pages)[back]
    prefetched = render_shown_again([(record_name(pages[restored][0], Fidelity.FULL), words)])
    sent = [each for number, each in enumerate(messages) if number != 2 * back + 1]
    sent[-1] = {"role": "user", "content": [{"type": "text", "text": "d"}, {"type": "text", "text": prefetched}]}
    client, wire = (json.dumps({"messages": each}).encode() for each in (messages, sent))
    views = [view(body, (), MESSAGES) for body in (wire, client)]
    layout = lay_out(wire, views[0], views[1], pages, {}, None)
    assert layout.back == {restored}
    others = [each for each in pages if each != restored]
    standing = [number for number, each in enumerate(sent) if each["role"] == "assistant"]
    assert layout.blocks == {restored: (len(sent),), **{each: (at,) for each, at in zip(others, standing, strict=True)}}
