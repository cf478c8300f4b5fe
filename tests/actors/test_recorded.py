"""Requests and replies of real clients, sent to the actors: each is placed on the expected branch and rebuilt."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from mnemosyne.domain.session.events import BranchOpened, Event, TurnBegan
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.http.reply_copy import copy_for
from tests.actors.support import StoppableLog, events_of, open_process, rebuilt
from tests.domain import recorded
from tests.domain.recorded import dumps


def numbers(last: int) -> str:
    return " ".join(str(number) for number in range(1, last + 1))


EXPECTED = {
    "cc-agent": ["main: 1 2 3", "agent-1 on main@2: 1 2"],
    "cc-bash": ["main: 1 2"],
    "cc-loop30": [f"main: {numbers(31)}"],
    "cc-mixed": ["main: 1 2"],
    "cc-multithink": ["main: 1 2"],
    "cc-parallel": ["main: 1 2"],
    "cc-pty": ["side-1: 1", "main: 1 2 3 4"],  # a title is asked for before the first turn
    "cc-read": ["main: 1 2"],
    "cc-think": ["main: 1 2 3"],
    "cc-toolinput": ["main: 1 2"],
    # Five runs that continue each other. Both prompts for a summary amend the last message of turn 7.
    "cc-turns": [
        "main: 1 2 3 4 5 6 7",
        "compaction-1 on main@6+13: 7",
        "compaction-2 on main@6+13: 7",
        "successor-1 on main@7: 1 2",
    ],
    "cc-unknown": ["main: 1 2"],
    "cc-x-errmid": ["main: 1 2 3 4"],  # it continues from the part that arrived
    # It puts a notice into the first message: no history is shared.
    "cc-x-stop_mismatch": ["main: 1", "main-2: 1", "main-3: 1"],
    "cc197-think": ["side-1: 1", "main: 1 2 3"],
    "oc-agent": ["side-1: 1", "main: 1 2", "agent-1 on main@1: 1 2"],
    "oc-bash": ["side-1: 1", "main: 1 2"],
    "oc-loop30": ["side-1: 1", f"main: {numbers(31)}"],
    "oc-multithink": ["side-1: 1", "main: 1 2"],
    "oc-openai": ["opaque-1: 1", "opaque-2: 1 2"],  # the title's conversation, then the main one
    "oc-opus55-high": ["side-1: 1", "main: 1"],
    "oc-opus55-think": ["side-1: 1", "main: 1 2 3"],
    "oc-parallel": ["side-1: 1", "main: 1 2"],
    "oc-read": ["side-1: 1", "main: 1 2"],
    "oc-think": ["side-1: 1", "main: 1 2 3"],
    "oc-toolinput": ["side-1: 1", "main: 1 2"],
    "oc-turns": ["side-1: 1", "main: 1 2 3 4"],
    "oc-x-e400long": ["side-1: 1", "main: 1", "compaction-1 on main@1: 1", "successor-1 on main@1: 1"],
    # It renames a call to a tool that it does not know: a reply rewritten, but nothing that it has sent before.
    "oc-x-mixed": ["side-1: 1", "main: 1 2 (rewritten)"],
    "oc-x-unknown": ["side-1: 1", "main: 1 2 (rewritten)"],
}


def runs() -> dict[str, list[Path]]:
    """The captured requests for a reply by session; the runs of one session follow each other."""
    found: dict[str, list[Path]] = {}
    if recorded.DATA.is_dir():
        for path in sorted((recorded.DATA / "captures").glob("*/*-POST-*messages.json")):
            name = path.parent.name
            session = "cc-turns" if name.startswith("cc-turn") else "oc-turns" if name.startswith("oc-turn") else name
            found.setdefault(session, []).append(path)
        for path in sorted((recorded.DATA / "captures").glob("oc-openai/*-POST-*completions.json")):
            found.setdefault("oc-openai", []).append(path)
    return found


def reply_of(path: Path) -> tuple[ReplyHead, Reply]:
    """The captured reply, read as the relay reads it."""
    data = path.with_name(path.name.replace(".json", ".reply.txt")).read_bytes()
    kind = b"text/event-stream" if data.startswith((b"event:", b"data:", b":")) else b"application/json"
    status = 200 if b'"type": "error"' not in data[:40] else 400
    head = ReplyHead(status, ((b"content-type", kind),))
    reading = copy_for(head, MESSAGES)
    list(reading.feed(data))
    reading.close()
    return head, reading.reply.result()


def structure(events: Iterable[Event]) -> list[str]:
    """A readable outline of a session: each branch, its origin (``@``: after which turn; ``+``: sharing how many
    messages of it) and its turns.
    """
    branches: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, BranchOpened):
            on = f" on {event.parent}@{event.forked_at}" if event.parent else ""
            branches[event.branch] = [event.branch + on + (f"+{event.kept}" if event.inherits else "") + ":"]
        elif isinstance(event, TurnBegan):
            attempt = f".{event.attempt}" if event.attempt > 1 else ""
            echo = f" ({event.echo.value})" if event.echo and event.echo.value != "same" else ""
            branches[event.branch].append(f"{event.turn}{attempt}{echo}")
    return [" ".join(branch) for branch in branches.values()]


@pytest.mark.parametrize("session", runs() or [pytest.param("", marks=pytest.mark.skip("no recorded inputs here"))])
async def test_captured_session_has_the_expected_branches(log: StoppableLog, session: str) -> None:
    sent = []
    async with open_process(log) as process:
        for path in runs()[session]:
            capture = json.loads(path.read_text())
            sent.append(dumps(capture["body"]))
            turn = process.opener.open_turn(
                tuple((name, value) for name, value in capture["headers"]), sent[-1], MESSAGES
            )
            await turn.note_begun()
            await turn.note_finished(*reply_of(path))
    (stream,) = await log.streams()
    events = await events_of(log, stream)
    assert structure(events) == EXPECTED[session]
    assert list((await rebuilt(log, log, stream)).values()) == sent
