"""The environment and exit code of processes that are started for a client."""

import signal
from pathlib import Path

import pytest

from mnemosyne.app.launch import as_variables, end_like
from mnemosyne.config import load


def test_options_are_passed_to_the_server_as_variables(tmp_path: Path) -> None:
    """Not on its command line, which every user of the machine can read: a DSN may hold a password."""
    file = tmp_path / "settings.toml"
    file.write_text('tenant = "me"')
    options = {"dsn": "postgresql://me:s3cret@host/db", "allow_remote": True}
    environ = {"MNEMOSYNE_DATA_DIR": str(tmp_path), "MNEMOSYNE_PORT": "1"}
    variables = as_variables(load(options, environ, config_file=file))
    assert variables == {
        "MNEMOSYNE_DSN": "postgresql://me:s3cret@host/db",
        "MNEMOSYNE_ALLOW_REMOTE": "true",
        "MNEMOSYNE_CONFIG": str(file),
        "MNEMOSYNE_OPTIONS": "dsn,allow_remote",
    }
    again = load({}, environ | variables)
    assert again.allow_remote is True
    assert [again.sources[name] for name in ("allow_remote", "port", "tenant")] == [
        *("option --allow-remote", "environment MNEMOSYNE_PORT", f"file {file}"),
    ]
    assert as_variables(again) == variables


def test_every_type_of_setting_survives_the_environment(tmp_path: Path) -> None:
    options = {"helper_price": "0.1/0.5", "allowed_hosts": "a.example,b.example", "retain_days": "3"}
    config = load(options, {"MNEMOSYNE_DATA_DIR": str(tmp_path)})
    again = load({}, as_variables(config) | {"MNEMOSYNE_DATA_DIR": str(tmp_path)})
    assert again == config


def test_a_signal_that_cannot_be_raised_becomes_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.kill", lambda _pid, _number: None)
    monkeypatch.setattr("resource.setrlimit", lambda _what, _limits: None)
    assert end_like(5) == 5
    assert end_like(-signal.SIGWINCH) == 128 + signal.SIGWINCH
