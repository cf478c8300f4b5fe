"""The settings of a server's decisions, and the user's models file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.app.settings import settings_of, use_models
from mnemosyne.config import load
from mnemosyne.domain.cost.catalogue import price_of
from mnemosyne.domain.cost.prices import Price
from mnemosyne.errors import BadConfiguration
from tests.tables import other_tables


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    with other_tables({}):
        yield


def test_decision_settings_come_from_the_configuration_and_the_upstream(tmp_path: Path) -> None:
    given = {"upstream": "http://[::1]:11434", "tariff": "local", "manage_window": "32000", "data_dir": str(tmp_path)}
    found = settings_of(load(given, {}))
    assert (found.window, found.tariff, found.host, found.strict) == (32_000, "local", "::1", False)
    assert settings_of(load({"data_dir": str(tmp_path)}, {})).tariff is None


@pytest.mark.parametrize(
    ("given", "choices"),
    [
        ({}, ("economic", "thrifty", "graded")),
        ({"fidelity": "thrifty"}, ("economic", "thrifty")),
        ({"policy": "zones"}, ("economic", "zones", "thrifty", "graded")),
        ({"fidelity": "thrifty", "header_choices": ["graded", "zones"]}, ("graded", "zones")),
        ({"header_choices": []}, ()),
    ],
)
def test_a_request_may_choose_what_is_listed_or_by_default_nothing_dearer(
    given: dict[str, Any], choices: tuple[str, ...], tmp_path: Path
) -> None:
    assert settings_of(load(given | {"data_dir": str(tmp_path)}, {})).choices == choices


def test_an_unknown_tariff_is_refused_with_the_available_ones(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"tariff = 'gold' is unknown; available: api, subscription"):
        settings_of(load({"tariff": "gold", "data_dir": str(tmp_path)}, {}))
    own = {"own": {"url": "https://own", "tariff": "gold"}}
    with pytest.raises(BadConfiguration, match=r"upstreams.own.tariff = 'gold' is unknown"):
        settings_of(load({"upstreams": own, "data_dir": str(tmp_path)}, {}))


def test_a_file_adds_models_to_the_shipped_ones(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text("[prices]\nlocal-7b = { input = 0.5, output = 1, read = 0.25 }\n")
    use_models(file)
    assert price_of("local-7b") == Price(500, 1_000, read=250)
    assert price_of("claude-opus-5-5") == Price(4_000, 20_000, read=200, fast=2)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read: No such file"), (b"\xff", "is not UTF-8"), (b"x = [", "is not TOML")]
)
def test_an_unusable_file_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "models.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadConfiguration, match=said) as refused:
        use_models(file)
    assert str(file) in str(refused.value)
    assert price_of("claude-opus-5-5") == Price(4_000, 20_000, read=200, fast=2)
