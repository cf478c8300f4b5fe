"""A turn or round in a person's notation is rebuilt, shown and compared."""

from hashlib import sha256
from typing import cast

import attrs
import pytest

from mnemosyne.domain.history.time_travel import TurnPlace, history_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.round_events import RoundBegan
from mnemosyne.errors import BadOption, NotFound
from mnemosyne.services.contexts import compare_turns, context_of, read_context, rebuild_turn
from mnemosyne.services.verifying import verify
from tests.http.managing import Client, look, model_says, open_stage, recall, results, text, think
from tests.services.talking import Plain
from tests.services.test_search import talked
from tests.services.test_verifying import Altered


async def test_every_attempt_is_rebuilt_to_the_sent_bytes() -> None:
    talk = await talked()
    for address, sent in talk.sent.items():
        name = f"{address.turn}.{address.attempt}"
        rebuilt = await rebuild_turn(talk.archive, "a client's session", address.branch, name)
        assert (rebuilt.proven, rebuilt.difference) == (True, None)
        assert rebuilt.withheld == (b"hunter2" in sent)
        assert rebuilt.body == sent.replace(b"hunter2-hunter2", b"*" * 15)


async def test_a_body_with_another_hash_is_not_proven() -> None:
    talk = await talked()
    rebuilt = await rebuild_turn(talk.archive, "a client's session", "main", "1.1")
    for other in (rebuilt.body + b" ", b"x" * len(rebuilt.body)):
        changed = attrs.evolve(rebuilt, body=other, sha256=sha256(other).digest())
        assert not changed.proven
        assert changed.difference is not None
        assert sha256(other).hexdigest() in changed.difference


async def test_the_default_turn_is_the_last_one_with_its_reply() -> None:
    talk = await talked()
    last = max(address.turn for address in talk.sent if address.branch == "main")
    found = await read_context(talk.archive, str(talk.stream), "main", None)
    assert (found.stream, found.rebuilt.attempt.address.turn) == (talk.stream, last)
    assert [block.kind for block in found.reply] == ["text"]
    assert found.reply_size


async def test_a_comparison_lists_added_and_removed_blocks() -> None:
    talk = await talked()
    same = await compare_turns(talk.archive, str(talk.stream), "main", ["2", "2"])
    assert (list(same.changes), same.settings) == ([], {})
    grown = await compare_turns(talk.archive, str(talk.stream), "main", ["1", "2"])
    assert {change.what for change in grown.changes} == {"added"}
    assert len(grown.changes) == 2
    shrunk = await compare_turns(talk.archive, str(talk.stream), "main", ["2", "1"])
    assert {change.what for change in shrunk.changes} == {"removed"}


@pytest.mark.parametrize(
    ("session", "branch", "turn", "error"),
    [
        ("nobody", "main", None, NotFound),
        ("a client", "nowhere", None, NotFound),
        ("a client", "main", "99", NotFound),
        ("a client", "main", "1:2", BadOption),
        ("a client", "main", "x", NotFound),
    ],
)
async def test_an_unknown_session_branch_or_turn_is_refused(
    session: str, branch: str, turn: str | None, error: type[Exception]
) -> None:
    talk = await talked()
    with pytest.raises(error):
        await read_context(talk.archive, session, branch, turn)


# Rounds of a managed session

REPLIES = [
    model_says(think("I forgot."), text("Let me see. " * 40), recall()),
    model_says(think("So."), look(at="this"), recall("and that? " * 40)),
    model_says(recall("again?")),
    model_says(think("Done."), text("It is there.")),
]


async def test_a_round_is_the_upstream_request_with_the_provider_s_reply() -> None:
    async with open_stage({"replies": REPLIES}) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        await client.work("And now?")
        del client.history[2:]
        await client.turn(*results({"content": client.history[1]["content"]}), text("Never mind."))
    archive, (stream,) = Plain(stage.log), await stage.log.streams()
    recorded = await stage.log.read(stream)
    history = history_of(str(stream), recorded)
    shown: list[bytes] = []
    for branch, line in history.lines.items():
        for attempt in line.attempts:
            for number in range(1, len(attempt.rounds) + 1):
                place = TurnPlace(attempt.began.turn, attempt.began.attempt, number)
                found = await context_of(archive, stream, history, history.at(branch, place))
                assert found.rebuilt.proven
                origins = [block.origin for block in found.view.blocks if block.section == "messages"]
                assert origins
                assert all(origin is not None and origin <= attempt.began.turn for origin in origins)
                shown.append(found.rebuilt.body)
    assert sorted(shown) == sorted(each.body for each in stage.standin.messages)
    for address, hidden in (("1", False), ("1/1", True), ("1/2", True)):
        found = await read_context(archive, str(stream), "main", address)
        assert found.reply_size
        assert any(block.name == "memory_query" for block in found.reply) is hidden
    assert (await rebuild_turn(archive, str(stream), "main", "1")).body == client.bodies[0]
    with pytest.raises(NotFound, match="2 rounds, and not 3"):
        history.at("main", TurnPlace(1, None, 3))
    report = await verify(archive, stream)
    assert (report.verdict, report.attempts, report.rounds) == ("ok", len(client.bodies), len(shown))
    assert report.checked == report.attempts + report.rounds
    began = next(each for each in recorded if isinstance(each.envelope.event, RoundBegan))
    wrong = attrs.evolve(cast("RoundBegan", began.envelope.event), sha256=bytes(32))
    report = await verify(Altered(stage.log, stream, began.version, wrong).counted(), stream)
    assert (report.verdict, report.differences[0].address) == ("differs", Address("main", 1, 1))
