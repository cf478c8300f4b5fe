"""Default places of the data, for an ordinary user and for root."""

import os

import pytest

from mnemosyne.config import default_data_dir


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HOME": "/home/me"}, "/home/me/.local/share/mnemosyne"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": "/data"}, "/data/mnemosyne"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": "relative"}, "/home/me/.local/share/mnemosyne"),
    ],
)
def test_users_data_is_in_the_home_directory(
    environ: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_data_dir(environ) == place


def test_data_of_root_is_in_the_system_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir({"HOME": "/root"}) == "/var/lib/mnemosyne"
