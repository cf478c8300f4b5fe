"""``mnemosyne off`` says which sessions are not to be managed any longer."""

from pathlib import Path

from click.testing import CliRunner

from mnemosyne.cli import main
from mnemosyne.data_dir import bypassed_sessions


def test_all_sessions_are_turned_off_and_on_again(tmp_path: Path) -> None:
    assert bypassed_sessions(tmp_path) == frozenset()
    said = CliRunner().invoke(main, ["off", "--data-dir", str(tmp_path)])
    assert (said.exit_code, said.output) == (0, "all sessions: no longer managed\n")
    assert bypassed_sessions(tmp_path) == {"*"}
    assert CliRunner().invoke(main, ["off", "--undo", "--data-dir", str(tmp_path)]).exit_code == 0
    assert bypassed_sessions(tmp_path) == frozenset()
