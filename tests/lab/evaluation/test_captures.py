"""Requests of real clients can be evaluated: recorded as the server records them, exported, evaluated."""

import json
from functools import partial
from pathlib import Path

import pytest
import trio

from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.services.exporting import export
from mnemosyne_lab.evaluation.exports import conversations
from mnemosyne_lab.evaluation.policy import MODEL, Settings
from mnemosyne_lab.evaluation.running import RunPlan, evaluate
from tests.actors.support import CODEC, StoppableLog, open_process
from tests.actors.test_recorded import EXPECTED, reply_of, runs
from tests.domain.recorded import dumps
from tests.services.talking import Plain

pytestmark = pytest.mark.release

SAID = [name for name in runs() if name != "oc-openai"]
"""All but the dialect that the server does not record."""


@pytest.mark.parametrize("session", SAID or [pytest.param("", marks=pytest.mark.skip("no recorded inputs here"))])
async def test_every_captured_session_is_evaluated_from_its_export(session: str, tmp_path: Path) -> None:
    log = StoppableLog()
    async with open_process(log) as process:
        for path in runs()[session]:
            capture = json.loads(path.read_text())
            headers = tuple((name, value) for name, value in capture["headers"])
            turn = process.opener.open_turn(headers, dumps(capture["body"]), MESSAGES)
            await turn.note_begun()
            await turn.note_finished(*reply_of(path))
    (stream,) = await log.streams()
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"".join([line async for line in export(Plain(log), stream, CODEC)]))

    said: list[str] = []
    asked = RunPlan(policies=["mnemosyne"], settings=Settings(model=MODEL, fixed=20_000), model=None)
    judge = partial(
        evaluate,
        [file],
        asked,
        exported=partial(conversations, codec=CODEC),
        say=said.append,
        progress=lambda *_: None,
        workers=1,
    )
    found = await trio.to_thread.run_sync(judge)
    assert not [sentence for sentence in said if "Skipped" in sentence]
    judged = {each.name.split()[-1]: each for each in found.policies[0].sessions}
    turns = {name: each.turns for name, each in judged.items()}
    assert turns["main"] >= 1
    assert {branch.split()[0].rstrip(":") for branch in EXPECTED[session]} >= turns.keys()
    assert {each.wire_violations for each in judged.values()} == {0}
