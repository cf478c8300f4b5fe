"""What clients tell their hooks, in the words of Claude Code."""

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
"""How long a server may take to answer a hook."""

OWNER_PATH = "/-/owner"
"""As in ``http.inspector.status``."""


@attrs.frozen
class HookEvent:
    """Something that happened in a client. ``resumed``: what the session was told as it began still stands in it.
    ``session`` and ``call`` are the client's ids, empty where it does not say.
    """

    name: str
    folder: Path
    prompt: str = ""
    resumed: bool = False
    session: str = ""
    call: str = ""


def parse_event(raw: bytes) -> HookEvent:
    """The event that a client writes to a hook's stdin. Raises BadOption."""
    try:
        told = json_values.read_storable(raw)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("hook_event_name"), str):
        raise BadOption("This command is for hooks of clients: it reads an event as JSON from stdin.")
    texts = {name: value for name, value in told.items() if isinstance(value, str)}
    return HookEvent(
        name=texts["hook_event_name"],
        folder=Path(texts.get("cwd", "")),
        prompt=texts.get("prompt", ""),
        resumed=texts.get("source") == "resume",
        session=texts.get("session_id", ""),
        call=texts.get("tool_use_id", ""),
    )


def present(event: HookEvent, environ: Mapping[str, str], config: Config) -> None:
    """Tell the client's server that the session is the owner's: its credential may be another one than before."""
    url = environ.get(BASE_URL, "") or url_of(config)
    if event.session.isascii() and event.session.isprintable() and event.session:
        ask_page(url, OWNER_PATH, config, ANSWER_SECONDS, post={SESSION_HEADER: event.session})


def is_managed(environ: Mapping[str, str], config: Config) -> bool:
    """Whether the client's requests go through a server that manages them: it tells and learns by itself."""
    asked = f"{environ.get(CUSTOM_HEADERS, '')}{environ.get(OPENCODE_CONFIG, '')}"
    if MODE_HEADER in asked:
        return "manage" in asked.partition(MODE_HEADER)[2]
    url = environ.get(BASE_URL, "")
    status = ask_page(url, "/-/status", config, ANSWER_SECONDS) if url else None
    return isinstance(status, dict) and status.get("settings", {}).get("mode") == "manage"
