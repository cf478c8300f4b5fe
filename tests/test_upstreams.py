"""Several providers behind one server: their names, and the choice of one for a request."""

from pathlib import Path

import pytest

from mnemosyne.config import load, render, upstreams_of
from mnemosyne.domain.wire.dialects import DIALECTS
from mnemosyne.errors import BadConfiguration
from mnemosyne.upstreams import DIALECTS as NAMES
from mnemosyne.upstreams import NamedUpstream

LOCAL = "http://127.0.0.1:8080"


def test_dialects_of_a_setting_are_those_of_the_wire() -> None:
    assert tuple(each.name for each in DIALECTS) == NAMES


def test_text_names_providers_of_openais_dialects(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MNEMOSYNE_UPSTREAMS": f"openai=https://api.openai.com, local={LOCAL}"}
    config = load({}, environ)
    assert config.upstreams == (NamedUpstream("openai", "https://api.openai.com"), NamedUpstream("local", LOCAL))
    assert load({"upstreams": render(config.upstreams)}, {"HOME": str(tmp_path)}).upstreams == config.upstreams


def test_file_gives_the_dialects_and_models_of_each_provider(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        f"""
        [upstreams.local]
        url = "{LOCAL}"
        dialects = ["chat", "messages"]
        models = ["qwen*"]
        tariff = "local"
        [upstreams.openai]
        url = "https://api.openai.com"
        """
    )
    local, openai = load({}, {"HOME": str(tmp_path)}, config_file=file).upstreams
    assert local.takes("chat", "qwen3")
    assert local.takes("messages", "qwen3")
    assert not local.takes("responses", "qwen3")
    assert not local.takes("chat", "gpt-5.6")
    assert not local.takes("chat", None)
    assert openai.takes("responses", None)
    assert (local.host, local.tariff, openai.tariff) == ("127.0.0.1", "local", None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("https://api.openai.com", "NAME=URL is needed"),
        ("openai", "NAME=URL is needed"),
        (f"local={LOCAL}, local={LOCAL}/v1", "a name has two rows"),
        ("openai=http://elsewhere", "is plain http to another machine"),
        ("Open AI=https://api.openai.com", "is not a valid name"),
        (f"local={LOCAL}:8787", "a URL like"),
        ({"local": {"url": LOCAL, "dialect": "chat"}}, "local has dialect; valid are"),
        ({"local": {"url": LOCAL, "dialects": ["telnet"]}}, "local has the dialects telnet"),
        ({"local": {"url": LOCAL, "models": "qwen"}}, "local.models must be a list"),
        ({"local": {"url": LOCAL, "tariff": 1}}, "local.tariff must be the name"),
        ({"local": {}}, "local has no url"),
    ],
)
def test_invalid_provider_is_refused_with_the_reason(value: object, reason: str, tmp_path: Path) -> None:
    said = {"MNEMOSYNE_UPSTREAMS": value} if isinstance(value, str) else {}
    with pytest.raises(BadConfiguration, match=r"upstreams[. ]") as refused:
        load({}, {"HOME": str(tmp_path), **said}, **_file(tmp_path, value))
    assert reason in str(refused.value)


def _file(directory: Path, value: object) -> dict[str, Path]:
    if isinstance(value, str):
        return {}
    assert isinstance(value, dict)
    file = directory / "config.toml"
    lines = [
        line
        for name, table in value.items()
        for line in (f"[upstreams.{name}]", *(f"{key} = {held!r}" for key, held in table.items()))
    ]
    file.write_text("\n".join(lines))
    return {"config_file": file}


def test_no_provider_can_be_the_proxy_itself(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"upstreams\.local .* requests would loop"):
        load({"upstreams": "local=http://127.0.0.1:8787", "port": "8787"}, {"HOME": str(tmp_path)})


def test_only_openais_own_models_go_to_openai_next_to_anthropic(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    [openai] = upstreams_of(load({}, environ))
    assert openai.url == "https://api.openai.com"
    assert [openai.takes("responses", model) for model in ("gpt-5.6", "o3", "claude-opus-5-5", None)] == [
        True,
        True,
        False,
        False,
    ]
    assert all(openai.takes("chat", model) for model in ("ft:gpt-4o:acme::1", "computer-use-preview"))
    assert not openai.takes("messages", "gpt-5.6")
    assert upstreams_of(load({"upstream": LOCAL}, environ)) == ()
    assert upstreams_of(load({"upstreams": f"local={LOCAL}"}, environ)) == (NamedUpstream("local", LOCAL),)
