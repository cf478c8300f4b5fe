"""The files under ``deploy/`` are valid for their readers, and name existing commands, settings and files."""

import configparser
import json
import plistlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from mnemosyne.config import SETTINGS, Config, load
from mnemosyne.http.inspector.status import PATHS
from tests.test_docs import parse_command

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVER: dict[str, Any] = COMPOSE["services"]["server"]
PLIST: dict[str, Any] = plistlib.loads((DEPLOY / "mnemosyne.plist").read_bytes())
DEFAULTS = {setting.name: setting.default for setting in SETTINGS}


def instructions() -> Iterator[tuple[str, str]]:
    """The instructions of the Dockerfile, each in one line."""
    text = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, " ".join(rest.split())


def instruction(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def image_environ() -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in shlex.split(instruction("ENV")[0]))


def unit() -> configparser.ConfigParser:
    class Repeated(dict[str, Any]):
        """A repeated key adds a line."""

        def __setitem__(self, key: str, value: Any) -> None:
            if isinstance(value, list) and isinstance(self.get(key), list):
                self[key].extend(value)
            else:
                super().__setitem__(key, value)

    parser = configparser.ConfigParser(dict_type=Repeated, strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    parser.read(DEPLOY / "mnemosyne.service", encoding="utf-8")
    return parser


SERVICE = unit()["Service"]


def settings_in(environ: Mapping[str, str]) -> Config:
    """The settings that these variables make; each of ours is a setting."""
    ours = {name: value for name, value in environ.items() if name.startswith("MNEMOSYNE_")}
    assert ours.keys() <= {setting.variable for setting in SETTINGS}
    return load({}, ours)


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s?", text)
    assert found
    return int(found[1])


def test_image_copies_existing_files_of_the_build_context() -> None:
    ignoring = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for copied in instruction("COPY"):
        *sources, _ = copied.split()
        for source in sources:
            if not copied.startswith("--from="):
                assert (ROOT / source).exists()
                assert f"!{source}" in ignoring


@pytest.mark.parametrize(
    "command",
    [
        [*json.loads(instruction("ENTRYPOINT")[0]), *json.loads(instruction("CMD")[0])],
        shlex.split(SERVICE["ExecStart"]),
        PLIST["ProgramArguments"],
    ],
    ids=["Dockerfile", "systemd", "launchd"],
)
def test_entry_point_is_a_command_of_the_program(command: Sequence[str]) -> None:
    assert command[0].rpartition("/")[2] == "mnemosyne"
    parse_command(list(command))


def test_image_listens_on_its_published_port_and_keeps_its_state_in_a_volume() -> None:
    config = settings_in(image_environ())
    assert (config.host, config.allow_remote, config.log_format) == ("0.0.0.0", True, "json")
    assert [str(config.data_dir)] == instruction("VOLUME")
    assert instruction("EXPOSE") == [str(config.port)]
    assert instruction("USER") == ["mnemosyne"]


def test_image_is_healthy_while_its_server_is_ready() -> None:
    (check,) = instruction("HEALTHCHECK")
    program = json.loads(check[check.index("[") :])[-1]
    compile(program, "HEALTHCHECK", "exec")
    path = re.search(r"http://127\.0\.0\.1:(\d+)(/[^']*)", program)
    assert path
    assert (int(path[1]), path[2].encode() in PATHS) == (DEFAULTS["port"], True)


def test_compose_gives_the_server_a_database_and_publishes_its_port_locally() -> None:
    config = settings_in(image_environ() | SERVER["environment"])
    assert config.dsn is not None
    database = COMPOSE["services"]["postgres"]
    user, name = (database["environment"][f"POSTGRES_{each}"] for each in ("USER", "DB"))
    assert config.dsn == f"postgresql://{user}@postgres/{name}"
    assert SERVER["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]
    assert (DEPLOY / SERVER["build"]["context"] / SERVER["build"]["dockerfile"]).is_file()
    assert SERVER["ports"] == [f"127.0.0.1:{DEFAULTS['port']}:{DEFAULTS['port']}"]
    mounted = [each.partition(":") for service in (database, SERVER) for each in service["volumes"]]
    assert {volume for volume, _, _ in mounted} == set(COMPOSE["volumes"])
    assert SERVER["volumes"] == [f"data:{config.data_dir}"]


def test_server_with_a_standby_uses_whichever_database_accepts_writes() -> None:
    added = yaml.safe_load((DEPLOY / "compose.standby.yaml").read_text(encoding="utf-8"))
    config = settings_in(added["services"]["server"]["environment"])
    assert config.dsn is not None
    chosen = conninfo_to_dict(config.dsn)
    assert chosen["target_session_attrs"] == "read-write"
    assert {*str(chosen["host"]).split(",")} == {*added["services"]} - {"server"}
    assert added["services"]["postgres"]["restart"] == "no"


def test_running_replies_may_finish_before_the_server_is_killed() -> None:
    for longest in (SERVER["stop_grace_period"], SERVICE["TimeoutStopSec"], str(PLIST["ExitTimeOut"])):
        assert seconds(longest) > int(str(DEFAULTS["drain_seconds"]))


def test_unit_sets_valid_settings_and_reloads_by_sighup() -> None:
    environ = dict(line.partition("=")[::2] for line in SERVICE["Environment"].splitlines())
    config = settings_in(environ)
    assert str(config.data_dir) == f"/var/lib/{SERVICE['StateDirectory']}"
    assert SERVICE["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_every_file_is_documented() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    for file in DEPLOY.iterdir():
        assert f"deploy/{file.name.removesuffix('.dockerignore')}" in page
