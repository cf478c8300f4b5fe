"""Find a running server of this data directory at the configured port."""

import http.client
import json
import os
import select
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from mnemosyne.config import Config
from mnemosyne.data_dir import existing_token
from mnemosyne.figures import local_time
from mnemosyne.setting_values import is_loopback

ANSWER_SECONDS = 5.0
SLOW_SECONDS = 120.0
"""Time limit for a server that has accepted a connection, but is still starting or busy."""

PROBE_SECONDS = 20.0
"""Time limit for a server to probe all providers of a dialect."""

Slow = Callable[[str], None] | None

LARGEST_STATUS = 64 * 1024

SOCKET_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENING = "0A"
"""The code of a listening socket in these tables."""


@attrs.frozen
class FoundServer:
    """A running server of this data directory."""

    url: str
    version: str
    upstream: str
    tenant: str
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Its settings as text."""
    off_since: int | None = None
    """Since when managing is switched off, in µs of UTC; None if it is on or unknown."""
    unrecorded: Mapping[str, int] = attrs.field(factory=dict)
    """Number of possible conversation requests that it forwarded without a record, by path."""
    untold: Mapping[str, int] = attrs.field(factory=dict)
    """As in ``http.client_reply.HiddenUsage``: paid usage that clients' replies do not report."""
    worker: Mapping[str, Any] = attrs.field(factory=dict)
    """Its worker's state (``supervising.Supervisor.describe``)."""
    ignored_variables: Sequence[str] = ()
    """A message for each unusable environment variable (``adapters.outbound``)."""
    database: Mapping[str, Any] = attrs.field(factory=dict)
    """Its recording state (``server.describe_recording``)."""

    @property
    def has_all_on_record(self) -> bool:
        """Whether all finished turns are recorded."""
        return not (self.database.get("appends_waiting") or self.database.get("records_waiting"))

    def serves(self, config: Config) -> bool:
        """Whether it has the upstream and tenant of these settings."""
        return (self.upstream, self.tenant) == (config.upstream, config.tenant)


def render_unrecorded(path: str, count: int) -> str:
    """Return the message about requests that a server forwarded without a record."""
    how = "1 request" if count == 1 else f"{count} requests"
    return f"{how} to {path} {'was' if count == 1 else 'were'} forwarded but not recorded"


def off_sentence(since: int) -> str:
    """Return the message that managing is switched off since a time in µs of UTC."""
    return f"managing is off since {local_time(since)}: nothing is managed; `mnemosyne off --undo` switches it on"


def url_of(config: Config) -> str:
    """Return the URL at which clients on this machine reach a server with these settings."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)
    return f"http://[{host}]:{config.port}" if ":" in host else f"http://{host}:{config.port}"


def find_server(config: Config, slow: Slow = None) -> FoundServer | None:
    """Return this data directory's server at the configured address; None without one. ``slow``: ``server_at``."""
    if existing_token(config.data_dir) is None or config.port == 0 or not _may_be_trusted(config.port):
        return None
    return server_at(url_of(config), config, slow)


def ask_page(url: str, path: str, config: Config, seconds: float, post: Mapping[str, str] | None = None) -> Any:
    """Fetch an endpoint's JSON from a trusted server on this machine; None if it does not reply in time. With ``post``,
    send a POST request with these headers.
    """
    try:
        parts = urlsplit(url)
        is_here = is_loopback(parts.hostname or "") and parts.port and _may_be_trusted(parts.port)
    except ValueError:
        return None
    return _ask(url, path, config, seconds, post) if is_here else None


def _ask(
    url: str, path: str, config: Config, seconds: float, post: Mapping[str, str] | None = None, slow: Slow = None
) -> Any:
    token = existing_token(config.data_dir)
    if token is None:
        return None
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    try:
        headers = {"Authorization": f"Bearer {token}", **(post or {})}
        connection.request("POST" if post else "GET", path, headers=headers)
        if slow is not None and not select.select([connection.sock], [], [], seconds)[0]:
            slow(f"the server on port {parts.port} does not answer yet; waiting up to {SLOW_SECONDS:g} s for it")
            connection.sock.settimeout(SLOW_SECONDS)
        response = connection.getresponse()
        return json.loads(response.read(LARGEST_STATUS)) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def probe_upstreams(url: str, dialect: str, config: Config) -> Sequence[Mapping[str, str]]:
    """Ask a server whether it reaches the providers of a dialect (``exchange.Reachability``)."""
    answer = ask_page(url, f"/-/upstream/{dialect}", config, PROBE_SECONDS)
    return answer["upstreams"] if isinstance(answer, dict) else ()


def server_at(url: str, config: Config, slow: Slow = None) -> FoundServer | None:
    """Return this data directory's server at a URL; None if another listens there. ``slow`` reports a long wait."""
    status = _ask(url, "/-/status", config, ANSWER_SECONDS, slow=slow)
    if not isinstance(status, dict) or not {"version", "upstream", "tenant"} <= status.keys():
        return None
    return FoundServer(url, **{name: status[name] for name in attrs.fields_dict(FoundServer) if name in status})


def _may_be_trusted(port: int, tables: Sequence[Path] = SOCKET_TABLES) -> bool:
    """Whether the listener on ``port`` runs as this user or root, as far as the system reports it.

    Any user of a machine can listen on a loopback port and imitate the server: it would get the token and then the
    client's credentials.
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
