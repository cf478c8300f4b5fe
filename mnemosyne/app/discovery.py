"""Is our server there already? Asked of the port that the settings name."""

import http.client
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from mnemosyne.config import Config
from mnemosyne.data_dir import existing_token
from mnemosyne.setting_values import is_loopback

ANSWER_SECONDS = 5.0
PROBE_SECONDS = 20.0
"""How long a server may take to probe the providers of a dialect, each for some seconds."""

LARGEST_STATUS = 64 * 1024

SOCKET_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENING = "0A"
"""The state of a listening socket in these tables."""


@attrs.frozen
class FoundServer:
    """A running server of this data directory."""

    url: str
    version: str
    upstream: str
    tenant: str
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Its settings, as text; none from an older version."""
    off_since: int | None = None
    """Since when the operator wants nothing to be managed, in µs of UTC; None if that is not so, or not known."""
    unrecorded: Mapping[str, int] = attrs.field(factory=dict)
    """How many requests it passed on without a record that may hold a conversation, by their path."""
    untold: Mapping[str, int] = attrs.field(factory=dict)
    """As in ``http.client_reply.HiddenUsage``: what its clients were not told of what they pay for."""
    worker: Mapping[str, Any] = attrs.field(factory=dict)
    """How its worker does (``supervising.Supervisor.describe``); nothing from an older version."""
    ignored_variables: Sequence[str] = ()
    """A sentence for each variable of its environment that it cannot use (``adapters.outbound``)."""
    database: Mapping[str, Any] = attrs.field(factory=dict)
    """How writing does (``server.describe_recording``); nothing from an older version."""

    @property
    def has_all_on_record(self) -> bool:
        """Whether nothing that was answered still waits to be written."""
        return not (self.database.get("appends_waiting") or self.database.get("records_waiting"))

    def serves(self, config: Config) -> bool:
        """Whether it does what a server with these settings would do."""
        return (self.upstream, self.tenant) == (config.upstream, config.tenant)


def render_unrecorded(path: str, count: int) -> str:
    """What is said of requests that a server passed on without a record."""
    how = "1 request" if count == 1 else f"{count} requests"
    return f"{how} to {path} {'was' if count == 1 else 'were'} passed on and not recorded"


def off_sentence(since: int) -> str:
    """What is said where managing is asked for and all of it is off, since that time in µs of UTC."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(since / 1_000_000))
    return f"managing is off since {when}: nothing is managed; `mnemosyne off --undo` ends that"


def url_of(config: Config) -> str:
    """Where a client on this machine reaches a server with these settings."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)
    return f"http://[{host}]:{config.port}" if ":" in host else f"http://{host}:{config.port}"


def find_server(config: Config) -> FoundServer | None:
    """The server of this data directory on the configured address; None if there is none, or somebody else's."""
    if existing_token(config.data_dir) is None or config.port == 0 or not _may_be_trusted(config.port):
        return None
    return server_at(url_of(config), config)


def ask_page(url: str, path: str, config: Config, seconds: float, post: Mapping[str, str] | None = None) -> Any:
    """A page of ours as JSON, from a server on this machine that runs as us; None where that gives none in time. With
    ``post``, headers are posted to it.
    """
    token = existing_token(config.data_dir)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if token is None or not is_loopback(host) or not port or not _may_be_trusted(port):
        return None
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        headers = {"Authorization": f"Bearer {token}", **(post or {})}
        connection.request("POST" if post else "GET", path, headers=headers)
        response = connection.getresponse()
        return json.loads(response.read(LARGEST_STATUS)) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def probe_upstreams(url: str, dialect: str, config: Config) -> Sequence[Mapping[str, str]]:
    """Whether a server reaches the providers that take a dialect (``exchange.Reachability``); nothing where it does not
    say, as an older version.
    """
    answer = ask_page(url, f"/-/upstream/{dialect}", config, PROBE_SECONDS)
    return answer["upstreams"] if isinstance(answer, dict) else ()


def server_at(url: str, config: Config) -> FoundServer | None:
    """The server of this data directory that listens there; None if it is somebody else's."""
    token = existing_token(config.data_dir)
    status = _status(url, token) if token is not None else {}
    if not {"version", "upstream", "tenant"} <= status.keys():
        return None
    names = ("settings", "off_since", "unrecorded", "untold", "worker", "ignored_variables", "database")
    told = {name: status[name] for name in names if name in status}
    return FoundServer(url, str(status["version"]), str(status["upstream"]), str(status["tenant"]), **told)


def _status(url: str, token: str) -> dict[str, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/-/status", headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        status = json.loads(response.read(LARGEST_STATUS)) if response.status == 200 else {}
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return status if isinstance(status, dict) else {}


def _may_be_trusted(port: int, tables: Sequence[Path] = SOCKET_TABLES) -> bool:
    """Whether whoever listens on ``port`` runs as us or as root, as far as the system tells.

    Any user of a machine can take a loopback port, and could answer like our server: it would be shown our token, and
    then the client's credentials.
    """
    owners: set[int] = set()
    for table in tables:
        try:
            rows = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, rows):
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                owners.add(int(fields[7]))
    return owners <= {0, os.geteuid()}
