"""aider through the proxy, unmodified: it edits files by the model's text, without tools, and its requests are
recorded.
"""

import sys
import tempfile
from pathlib import Path

import pytest

from mnemosyne.domain.tools.memory_tools import NAMES
from tests.clients.provider import standin_in_a_thread
from tests.clients.record import conversations
from tests.clients.workspace import MNEMOSYNE, bare_environment, finished, serving, visit

pytestmark = pytest.mark.clients

PROGRAM = Path(__file__).parents[2] / ".cache/aider/bin/aider"
"""Where `make aider` puts it."""

WRONG, WORSE, RIGHT = "    return a - b", "    return a * b", "    return a + b"


@pytest.fixture(scope="module")
def aider() -> Path:
    """The program. Skips if it is not installed."""
    if not PROGRAM.exists():
        pytest.skip("aider is not here: `make aider` installs it, 700 MB in a place of its own")
    return PROGRAM


def edit(old: str, new: str) -> str:
    return f"I change it.\n\nsums.py\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n"


def test_edit_loop_of_aider_is_recorded_exactly_without_memory_tools(aider: Path, tmp_path: Path) -> None:
    """The first edit is wrong, so it gets the output of its own test, and edits again; each edit is committed."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "sums.py").write_text(f"def add(a, b):\n{WRONG}\n")
    (project / "check.py").write_text("from sums import add\n\nassert add(2, 3) == 5, 'WRONG SUM'\n")
    environment = bare_environment(tmp_path) | {"OPENAI_API_KEY": "a-dummy-key", "NO_PROXY": "127.0.0.1"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Tester", f"GIT_{role}_EMAIL": "tester@example.invalid"}
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Begin"]):
        finished(["git", *words], environment, project)
    quiet = ["--yes-always", "--no-check-update", "--no-gitignore", "--no-show-release-notes", "--analytics-disable"]
    test = f"{sys.executable} -B check.py"  # compiled modules do not distinguish two edits of one size within a second
    asked = ["--edit-format", "diff", "--auto-test", "--test-cmd", test, "--message"]
    with (
        tempfile.TemporaryDirectory(prefix="mnemosyne-clients-") as folder,
        standin_in_a_thread() as standin,
        serving(standin, "--manage", "--upstreams", f"openai={standin.url}", data_dir=Path(folder) / "data") as server,
    ):
        here = visit(server)
        here.script(
            {"when": {"last": "USER: "}, "reply": {"text": "fix: change the sum"}},
            {"when": {"last": "WRONG SUM"}, "reply": {"text": edit(WORSE, RIGHT)}},
            {"when": {"last": "adds"}, "reply": {"text": edit(WRONG, WORSE)}},
        )
        options = [*server.options, "--upstreams", f"openai={standin.url}"]
        command = [str(aider), "--model", "openai/gpt-4o", *quiet, *asked, "Make it so that it adds", "sums.py"]
        finished([*MNEMOSYNE, "run", *options, "--", *command], environment, project)
        sessions = conversations(server.data_dir, since=here.since)
        told = finished(
            [*MNEMOSYNE, "explain", sessions[0].external_id, "--data-dir", str(server.data_dir)], environment, project
        )
        finished([*MNEMOSYNE, "verify", "--data-dir", str(server.data_dir)], environment, project)
        turns = [turn for each in sessions for turn in each.turns]
    assert (project / "sums.py").read_text() == f"def add(a, b):\n{RIGHT}\n"
    log = finished(["git", "log", "--format=%s"], environment, project)
    assert log.splitlines() == ["fix: change the sum", "fix: change the sum", "Begin"]
    assert [str(each) for each in standin.violations] == []
    assert [each.status for each in standin.messages] == [200] * 4
    assert sorted(turn.body for turn in turns) == sorted(each.body for each in standin.messages)
    assert {turn.outcome for turn in turns} == {"200 stop"}
    assert "its client offers no tools" in told
    assert not [name for name in NAMES if any(name.encode() in each.body for each in standin.messages)]
