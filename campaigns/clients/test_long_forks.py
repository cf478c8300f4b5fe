"""A real agent continues from turn 30 of long managed work in a session of its own, with the provider's cache."""

import re
import tempfile
from pathlib import Path

import pytest

from campaigns.clients.long_work import recorded
from campaigns.clients.test_forks_of_agents import command, prompt_of
from campaigns.clients.test_long_work import WINDOW
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne_lab.provider.reading import Json
from mnemosyne_lab.provider.server import HttpExchange
from tests.clients.agents import CLAUDE_CODE
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_managed_agents import MANAGE, thinking
from tests.clients.workspace import MNEMOSYNE, Workspace, finished, open_workspace, serving

pytestmark = pytest.mark.clients

TURNS = 30


@pytest.mark.soak
def test_fork_at_turn_30_of_long_managed_work_uses_the_cache_and_restores_its_files(
    programs: Path, tmp_path: Path
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="mnemosyne-clients-") as folder,
        standin_in_a_thread() as standin,
        serving(standin, "--manage-window", str(WINDOW), data_dir=Path(folder) / "data") as server,
    ):
        at = open_workspace(CLAUDE_CODE, programs, server, tmp_path)
        spoil = [at.agent.shell("echo spoilt > part_003.py"), at.agent.write(at.project / "new.txt", "new\n")]
        at.script(
            *_work(at),
            {"when": {"prompt": "Spoil them"}, "replies": [{"content": spoil}, {"text": "Spoilt."}]},
            {"when": {"last": "Something else"}, "reply": {"text": "Else."}},
        )
        options = (*at.server.options, *MANAGE, "--record-worktree")
        parent = at.run("Begin the long work", options=options)
        last = at.standin.messages[-1]
        at.run("Spoil them", goes_on=True, options=options)
        asked = len(at.standin.messages)
        (session,) = command(at, "sessions")
        line = [*MNEMOSYNE, "run", *at.server.options, *MANAGE, "--fork", f"{parent.session}@{TURNS}", "--with-files"]
        said = finished([*line, "--", *CLAUDE_CODE.command("Something else")], at.environment, at.project)
        assert CLAUDE_CODE.parse_output(said).text == "Else."
        branches = [(each["kind"], each["forked_at"]) for each in command(at, "branches", session["id"])]
        assert branches == [("main", None), ("fork", TURNS)]
        (fork,) = at.standin.messages[asked:]
        before = prompt_of(last.json())
        assert prompt_of(fork.json())[: len(before)] == before
        assert _read_from_cache(fork) >= 0.95 * _size(last)
        assert len([each for each in recorded(server.data_dir) if isinstance(each, EpochBegan)]) >= 1
        assert (at.project / "part_003.py").read_text().startswith("# MARK_003\nstate = 'new'")
        assert not (at.project / "new.txt").exists()
        assert [str(each) for each in standin.violations] == []
        finished([*MNEMOSYNE, "verify", "--data-dir", str(server.data_dir)], at.environment, at.project)


def _work(at: Workspace) -> list[Json]:
    """Files of which each turn reads one, and every fifth also changes the previous one; derived from the last
    visible file, because a rewritten history does not show the number of rounds.
    """
    files = [at.project / f"part_{number:03}.py" for number in range(TURNS - 1)]
    steps = []
    for number, file in enumerate(files):
        lines = [f"value_{line} = compute({line * 37 + number}, 'file {number}')" for line in range(300)]
        file.write_text("\n".join([f"# MARK_{number:03}", "state = 'old'", *lines]))
        change = [at.agent.edit(files[number - 1], "state = 'old'", "state = 'new'")] if number % 5 == 4 else []
        steps.append({"content": [thinking(f"Number {number}."), at.agent.read(file), *change]})
    heard = ["Begin the long work", *(f"MARK_{number:03}" for number in range(TURNS - 1))]
    replies: list[Json] = [*steps, {"text": "A part is done."}]
    return [{"when": {"last": last, "tools": True}, "reply": reply} for last, reply in zip(heard, replies, strict=True)]


def _read_from_cache(exchange: HttpExchange) -> int:
    """The number of tokens of a request that the provider read from its cache."""
    return int(re.findall(rb'"cache_read_input_tokens": ?(\d+)', exchange.payload)[0])


def _size(exchange: HttpExchange) -> int:
    """The provider's token count of a request, without the part after its last marker."""
    return _read_from_cache(exchange) + int(re.findall(rb'"cache_creation_input_tokens": ?(\d+)', exchange.payload)[0])
