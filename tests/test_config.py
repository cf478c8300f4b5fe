"""Settings: the sources of values, the refused ones, and the messages."""

import os
from pathlib import Path

import pytest

from mnemosyne.config import REMOVED_SETTINGS, SETTINGS, default_data_dir, load, mask, plain
from mnemosyne.errors import BadConfiguration
from mnemosyne.setting_values import is_loopback


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"MNEMOSYNE_DATA_DIR": str(tmp_path)}


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_apply_without_any_source(environ: dict[str, str]) -> None:
    config = load({}, environ)
    assert (config.host, config.port, config.upstream) == ("127.0.0.1", 8787, "https://api.anthropic.com")
    assert config.dsn is None
    assert config.file is None
    assert config.sources["port"] == "default"


def test_option_beats_environment_beats_file_beats_default(tmp_path: Path, environ: dict[str, str]) -> None:
    file = write(tmp_path, "port = 1\ndrain_seconds = 1\nstall_seconds = 1\n")
    environ |= {"MNEMOSYNE_PORT": "2", "MNEMOSYNE_DRAIN_SECONDS": "2"}
    config = load({"port": "3", "drain_seconds": None}, environ)
    assert (config.port, config.drain_seconds, config.stall_seconds, config.tenant) == (3, 2, 1, "local")
    assert config.sources["port"] == "option --port"
    assert config.sources["drain_seconds"] == "environment MNEMOSYNE_DRAIN_SECONDS"
    assert config.sources["stall_seconds"] == f"file {file}"
    assert config.file == file


def test_every_setting_has_a_meaning_and_a_valid_default() -> None:
    for setting in SETTINGS:
        assert setting.meaning.endswith(".")
        assert setting.default_text
        if setting.default is not None:
            assert setting.kind.parse(setting.default) == setting.default


def test_empty_variable_counts_as_not_set(environ: dict[str, str]) -> None:
    config = load({}, environ | {"MNEMOSYNE_DSN": "", "MNEMOSYNE_PORT": "", "MNEMOSYNE_CONFIG": ""})
    assert (config.dsn, config.port) == (None, 8787)
    assert load({}, {"MNEMOSYNE_DATA_DIR": "", "XDG_DATA_HOME": "/x"}).data_dir == Path(
        default_data_dir({"XDG_DATA_HOME": "/x"})
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("port", "eighty", "a whole number is needed"),
        ("port", "65536", "65535"),
        ("port", "-1", "65535"),
        ("port", True, "a whole number is needed"),
        ("port", 8787.0, "a whole number is needed"),
        ("port", "8_787", "a whole number is needed"),
        ("port", "٨٧٨٧", "a whole number is needed"),
        ("port", "9" * 5000, "a whole number is needed"),
        ("max_body_bytes", "0", "above 0"),
        ("manage_tool_budget", "-1", "from 0"),
        ("grounding", "loose", "one of free, cited, strict"),
        ("drain_seconds", "", "a whole number is needed"),
        ("host", "", "text is needed"),
        ("host", "127.0.0.1:80", "without scheme and port"),
        ("host", "http://localhost", "without scheme and port"),
        ("host", ["127.0.0.1"], "text is needed"),
        ("tenant", "  ", "text is needed"),
        ("allow_remote", "maybe", "true or false"),
        ("allowed_hosts", "https://gate.example.com", "without scheme and port"),
        ("allowed_hosts", ["gate.example.com", 3], "text is needed"),
        ("allow_remote", 1, "true or false"),
        ("log_level", "loud", "one of error, warning, info, debug"),
        ("otlp_endpoint", "127.0.0.1:4318", "a URL like"),
        ("otlp_endpoint", "http://me:pw@host:4318", "without a user"),
        ("log_format", "xml", "one of text, json"),
        ("dsn", "mydatabase", "postgresql://"),
        ("dsn", "mysql://h/d", "postgresql://"),
        ("data_dir", "~nobody-of-this-name/x", "no such home"),
        ("data_dir", "a\0b", "NUL"),
        ("data_dir", 3, "text is needed"),
        ("helper", "gpt", "one of extractive, anthropic, openai, client"),
        ("helper_key_variable", "sk-ant-1234", "the name of an environment variable"),
        ("helper_price", "0.1", "0.10/0.50"),
        ("helper_price", "a/b", "an amount in dollars"),
        ("helper_budget_dollars_per_day", "-1", "an amount in dollars"),
        ("helper_budget_dollars_per_day", True, "an amount in dollars"),
        ("helper_budget_dollars_per_day", float("nan"), "from 0 to 999999"),
        ("helper_budget_share", "5", "a share from 0 to 1"),
        ("helper_url", "http://h.example/v1", "private address only"),
        ("helper_fallback", "@http://127.0.0.1:1/v1", "MODEL or MODEL@URL"),
        ("helper_fallback", "m@http://[::1", "a URL like"),
        ("helper_fallback", "m@http://127.0.0.1:99999/v1", "a URL like"),
    ],
)
def test_bad_value_is_refused_with_name_source_and_reason(
    name: str, value: object, reason: str, environ: dict[str, str]
) -> None:
    if name == "data_dir":
        environ = {}
    with pytest.raises(BadConfiguration) as caught:
        load({name: value}, environ)
    message = str(caught.value)
    assert message.startswith(f"{name} = ")
    assert f"(option --{name.replace('_', '-')})" in message
    assert reason in message
    assert "invalid literal" not in message


@pytest.mark.parametrize("word", ["1", "true", "True", "YES", " on "])
def test_words_for_yes_and_no_override_the_file(word: str, tmp_path: Path, environ: dict[str, str]) -> None:
    assert load({}, environ | {"MNEMOSYNE_ALLOW_REMOTE": word}).allow_remote is True
    write(tmp_path, "allow_remote = true")
    for no in ("0", "false", "No", "off"):
        assert load({}, environ | {"MNEMOSYNE_ALLOW_REMOTE": no}).allow_remote is False
    assert load({"allow_remote": False}, environ).allow_remote is False
    assert load({}, environ).allow_remote is True


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("LocalHost", "localhost"),
        ("127.8.9.10", "127.8.9.10"),
    ],
)
def test_loopback_hosts_are_accepted_in_every_spelling(given: str, held: str, environ: dict[str, str]) -> None:
    assert load({"host": given}, environ).host == held


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "192.0.2.1", "my-machine", "127.0.0.1.example.com"])
def test_public_host_needs_an_explicit_setting(host: str, environ: dict[str, str]) -> None:
    with pytest.raises(BadConfiguration, match="allow_remote = true"):
        load({"host": host}, environ)
    assert load({"host": host, "allow_remote": True}, environ).host == host.strip("[]")


@pytest.mark.parametrize(
    ("url", "held"),
    [
        ("https://api.anthropic.com/", "https://api.anthropic.com"),
        ("https://gateway.example/anthropic", "https://gateway.example/anthropic"),
        ("https://gateway.example:8443", "https://gateway.example:8443"),
        ("http://localhost:9", "http://localhost:9"),
        ("http://[::1]:9", "http://[::1]:9"),
    ],
)
def test_valid_upstreams_are_accepted(url: str, held: str, environ: dict[str, str]) -> None:
    assert load({"upstream": url}, environ).upstream == held


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("api.anthropic.com", "a URL like"),
        ("ftp://api.anthropic.com", "a URL like"),
        ("https://", "a URL like"),
        ("https://[::1", "a URL like"),
        ("https://host:99999", "a URL like"),
        ("https://host:0", "a URL like"),
        ("https://host/päth", "a URL like"),
        ("https://host/a b", "a URL like"),
        ("http://api.anthropic.com", "in the clear"),
        ("http://127.0.0.1.example.com", "in the clear"),
        ("https://me@host", "credentials come from the client"),
        ("https://host?x=1", "credentials come from the client"),
        ("https://host/#f", "credentials come from the client"),
    ],
)
def test_invalid_upstreams_are_refused(url: str, reason: str, environ: dict[str, str]) -> None:
    with pytest.raises(BadConfiguration, match=reason):
        load({"upstream": url}, environ)


def test_upstream_cannot_be_the_proxy_itself(environ: dict[str, str]) -> None:
    with pytest.raises(BadConfiguration, match="requests would loop"):
        load({"upstream": "http://localhost:8787", "port": "8787"}, environ)
    assert load({"upstream": "http://localhost:8788", "port": "8787"}, environ).port == 8787


def test_no_refusal_shows_a_password(environ: dict[str, str]) -> None:
    for options in (
        {"upstream": "https://me:s3cret@host"},
        {"upstream": "https://s3cret@host"},
        {"dsn": ["x:s3cret@"]},
    ):
        with pytest.raises(BadConfiguration) as caught:
            load(options, environ)
        assert "s3cret@host" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:s3cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s3:c@ret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql://host/db?user=me&password=s3cret&x=1", "postgresql://host/db?user=me&password=***&x=1"),
        ("host=h password = s3cret dbname=d", "host=h password = *** dbname=d"),
        ("host=h password='s3 cret' dbname=d", "host=h password=*** dbname=d"),
        ("http://me:s3cret@proxy:3128", "http://***@proxy:3128"),
        ("https://api.anthropic.com", "https://api.anthropic.com"),
    ],
)
def test_only_passwords_are_masked(text: str, shown: str) -> None:
    assert mask(text) == shown


def test_values_are_shown_as_users_would_type_them() -> None:
    assert [plain(value) for value in (True, 8787, Path("/x"), "local")] == ["true", "8787", "/x", "local"]


# The file


def test_named_file_must_exist_and_the_default_one_need_not(tmp_path: Path, environ: dict[str, str]) -> None:
    missing = tmp_path / "other.toml"
    with pytest.raises(BadConfiguration, match=r"other\.toml does not exist"):
        load({}, environ, config_file=missing)
    with pytest.raises(BadConfiguration, match=r"other\.toml does not exist"):
        load({}, environ | {"MNEMOSYNE_CONFIG": str(missing)})
    assert load({}, environ).file is None


def test_named_file_overrides_the_variable_and_that_the_default_place(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, "port = 1")
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text("port = 2")
    two.write_text("port = 3")
    environ["MNEMOSYNE_CONFIG"] = str(one)
    assert load({}, environ).port == 2
    assert load({}, environ, config_file=two).port == 3
    del environ["MNEMOSYNE_CONFIG"]
    assert load({}, environ).port == 1


def test_unknown_names_are_refused_with_a_suggestion(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, 'prot = 1\nlog-level = "info"\n')
    with pytest.raises(BadConfiguration, match=r"unknown settings: log-level, prot\. Did you mean log_level, port\?"):
        load({}, environ)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"port = ", "is not TOML"),
        (b'tenant = "\xff"', "is not UTF-8"),
        (b"[server]\nport = 1", "unknown settings"),
        (None, r"cannot be read: Is a directory\. Make it readable"),
    ],
)
def test_invalid_or_unreadable_file_is_named(
    content: bytes | None, reason: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    file = tmp_path / "config.toml"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(BadConfiguration, match=reason) as caught:
        load({}, environ)
    assert str(file) in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_read_permission_is_an_error(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, "port = 1").chmod(0)
    with pytest.raises(BadConfiguration, match="Permission denied"):
        load({}, environ)


def test_a_device_without_an_end_is_refused_and_an_empty_one_is_read() -> None:
    with pytest.raises(BadConfiguration, match=r"/dev/zero cannot be read: it has more than 1,048,576 bytes\."):
        load({}, {}, config_file=Path("/dev/zero"))
    assert load({}, {}, config_file=Path("/dev/null")).port == load({}, {}).port


def test_window_without_room_for_the_memory_is_refused() -> None:
    with pytest.raises(BadConfiguration, match="at least 2,000 are needed"):
        load({"manage_window": "1999"}, {})
    assert load({"manage_window": "2000"}, {}).manage_window == 2_000


def test_bad_value_in_the_file_names_the_file(tmp_path: Path, environ: dict[str, str]) -> None:
    file = write(tmp_path, 'port = "many"')
    with pytest.raises(BadConfiguration) as caught:
        load({}, environ)
    assert str(caught.value) == f"port = 'many' (file {file}): a whole number is needed."


def test_file_in_the_default_data_directory_may_move_the_data_directory(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """The file is located once, before it is read: a file in the new directory is not looked for."""
    file = write(tmp_path, f'data_dir = "{tmp_path}/elsewhere"')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/config.toml").write_text("port = 1")
    config = load({}, {"MNEMOSYNE_CONFIG": str(file)})
    assert (config.data_dir, config.port, config.file) == (tmp_path / "elsewhere", 8787, file)


def test_relative_paths_start_at_the_place_of_their_source(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (tmp_path / "ca.pem").touch()
    (work / "ca.pem").touch()
    write(tmp_path, 'ca_bundle = "ca.pem"')
    assert load({}, environ).ca_bundle == tmp_path / "ca.pem"
    assert load({"ca_bundle": "ca.pem"}, environ).ca_bundle == work / "ca.pem"
    assert load({"data_dir": "data"}, {}).data_dir == work / "data"


def test_certificate_file_must_exist(environ: dict[str, str]) -> None:
    with pytest.raises(BadConfiguration, match=r"ca_bundle = /no/such/file cannot be read: No such file"):
        load({"ca_bundle": "/no/such/file"}, environ)


# Addresses


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "[::1]")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "localhost.example.com", "10.0.0.1", "127.0.0.1:80")))


def test_helper_needs_an_address_that_is_not_the_proxys(environ: dict[str, str]) -> None:
    with pytest.raises(BadConfiguration, match="needs helper_url and helper_model"):
        load({"helper": "openai"}, environ)
    with pytest.raises(BadConfiguration, match="recorded as a session"):
        load({"helper": "anthropic", "helper_url": "http://127.0.0.1:8787"}, environ)
    config = load(
        {"helper": "openai", "helper_url": "http://localhost:11434/v1", "helper_model": "m", "helper_price": "0.1/2"},
        environ,
    )
    assert config.helper_price == (0.1, 2.0)
    assert config.helper_budget_dollars_per_day == 0.5
    assert config.helper_budget_share == 0.02


@pytest.mark.parametrize("name", ["helper_url", "helper_key_variable"])
def test_a_clients_key_goes_to_no_other_address_and_no_other_key_takes_its_place(name: str) -> None:
    value = {"helper_url": "https://h.example", "helper_key_variable": "OTHER_KEY"}[name]
    with pytest.raises(BadConfiguration, match=f"own provider only: remove {name}"):
        load({"helper": "client", name: value}, {})
    assert load({"helper": "client", "helper_model": "m"}, {}).helper == "client"


@pytest.mark.parametrize(
    "url", ["http://192.168.1.7:11434", "http://gpu.local:8000/v1", "http://[fd00::7]:8080", "http://ollama:11434"]
)
def test_plain_http_to_a_private_address_needs_an_explicit_setting(url: str) -> None:
    places: tuple[dict[str, object], ...] = ({"upstream": url}, {"upstreams": f"models={url}"}, {"helper_url": url})
    for place in places:
        with pytest.raises(BadConfiguration, match=r"credentials would be sent unencrypted.*allow_plain_http = true"):
            load(place, {})
        assert load({**place, "allow_plain_http": True}, {}).allow_plain_http
    (said,) = [setting for setting in SETTINGS if setting.name == "allow_plain_http"]
    assert "credentials are then unencrypted" in said.meaning


@pytest.mark.parametrize("url", ["http://api.example.com", "http://8.8.8.8", "http://local.example"])
def test_plain_http_to_a_public_address_is_always_refused(url: str) -> None:
    with pytest.raises(BadConfiguration, match="private address only"):
        load({"upstream": url, "allow_plain_http": True}, {})


def test_quota_without_a_tenant_is_refused_with_its_form() -> None:
    with pytest.raises(BadConfiguration, match=r"'team' .*: TENANT=BYTES is needed, as in team=1000000000"):
        load({"tenant_quotas": "team"}, {})


# Removed settings


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemosyne.config.REMOVED_SETTINGS", {"goal_size": None, "listen_on": "host"})


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        ("goal_size = 3", "goal_size (no longer needed)"),
        ('listen_on = "::1"', "listen_on (use host instead)"),
        ("[goal_size]\nx = [1, {y = 2}]", "goal_size (no longer needed)"),
        ('listen_on = ""\ngoal_size = -1', "goal_size (no longer needed), listen_on (use host instead)"),
    ],
)
@pytest.mark.usefixtures("removed")
def test_file_with_removed_settings_gets_one_warning_and_no_error(
    text: str, explained: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    write(tmp_path, "port = 1\n")
    assert load({}, environ).warning is None
    file = write(tmp_path, f"port = 1\n{text}\n")
    config = load({}, environ)
    assert config.warning == f"{file} names removed settings: {explained}. They have no effect."
    assert (config.port, config.host) == (1, "127.0.0.1")


@pytest.mark.usefixtures("removed")
def test_unknown_setting_is_an_error_even_with_a_removed_one(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, "goal_size = 1\nprot = 1\n")
    with pytest.raises(BadConfiguration, match=r"unknown settings: prot\."):
        load({}, environ)


def test_removed_setting_no_longer_exists_and_its_successor_does() -> None:
    names = {setting.name for setting in SETTINGS}
    assert not set(REMOVED_SETTINGS) & names
    assert {successor for successor in REMOVED_SETTINGS.values() if successor is not None} <= names
