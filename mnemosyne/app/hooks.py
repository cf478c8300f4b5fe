"""Events that clients send to their hooks, in Claude Code's format."""

from collections.abc import Mapping
from pathlib import Path

import attrs

from mnemosyne.app.clients import BASE_URL, CUSTOM_HEADERS, MODE_HEADER, OPENCODE_CONFIG
from mnemosyne.app.discovery import ask_page, url_of
from mnemosyne.config import Config
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.errors import BadOption

ANSWER_SECONDS = 1.0
"""Time limit for the server's answer to a hook."""

OWNER_PATH = "/-/owner"
"""As in ``http.inspector.status``."""


@attrs.frozen
class HookEvent:
    """An event of a client. ``resumed``: the session is continued and still has its original memory block. ``session``
    and ``call`` are the client's ids, empty if it sends none.
    """

    name: str
    folder: Path
    prompt: str = ""
    resumed: bool = False
    session: str = ""
    call: str = ""


def parse_event(raw: bytes) -> HookEvent:
    """Parse the event that a client writes to a hook's stdin. Raises BadOption."""
    try:
        fields = json_values.read_storable(raw)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or not isinstance(fields.get("hook_event_name"), str):
        raise BadOption("This command is for client hooks: it reads an event as JSON from stdin.")
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    return HookEvent(
        name=texts["hook_event_name"],
        folder=Path(texts.get("cwd", "")),
        prompt=texts.get("prompt", ""),
        resumed=texts.get("source") == "resume",
        session=texts.get("session_id", ""),
        call=texts.get("tool_use_id", ""),
    )


def present(event: HookEvent, environ: Mapping[str, str], config: Config) -> None:
    """Mark the session as the owner's at the client's server, since its credential may have changed."""
    url = environ.get(BASE_URL, "") or url_of(config)
    if event.session.isascii() and event.session.isprintable() and event.session:
        ask_page(url, OWNER_PATH, config, ANSWER_SECONDS, post={SESSION_HEADER: event.session})


def is_managed(environ: Mapping[str, str], config: Config) -> bool:
    """Whether a server manages the client's requests; it then adds and learns memory itself."""
    configured = f"{environ.get(CUSTOM_HEADERS, '')}{environ.get(OPENCODE_CONFIG, '')}"
    if MODE_HEADER in configured:
        return "manage" in configured.partition(MODE_HEADER)[2]
    url = environ.get(BASE_URL, "")
    status = ask_page(url, "/-/status", config, ANSWER_SECONDS) if url else None
    return isinstance(status, dict) and status.get("settings", {}).get("mode") == "manage"
