"""Recorded sessions of many clients, sent to the actors: each is one branch and rebuilt."""

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.actors.messages import Finish
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import CHAIN_BYTES
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.reply import Reply
from tests.actors.support import CODEC, events_of, open_actor, rebuilt
from tests.actors.test_recorded import numbers, structure
from tests.domain import recorded
from tests.domain.recorded import dumps

FILES = (
    sorted((recorded.DATA / "sessions").glob("*.jsonl"))
    if recorded.DATA.is_dir()
    else [pytest.param(Path(), marks=pytest.mark.skip("no recorded inputs here"))]
)
"""The recorded sessions; loaded by the tests, as these are large."""


@pytest.mark.parametrize("file", FILES, ids=attrgetter("stem"))
async def test_the_beginning_of_recorded_sessions_is_one_branch_and_rebuilt(file: Path) -> None:
    for session in sessions(file)[::25]:
        await check_session(session, limit=15)


@pytest.mark.soak
@pytest.mark.parametrize("file", FILES, ids=attrgetter("stem"))
async def test_every_recorded_session_is_one_branch_and_rebuilt(file: Path) -> None:
    for session in sessions(file):
        await check_session(session, limit=None)


def sessions(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def check_session(session: dict[str, Any], limit: int | None) -> None:
    log = PlainLog(CODEC)
    bodies = list(recorded.requests(session, limit))
    counts = [turn["msg"] for turn in session["turns"][:limit] if turn["msg"]]
    async with open_actor(log) as teller:
        for body, count in zip(bodies, counts, strict=True):
            address = await teller.begin(raw=body)
            await teller.tell(answer(address, session["messages"][count] if count < len(session["messages"]) else {}))
        last = transcript.read(bodies[-1]).transcript
        known = teller.actor.state.branches["main"].chains
        assert known == tuple(message.chain[:CHAIN_BYTES] for message in last.messages)
    assert structure(await events_of(log)) == [f"main: {numbers(len(bodies))}"], session["name"]
    assert list((await rebuilt(log, log)).values()) == bodies


def answer(address: Address, message: dict[str, Any]) -> Finish:
    """The recorded reply."""
    body = dumps({"id": "msg", "role": "assistant", "content": message.get("content", [])})
    said = Reply(body, True, "msg", None, None, {}, None)
    return Finish(at=2, address=address, status=200, reply=said, correlation_id="c")
