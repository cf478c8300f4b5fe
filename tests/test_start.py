"""Where a command is done. What is handed over for real, and to whom, is tested in ``cli/test_handover.py``."""

import sys

import pytest

from mnemosyne import start


def test_what_is_handed_over_ends_with_its_exit_code_and_all_else_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
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
