"""Decide which requests are turns of a conversation and are recorded."""

from collections.abc import Mapping
from typing import Protocol

from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import Headers, UpstreamRequest
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.http.content_encoding import decoder_for, encodings_of
from mnemosyne.http.headers import TextHeaders
from mnemosyne.http.turn_log import TurnLog

PATHS: Mapping[bytes, Dialect] = {
    b"/v1/messages": MESSAGES,
    b"/messages": MESSAGES,
    b"/v1/chat/completions": CHAT,
    b"/chat/completions": CHAT,
    b"/v1/responses": RESPONSES,
    b"/responses": RESPONSES,
    b"/backend-api/codex/responses": RESPONSES,  # of a ChatGPT plan
}
"""The dialect of each turn endpoint, by the request's ``plain_path``."""

COUNTING = frozenset(path + b"/count_tokens" for path, dialect in PATHS.items() if dialect is MESSAGES)


class TurnLogs(Protocol):
    def open_turn(
        self,
        headers: TextHeaders,
        body: bytes,
        dialect: Dialect,
        wanted: Mode | None,
        default: Mode,
        *,
        lease: object = None,
        lacks_room: bool = False,
    ) -> TurnLog:
        """Open a turn. ``wanted`` is the mode that the request asks for, ``default`` the mode of new conversations.
        ``lease`` holds the memory of a decoded body for the turn's lifetime. ``lacks_room``: there is no memory for
        planning the context.
        """

    async def read_history(self, headers: TextHeaders, body: bytes, dialect: Dialect) -> tuple[str, list[bytes]]:
        """The tenant of a request, and the hashes of the history that it shows."""

    async def may_be_managed(self, headers: TextHeaders, dialect: Dialect, wanted: Mode | None, default: Mode) -> bool:
        """Whether a request may belong to a managed conversation, judging by its headers."""


MODE_HEADER = b"x-mnemosyne-mode"
MODES = {b"manage": Mode.MANAGE, b"observe": Mode.OBSERVE, b"off": Mode.BYPASS}


def find_mode(headers: Headers) -> Mode | None:
    """Return the mode that a request asks for; None if it names none or an unknown one."""
    modes = [value.strip().lower() for name, value in headers if name.lower() == MODE_HEADER]
    return MODES.get(modes[0]) if modes else None


def plain_path(target: bytes) -> bytes:
    """Return a target's path as providers document it: without empty segments and without a gateway's prefix before the
    last ``v1``. Only for classification; the client's own target is sent upstream.
    """
    parts = _parts_of(target)
    before = len(parts) - parts[::-1].index(b"v1") - 1 if b"v1" in parts else 0
    return b"/" + b"/".join(parts[before:])


def _parts_of(target: bytes) -> list[bytes]:
    return [part for part in target.partition(b"?")[0].split(b"/") if part]


def turn_dialect(request: UpstreamRequest) -> Dialect | None:
    """Return the dialect of a request that asks the model for a message, else None. Token counting is not a turn, since
    the model never sees it.
    """
    return PATHS.get(plain_path(request.target)) if request.method == "POST" else None


def error_dialect(target: bytes) -> Dialect:
    return path_dialect(target) or MESSAGES


def path_dialect(target: bytes) -> Dialect | None:
    """Return the dialect of a turn endpoint or a path below it; None for other paths."""
    path = plain_path(target)
    return next((dialect for own, dialect in PATHS.items() if path == own or path.startswith(own + b"/")), None)


def is_count(request: UpstreamRequest) -> bool:
    """Whether the request asks for a token count."""
    return request.method == "POST" and plain_path(request.target) in COUNTING


def is_of_session(request: UpstreamRequest) -> bool:
    """Whether the request is a turn, or counts the tokens of one."""
    return turn_dialect(request) is not None or is_count(request)


def may_hold_a_conversation(request: UpstreamRequest) -> bool:
    """Whether the request may hold a conversation in an unknown dialect, which is forwarded and not recorded. Posts
    below ``/api/`` are clients' statistics unless they name a model.
    """
    if request.method != "POST" or is_of_session(request):
        return False
    return _parts_of(request.target)[:1] != [b"api"] or model_of(request.body) is not None


def model_of(body: bytes) -> str | None:
    """Return the model that a request names; None without one or if the body is not a JSON object."""
    named = (member for member in json_spans.members(body) or () if member.key == "model")
    return next((json_spans.text_at(body, member) for member in named), None)


def is_encoded(headers: Headers) -> bool:
    """Whether the body is compressed."""
    return bool(encodings_of(headers))


def readable_body(headers: Headers, body: bytes) -> bytes | None:
    """Decode a request body; None if it cannot be decoded or is too large.

    A compressed body is recorded decoded, so that a credential inside it can be withheld.
    """
    decoder = decoder_for(encodings_of(headers))
    try:
        return decoder.decode(body) if decoder else None
    except ValueError:
        return None


def measure_decoded(headers: Headers, body: bytes) -> int | None:
    """Return the decoded size of a request body, using little memory; None as in ``readable_body``."""
    decoder = decoder_for(encodings_of(headers))
    try:
        return sum(map(len, decoder.pieces(body))) if decoder else None
    except ValueError:
        return None
