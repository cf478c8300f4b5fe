"""The settings of a server's decisions."""

from pathlib import Path

import pytest

from mnemosyne.app.settings import settings_of
from mnemosyne.config import load
from mnemosyne.errors import BadConfiguration


def test_decision_settings_come_from_the_configuration_and_the_upstream(tmp_path: Path) -> None:
    given = {"upstream": "http://[::1]:11434", "tariff": "local", "manage_window": "32000", "data_dir": str(tmp_path)}
    found = settings_of(load(given, {}))
    assert (found.window, found.tariff, found.host, found.strict) == (32_000, "local", "::1", False)
    assert settings_of(load({"data_dir": str(tmp_path)}, {})).tariff is None


def test_an_unknown_tariff_is_refused_with_the_available_ones(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"tariff = 'gold' is unknown; available: api, subscription"):
        settings_of(load({"tariff": "gold", "data_dir": str(tmp_path)}, {}))
    own = {"own": {"url": "https://own", "tariff": "gold"}}
    with pytest.raises(BadConfiguration, match=r"upstreams.own.tariff = 'gold' is unknown"):
        settings_of(load({"upstreams": own, "data_dir": str(tmp_path)}, {}))
