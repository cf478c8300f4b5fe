"""Codex through us: it speaks another dialect than the other agents, and is on record and managed like them."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from mnemosyne.domain.objects.events import ObjectRestored
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.lab.provider import from_data
from mnemosyne.lab.provider.reading import Json
from tests.clients.desk import CLIENT_SECONDS, MNEMOSYNE, Server, bare_environment, finished, serving, visit
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_long_work import FIRST, SECOND, WINDOW, file, fill, mark, recorded

pytestmark = pytest.mark.clients


def run(command: str) -> Json:
    return {"type": "tool_use", "name": "exec_command", "input": {"cmd": command}}


def codex(
    server: Server,
    programs: Path,
    home: Path,
    project: Path,
    prompt: str,
    *options: str,
    of_run: Sequence[str] = (),
) -> str:
    """`mnemosyne run -- codex exec`, to its end, with options behind it and of `run`; what it said last."""
    (home / "codex").mkdir(exist_ok=True)
    environment = bare_environment(home) | {"CODEX_HOME": str(home / "codex"), "OPENAI_API_KEY": "a-dummy-key"}
    environment |= {"CODEX_API_KEY": "a-dummy-key", "PATH": f"{programs}:{environment['PATH']}"}
    command = ["codex", "-s", "danger-full-access", "exec", "--skip-git-repo-check", "-c", "model=gpt-5.5", *options]
    done = subprocess.run(
        [*MNEMOSYNE, "run", *server.options, *of_run, "--", *command, prompt],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_loop_of_tools_and_its_resumption_are_one_conversation_on_record(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("The colour is teal.\n")
    here = visit(server)
    here.script(
        {
            "when": {"prompt": "colour"},
            "replies": [
                {"content": [{"type": "thinking", "thinking": "Look first."}, run("cat notes.txt")]},
                {"content": [run("ls -la"), run("seq 1 300")]},
                {"text": "It is teal."},
            ],
        },
        {"when": {"prompt": "again"}, "replies": [{"content": [run("echo more > more.txt")]}, {"text": "Done."}]},
    )
    assert codex(server, programs, tmp_path, project, "Which colour is it?") == "It is teal."
    codex(server, programs, tmp_path, project, "And again.", "resume", "--last")
    assert (project / "more.txt").read_text() == "more\n"
    found = here.recorded()
    assert [turn.attempt for turn in found.turns] == [1] * 5
    assert [found.history.dialect_of(branch).name for branch in found.history.lines] == ["responses"]


@pytest.mark.parametrize("provider", ["OpenAI", "another"])
def test_a_window_that_it_compacted_is_followed_by_one_of_its_own(
    programs: Path, server: Server, tmp_path: Path, provider: str
) -> None:
    """It has its vendor's own provider compact by an item, and others by a prompt."""
    full = {"input_tokens": 200_000, "output_tokens": 10, "total_tokens": 200_010}
    here = visit(server)
    here.script(
        {"when": {"prompt": "CONTEXT CHECKPOINT"}, "reply": {"text": "The colour is teal."}},
        {"when": {"prompt": "colour"}, "times": 1, "reply": {"content": [run("echo teal")], "usage": full}},
        {"when": {"prompt": "colour", "rounds": 0}, "reply": {"text": "It is teal."}},
    )
    named = f'{{name="{provider}",base_url="{server.url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
    settings = ("model_auto_compact_token_limit=100000", "model_provider=p", f"model_providers.p={named}")
    options = [word for setting in settings for word in ("-c", setting)]
    assert codex(server, programs, tmp_path, tmp_path, "Which colour is it?", *options) == "It is teal."
    assert here.recorded().branches == {"main": 1, "compaction-1": 1, "successor-1": 1}


# Managed


def look(project: Path, number: int) -> list[Json]:
    """Read a file; now and then change the one before besides."""
    calls = [{"type": "thinking", "thinking": f"Number {number}."}, run(f"cat {file(project, number)}")]
    if number % 5 == 4:
        calls.append(run(f"sed -i s/old/new/ {file(project, number - 1)}"))
    return calls


def loop(project: Path, prompt: str, numbers: range, last: str, begin: list[Json]) -> list[Json]:
    """The work by what was seen last, because a history that was rewritten does not tell how many rounds there were."""
    rules: list[Json] = [
        {"when": {"last": mark(number - 1), "tools": True}, "reply": {"content": look(project, number)}}
        for number in numbers[1:]
    ]
    rules.append({"when": {"last": mark(numbers[-1]), "tools": True}, "reply": {"text": last}})
    return [{"when": {"last": prompt}, "reply": {"content": [*begin, *look(project, numbers[0])]}}, *rules]


def test_it_finishes_long_work_in_a_small_window(programs: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    fill(project)
    settings = ("--manage", "--manage-window", str(WINDOW))
    with tempfile.TemporaryDirectory(prefix="mnemosyne-clients-") as folder, standin_in_a_thread() as standin:
        data_dir = Path(folder) / "data"
        with serving(standin, *settings, data_dir=data_dir) as server:
            visit(server).script(*loop(project, "Begin the long work", range(FIRST), "A part is done.", []))
            said = codex(server, programs, tmp_path, project, "Begin the long work")
            assert said == "A part is done."
        gone = [each for body in standin.messages for each in re.findall(r"(?<=\\n)#(\w{7}) ", body.body.decode())]
        assert gone
        with serving(standin, *settings, data_dir=data_dir) as server:
            back = {"type": "tool_use", "name": "memory_restore", "input": {"object_id": gone[0], "reason": "needed"}}
            begin = [{"type": "thinking", "thinking": "What was it?"}, back]
            numbers = range(FIRST, FIRST + SECOND)
            standin.script = from_data({"rules": loop(project, "Go on with it", numbers, "All is done.", begin)})
            said = codex(server, programs, tmp_path, project, "Go on with it", "resume", "--last")
            assert said == "All is done."
            events = recorded(data_dir)
            finished([*MNEMOSYNE, "verify", "--data-dir", str(data_dir)], bare_environment(tmp_path), tmp_path)
        assert [str(each) for each in standin.violations] == []
        assert {each.status for each in standin.messages} == {200}
        epochs = [each for each in events if isinstance(each, EpochBegan)]
        assert len(epochs) >= 2
        sent = [each.json()["input"] for each in standin.messages]
        assert sum(after[: len(before)] != before for before, after in pairwise(sent)) == len(epochs)
        assert [each.object for each in events if isinstance(each, ObjectRestored)] == [gone[0]]
        rounds = [each for each in events if isinstance(each, RoundBegan)]
        assert len(rounds) > FIRST + SECOND
        assert {each.sha256 for each in rounds} <= {sha256(each.body).digest() for each in standin.messages}
    for number in range(FIRST + SECOND - 1):
        state = "new" if number % 5 == 3 else "old"
        assert f"state = '{state}'" in file(project, number).read_text(), number
    stored = [each for each in (tmp_path / "codex").rglob("*") if each.is_file() and each.stat().st_size < 10_000_000]
    assert stored
    assert not [each for each in stored if any(name.encode() in each.read_bytes() for name in NAMES)]
