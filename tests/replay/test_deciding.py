"""Today's code replays a stored session; differences are reported."""

import json
from pathlib import Path

import attrs
import pytest

from mnemosyne.actors import deferred_work
from mnemosyne.actors.messages import CompleteDeferred
from mnemosyne.domain.cost.tariffs import API
from mnemosyne.domain.history import replay
from mnemosyne.domain.objects.events import ObjectCreated, ObjectPinned
from mnemosyne.domain.ports import Append, Content, Envelope
from mnemosyne.domain.session import ledger
from mnemosyne.domain.session.events import TurnBegan, TurnRelation
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.replay.deciding import REMOVED, review
from mnemosyne.services.forgetting import forget
from tests.domain.session_events import opened_branch
from tests.golden.sessions import LOGS, opened, stored
from tests.services.talking import Plain, Talk, body, plain, rich_session, talking, user


async def copy_with(talk: Talk, **at: object) -> Plain:
    """The session copied into another log, with some fields of one event changed."""
    archive = plain()
    events = await talk.archive.log.read(talk.stream)
    contents = talk.archive.log._contents[talk.stream]
    stored = tuple(Content(digest, data) for digest, data in contents.items() if data is not None)
    version = at.pop("version")
    envelopes = tuple(
        attrs.evolve(each.envelope, event=attrs.evolve(each.envelope.event, **at))
        if each.version == version
        else each.envelope
        for each in events
    )
    await archive.journal.append(Append(talk.stream, 0, envelopes, stored))
    return archive


async def test_replay_of_every_kind_of_request_gives_the_same_decisions() -> None:
    async with talking() as talk:
        await rich_session(talk)
    found = await review(talk.archive, str(talk.stream))
    assert (found.differences, found.skipped) == ([], [])
    assert found.decisions > 20


async def test_a_changed_decision_is_reported_with_both_values() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One")]))
        await talk.ask(body([user("One")]))
    began = [each for each in await talk.archive.log.read(talk.stream) if isinstance(each.envelope.event, TurnBegan)]
    other = await copy_with(talk, version=began[1].version, relation=TurnRelation.CONTINUES, model="another")
    found = await review(other, str(talk.stream))
    first, second, *account = found.differences
    assert (first.version, first.event, first.field) == (began[1].version, "TurnBegan", "relation")
    assert (first.recorded, first.today) == ("continues", "repeats")
    assert (second.field, second.recorded, second.today) == ("model", "another", "claude-opus-5-5")
    assert [each.event for each in account] == ["TurnAccounted"]  # whose model was not changed


def account_bounded(command: ledger.AccountTurn, held: ledger.Ledger) -> TurnAccounted:
    """The account of a server before 2026-11-29."""
    return ledger.account(attrs.evolve(command, bounded=True), held)


async def test_accounts_before_openai_s_cache_was_expected_are_counted_and_no_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as before:
        before.setattr(deferred_work, "find_tariff_name", lambda *given, **named: API)
        before.setattr(deferred_work, "account", account_bounded)
        tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
        async with talking() as talk:
            for turns in (1, 2):
                said = [
                    {"role": ("user", "assistant")[n % 2], "content": f"{n} word" * 2_000} for n in range(2 * turns)
                ]
                raw = json.dumps({"model": "gpt-6.2-sol", "tools": tools, "messages": said[:-1]}).encode()
                begun = await talk.ask(raw, reply=None, dialect=CHAT)
                counts = {"prompt_tokens": len(raw) // 4, "completion_tokens": 9, "cached_tokens": 0}
                choice = {"message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}
                reply = json.dumps({"choices": [choice], "usage": counts}).encode()
                await talk.finish_with(begun, CHAT.read_reply(reply))
    found = await review(talk.archive, str(talk.stream))
    assert (found.differences, found.old_accounts) == ([], 2)


async def test_accounts_that_ignored_a_count_far_from_the_estimate_do_not_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for old in (True, False):
        with monkeypatch.context() as before:
            if old:
                before.setattr(deferred_work, "account", account_bounded)
            async with talking() as talk:
                begun = await talk.ask(body([user("One.")]), reply=None)
                reply = {"type": "message", "content": [], "usage": {"input_tokens": 90_000, "output_tokens": 1}}
                await talk.finish_with(begun, MESSAGES.read_reply(json.dumps(reply).encode()))
        found = await review(talk.archive, str(talk.stream))
        assert (found.differences, found.old_accounts) == ([], int(old))


async def test_an_event_without_its_request_is_skipped() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One")]))
    opened = opened_branch("side-1")
    version = len(await talk.archive.log.read(talk.stream))
    await talk.archive.journal.append(Append(talk.stream, version, (Envelope(opened, "c", None),)))
    found = await review(talk.archive, str(talk.stream))
    assert [each.sentence for each in found.skipped] == [
        f"Event {version + 1} is skipped: its request is not in the log."
    ]


async def test_deleted_turns_are_skipped_and_later_ones_replayed() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One")]))
    await forget(talk.archive, talk.stream, lambda: 7, "c")
    async with talking(talk.archive) as again:
        await again.ask(body([user("One"), {"role": "assistant", "content": "Done."}, user("Two")]))
    found = await review(talk.archive, str(talk.stream))
    asked, remembered, *ended = found.skipped
    assert (asked.version, remembered.version) == (3, 4)
    assert all("forgotten" in each.sentence for each in (asked, *ended))
    assert "its request was not replayed" in remembered.sentence
    assert found.differences == []


async def test_turns_without_a_recorded_speaker_are_skipped() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One")]))
    old = await copy_with(talk, version=3, speaker=None)
    asked, remembered = (await review(old, str(talk.stream))).skipped
    assert "does not contain the client" in asked.sentence
    assert "its request was not replayed" in remembered.sentence


@pytest.mark.parametrize("attempts", [1, 3])
async def test_repeated_requests_and_their_ends_are_replayed(attempts: int) -> None:
    async with talking() as talk:
        addresses = [await talk.ask(body([user("One")]), reply=None) for _ in range(attempts)]
        for address in reversed(addresses):
            await talk.finish(address, "ok")
    found = await review(talk.archive, str(talk.stream))
    remembered = 1  # only the first attempt makes objects
    assert (found.decisions, found.differences, found.skipped) == (3 * attempts + remembered, [], [])


async def test_objects_that_a_pause_made_are_decided_again_also_after_requests_of_other_branches() -> None:
    async with talking() as talk:
        await rich_session(talk)
        before = await review(talk.archive, str(talk.stream))
        await talk.actor.mailbox.post(CompleteDeferred(closes=True)).wait()
        found = await review(talk.archive, str(talk.stream))
    assert (found.differences, found.skipped) == ([], [])
    assert found.decisions > before.decisions + 1


async def test_decisions_of_people_and_helpers_are_not_replayed() -> None:
    async with talking() as talk:
        await rich_session(talk)
    events = await talk.archive.log.read(talk.stream)
    (made, *_) = (each.envelope.event for each in events if isinstance(each.envelope.event, ObjectCreated))
    pinned = ObjectPinned(at=1, object=made.object, reason="a spec", until_turn=None)
    before = await review(talk.archive, str(talk.stream))
    await talk.archive.journal.append(Append(talk.stream, len(events), (Envelope(pinned, "c", None),)))
    assert await review(talk.archive, str(talk.stream)) == before


async def test_the_speaker_is_recorded_once_for_each_branch() -> None:
    async with talking(plain()) as talk:
        await rich_session(talk)
        events = await talk.archive.log.read(talk.stream)
    began = [each.envelope.event for each in events if isinstance(each.envelope.event, TurnBegan)]
    branches = [event.branch for event in began]
    assert [event.branch for event in began if event.speaker] == list(dict.fromkeys(branches))
    assert all(headers is not None for headers in replay.find_client_headers(events).values())


RETIRED = {"session.goal_changed.v1", "session.memory_brought.v1", "session.brought_judged.v1"}
FOLDERS = [
    folder
    for folder in sorted(LOGS.iterdir())
    if (folder / "contents.jsonl").exists() and RETIRED & {each.name for each in stored(folder)}
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_a_decision_with_goals_or_prefetch_is_skipped_with_a_note(folder: Path) -> None:
    archive = opened(folder)
    streams = dict.fromkeys(each.stream for each in stored(folder) if each.name in RETIRED)
    for stream in streams:
        found = await review(archive, str(stream))
        assert REMOVED in {each.why for each in found.skipped}
        assert not {"GoalChanged", "MemoryBrought", "BroughtJudged"} & {each.event for each in found.differences}
