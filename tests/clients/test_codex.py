"""Codex through the proxy: it uses another dialect than the other agents, and is recorded and managed like them."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from mnemosyne_lab.provider.reading import Json
from tests.clients.workspace import (
    MNEMOSYNE,
    Server,
    bare_environment,
    files_in,
    finished,
    make_project,
    replayed,
    visit,
)

pytestmark = pytest.mark.clients


def run(command: str) -> Json:
    return {"type": "tool_use", "name": "exec_command", "input": {"cmd": command}}


def execute(command: str) -> Json:
    """The default model's call for a command: a script that runs it."""
    script = f"const done = await tools.exec_command({{cmd: {json.dumps(command)}}}); text(done.output);"
    return {"type": "tool_use", "name": "exec", "input": {"input": script}}


def codex(
    server: Server,
    programs: Path,
    home: Path,
    project: Path,
    prompt: str,
    *options: str,
    of_run: Sequence[str] = (),
    model: str | None = "gpt-5.5",
) -> str:
    """Run `mnemosyne run -- codex exec` to its end, with options for both; return its final text. Without a
    ``model`` it takes its default one.
    """
    (home / "codex").mkdir(exist_ok=True)
    command = [*MNEMOSYNE, "run", *server.options, *of_run, "--", *command_for(prompt, *options, model=model)]
    return finished(command, environment(programs, home), project).strip()


def command_for(prompt: str, *options: str, model: str | None = "gpt-5.5") -> list[str]:
    chosen = [] if model is None else ["-c", f"model={model}"]
    return ["codex", "-s", "danger-full-access", "exec", "--skip-git-repo-check", *chosen, *options, prompt]


def environment(programs: Path, home: Path) -> dict[str, str]:
    found = bare_environment(home) | {"CODEX_HOME": str(home / "codex"), "OPENAI_API_KEY": "a-dummy-key"}
    return found | {"CODEX_API_KEY": "a-dummy-key", "PATH": f"{programs}:{found['PATH']}"}


PATCH = """*** Begin Patch
*** Update File: notes.txt
@@
 one
-two
+The colour is teal.
*** Add File: new.txt
+new
*** End Patch"""


@pytest.mark.parametrize("more", [0, pytest.param(28, marks=pytest.mark.release)])
def test_tool_loop_replays_offline_on_a_copy_of_its_files_and_can_be_resumed(
    programs: Path, server: Server, tmp_path: Path, more: int
) -> None:
    project, here = make_project(tmp_path), visit(server)
    calls = [
        [{"type": "thinking", "thinking": "Look first."}, run(f"cat {project}/notes.txt")],
        [
            run("rm more.txt; mkdir sub; echo 0 > sub/more.txt"),
            run("seq 1 300"),
            {"type": "tool_use", "name": "apply_patch", "input": {"input": PATCH}},
        ],
        *([run(f"echo {number} >> sub/more.txt; cat sub/more.txt")] for number in range(more)),
    ]
    here.script(
        {"when": {"prompt": "colour"}, "replies": [*({"content": each} for each in calls), {"text": "It is teal."}]},
        {"when": {"prompt": "again"}, "replies": [{"content": [run("cat more.txt")]}, {"text": "Done."}]},
    )
    saving = ("--record-worktree",)
    assert codex(server, programs, tmp_path, project, "Which colour is it?", of_run=saving) == "It is teal."
    recorded, asked, after = here.recorded(), len(here.standin.exchanges), files_in(project)
    assert after["notes.txt"] == "one\nThe colour is teal.\nthree\n"
    (project / "notes.txt").write_text("today\n")
    today = files_in(project)
    again = (command_for("Which colour is it?"), recorded.external_id, server, environment(programs, tmp_path))
    report = replayed(*again, tmp_path, "--worktree")
    copy = Path(report["folder"])
    assert (files_in(copy), files_in(project)) == (after, today)
    shutil.rmtree(copy.parent)
    assert [each["differences"] for each in report["requests"]] == [[]] * (3 + more)
    assert (report["unknown"], report["unsent"]) == (0, [])
    assert len(here.standin.exchanges) == asked
    codex(server, programs, tmp_path, project, "And again.", "resume", recorded.external_id)
    found = here.recorded()
    assert [turn.attempt for turn in found.turns] == [1] * (5 + more)
    assert [found.history.dialect_of(branch).name for branch in found.history.lines] == ["responses"]


@pytest.mark.release
def test_replay_repeats_a_request_that_was_refused_and_then_answered(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    """Codex repeats a 429 only if its headers say when."""
    here, busy = visit(server), {"failure": {"status": 429, "retry_after": 1}}
    here.script(
        {"when": {"prompt": "colour", "rounds": 1}, "times": 1, "reply": busy},
        {"when": {"prompt": "colour"}, "replies": [{"content": [run("echo teal")]}, {"text": "It is teal."}]},
    )
    assert codex(server, programs, tmp_path, tmp_path, "Which colour is it?") == "It is teal."
    recorded = here.recorded()
    again = (command_for("Which colour is it?"), recorded.external_id, server, environment(programs, tmp_path))
    report = replayed(*again, tmp_path)
    assert [each["differences"] for each in report["requests"]] == [[]] * 3
    assert (report["unknown"], report["unsent"]) == (0, [])


@pytest.mark.release
@pytest.mark.parametrize("model", ["gpt-5.5", None])
@pytest.mark.parametrize("provider", ["OpenAI", "another"])
def test_compacted_window_is_followed_by_a_window_of_its_own(
    programs: Path, server: Server, tmp_path: Path, provider: str, model: str | None
) -> None:
    """With its vendor's own provider it compacts by an item, with others by a prompt."""
    full = {"input_tokens": 200_000, "output_tokens": 10, "total_tokens": 200_010}
    call = execute if model is None else run
    here = visit(server)
    here.script(
        {"when": {"prompt": "CONTEXT CHECKPOINT"}, "reply": {"text": "The colour is teal."}},
        {"when": {"prompt": "colour"}, "times": 1, "reply": {"content": [call("echo teal")], "usage": full}},
        {"when": {"prompt": "colour", "rounds": 0}, "reply": {"text": "It is teal."}},
    )
    named = f'{{name="{provider}",base_url="{server.url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
    settings = ("model_auto_compact_token_limit=100000", "model_provider=p", f"model_providers.p={named}")
    options = [word for setting in settings for word in ("-c", setting)]
    assert codex(server, programs, tmp_path, tmp_path, "Which colour is it?", *options, model=model) == "It is teal."
    assert here.recorded().branches == {"main": 1, "compaction-1": 1, "successor-1": 1}
