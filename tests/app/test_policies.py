"""The policy that the settings file names is imported, or the reason is said with what to do."""

import os
from pathlib import Path

import pytest

from mnemosyne.app.policies import load_policy
from mnemosyne.app.settings import settings_of
from mnemosyne.config import Config, load
from mnemosyne.errors import BadConfiguration, BadOption

MODULE = '''
__version__ = "2.1"

def nothing(situation, candidates):
    """Plans nothing."""
    return None

NUMBER = 7
'''


def configured(folder: Path, policy: str) -> Config:
    (folder / "config.toml").write_text(f'policy = "{policy}"\n')
    return load({"data_dir": str(folder)}, {})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend("")  # and the folder that is added below is removed again
    (tmp_path / "own_plans.py").write_text(MODULE)
    (tmp_path / "broken_plans.py").write_text("x = 1\ny = x / 0\n")
    return tmp_path


def test_a_policy_is_found_beside_the_settings_file_with_its_version(tmp_path: Path) -> None:
    config = configured(tmp_path, "own_plans:nothing")
    plug_in = load_policy(config)
    assert plug_in is not None
    assert plug_in.label == "own_plans:nothing 2.1"
    settings = settings_of(config, plug_in)
    assert (settings.policy, settings.policy_version) == ("own_plans:nothing", "2.1")
    assert load_policy(configured(tmp_path, "zones")) is None


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("no_such_plans:x", "'no_such_plans' cannot be imported: No module named 'no_such_plans'. Install the module"),
        ("broken_plans:x", r"'broken_plans' fails when it is imported: ZeroDivisionError.*\.py, line 2\)"),
        ("own_plans:later", "there is no 'later' in 'own_plans'"),
        ("own_plans:NUMBER", "it is not a planner"),
    ],
)
def test_a_policy_that_cannot_be_imported_is_reported_with_place_and_advice(
    tmp_path: Path, policy: str, why: str
) -> None:
    with pytest.raises(BadConfiguration, match=why) as raised:
        load_policy(configured(tmp_path, policy))
    assert f"policy = {policy} in {tmp_path / 'config.toml'}" in str(raised.value)


@pytest.mark.parametrize(("mode", "is_ours"), [(0o757, True), (0o775, True), (0o755, False)])
def test_a_folder_that_others_can_write_to_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_ours: bool
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    if not is_ours and os.geteuid() == 0:
        os.chown(shared, 1, -1)
    elif not is_ours:
        # Only root can give a folder to another user; anybody else becomes that user instead.
        monkeypatch.setattr(os, "geteuid", lambda: shared.stat().st_uid + 1)
    (shared / "foreign_plans.py").write_text(MODULE)
    with pytest.raises(BadConfiguration, match=r"No module named 'foreign_plans'.*, which is not searched"):
        load_policy(configured(shared, "foreign_plans:nothing"))


@pytest.mark.parametrize("source", ["option", "environment"])
def test_only_the_settings_file_may_name_a_module(tmp_path: Path, source: str) -> None:
    options = {"policy": "own_plans:nothing"} if source == "option" else {}
    environ = {"MNEMOSYNE_POLICY": "own_plans:nothing"} if source == "environment" else {}
    with pytest.raises((BadConfiguration, BadOption), match="only the settings file may name a module"):
        load({"data_dir": str(tmp_path), **options}, environ)
