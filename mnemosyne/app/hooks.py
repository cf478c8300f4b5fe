"""Events that clients send to their hooks, in Claude Code's format."""

from collections.abc import Mapping
from pathlib import Path

import attrs

from mnemosyne.app.clients import BASE_URL, CUSTOM_HEADERS, DOOR, MODE_HEADER, OPENCODE_CONFIG
from mnemosyne.app.discovery import ask_page, url_of
from mnemosyne.config import Config
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.domain.wire.submitted import ENDED_HEADER, INTERACTIVE_HEADER, PROMPT_HEADER, hash_prompt
from mnemosyne.errors import BadOption

ANSWER_SECONDS = 1.0
"""Time limit for the server's answer to a hook."""

STATUS_SECONDS = 5.0
"""The same at the beginning of a session, where a late answer would show the memory twice."""

SUBMIT = "UserPromptSubmit"
"""The event of a prompt that the user submits."""

END = "SessionEnd"

ATTENDED = "CLAUDE_CODE_SESSION_ATTENDED"
"""Claude Code 2.1.332 sets this to 1 for its hooks if a person is at the terminal, and to 0 under ``-p`` and the SDK,
even below an attended session.
"""

OWNER_PATH = "/-/owner"
"""As in ``http.inspector.status``."""


@attrs.frozen
class HookEvent:
    """An event of a client. ``resumed``: the session is continued and still has its original memory block. ``session``
    is the client's id of the session, empty if it sends none.
    """

    name: str
    folder: Path
    prompt: str = ""
    resumed: bool = False
    session: str = ""


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
    )


def report(event: HookEvent, environ: Mapping[str, str], config: Config) -> None:
    """Report to the client's server that the client has ended the session. On any other event, mark the session there
    as the owner's, since its credential may have changed, and vouch for the prompt that the user submits.
    """
    named = environ.get(BASE_URL, "")
    url = named if named.startswith("http:") else url_of(config)  # behind a door, it may name the provider
    headers = {SESSION_HEADER: event.session}
    if event.name == END:
        headers[ENDED_HEADER] = "1"
    elif event.name == SUBMIT and event.prompt:
        headers[PROMPT_HEADER] = hash_prompt(event.prompt)
        headers[INTERACTIVE_HEADER] = environ.get(ATTENDED, "0")
    if event.session.isascii() and event.session.isprintable() and event.session:
        ask_page(url, OWNER_PATH, config, ANSWER_SECONDS, post=headers)


def is_managed(environ: Mapping[str, str], config: Config) -> bool:
    """Whether a server manages the client's requests; it then adds and learns memory itself."""
    configured = f"{environ.get(CUSTOM_HEADERS, '')}{environ.get(OPENCODE_CONFIG, '')}"
    if MODE_HEADER in configured:
        return "manage" in configured.partition(MODE_HEADER)[2]
    url = url_of(config) if DOOR in environ.get("NODE_EXTRA_CA_CERTS", "") else environ.get(BASE_URL, "")
    status = ask_page(url, "/-/status", config, STATUS_SECONDS) if url else None
    return isinstance(status, dict) and status.get("settings", {}).get("mode") == "manage"
