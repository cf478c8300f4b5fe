"""The process that runs a command. The real handover is tested in ``cli/test_handover.py``."""

import sys

import pytest

from mnemosyne import start


def test_handed_over_command_ends_with_its_exit_code_and_others_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[list[str]] = []

    def take(name: str, arguments: list[str], environ: object) -> int:
        handed.append([name, *arguments])
        return 7

    monkeypatch.setattr(start, "hand_over", take)
    for arguments, code in (["sessions", "--json"], 7), (["--version"], 0), ([], 2):
        monkeypatch.setattr(sys, "argv", ["/somewhere/mnemosyne-proxy", *arguments])
        with pytest.raises(SystemExit) as end:
            start.main()
        assert end.value.code == code
    assert handed == [["mnemosyne-proxy", "sessions", "--json"]]
