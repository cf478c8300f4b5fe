"""Where things lie when nobody says otherwise. Who runs the tests is one user; the places of two are told."""

import os

import pytest

from mnemosyne.places import default_data_dir


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HOME": "/home/me"}, "/home/me/.local/share/mnemosyne"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": "/data"}, "/data/mnemosyne"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": "relative"}, "/home/me/.local/share/mnemosyne"),
    ],
)
def test_people_keep_their_data_at_home(environ: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_data_dir(environ) == place


def test_root_keeps_its_data_in_the_system_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir({"HOME": "/root"}) == "/var/lib/mnemosyne"
