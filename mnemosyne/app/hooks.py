"""Events that clients send to their hooks, in Claude Code's format, and the files that a hook saves before a call."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from mnemosyne.adapters.git_worktree import GitWorktree, RestoredFiles
from mnemosyne.app.clients import BASE_URL, CUSTOM_HEADERS, DOOR, MODE_HEADER, OPENCODE_CONFIG
from mnemosyne.app.discovery import ask_page, url_of
from mnemosyne.config import Config
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.domain.wire.submitted import ENDED_HEADER, INTERACTIVE_HEADER, PROMPT_HEADER, hash_prompt
from mnemosyne.errors import BadOption, NotFound

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

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""Session and call ids that are valid in a Git ref."""


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


@attrs.frozen
class KeptFiles:
    """The saved files of a working tree before a call."""

    worktree: GitWorktree
    ref: str

    def restore_files(self, at: int) -> RestoredFiles:
        """Restore the files; first save the current ones under the time ``at``, in µs of UTC."""
        return self.worktree.restore_files(self.ref, f"before/{at}")


def keep_before_call(event: HookEvent) -> None:
    """Save the files of the event's folder under its session and call. Raises BadOption, NotFound, WorktreeFailed."""
    if not _NAME.fullmatch(event.session) or not _NAME.fullmatch(event.call):
        raise BadOption("The files cannot be saved: the event lacks a valid session or call id.")
    worktree = GitWorktree.around(event.folder)
    worktree.keep(f"{event.session}/{event.call}", f"Before call {event.call} of session {event.session}")


def find_files(folder: Path, session: str, calls: Sequence[str]) -> KeptFiles | None:
    """Return the files saved before the first of these calls; None if the session has saved files but none for these
    calls. Raises NotFound if the session has none.
    """
    worktree = GitWorktree.around(folder)
    kept = worktree.list_kept(session)
    if not kept:
        raise NotFound(
            f"Session {session} has no saved files in {worktree.top}. To save them, start the client with"
            f" `mnemosyne run --record-worktree`."
        )
    first = next((call for call in calls if call in kept), None)
    return None if first is None else KeptFiles(worktree, kept[first])
