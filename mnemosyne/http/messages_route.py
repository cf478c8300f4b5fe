"""Which requests are turns of a conversation, and what of them is recorded."""

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
}
"""Where turns are asked for, and in which dialect: the ``plain_path`` of a request is looked up."""

COUNTING = frozenset(path + b"/count_tokens" for path, dialect in PATHS.items() if dialect is MESSAGES)


class TurnLogs(Protocol):
    """Opens the log of a turn."""

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
        """``wanted`` is the mode that a request asks for, ``default`` that of a conversation that begins. ``lease``
        stands for the memory that a decoded body takes, and is kept for as long as the turn is. ``lacks_room`` says
        that there is no memory to plan what is sent.
        """
        ...

    async def may_be_managed(self, headers: TextHeaders, dialect: Dialect, wanted: Mode | None, default: Mode) -> bool:
        """Whether a request may belong to a conversation that is managed, as far as its headers say."""
        ...


MODE_HEADER = b"x-mnemosyne-mode"
MODES = {b"manage": Mode.MANAGE, b"observe": Mode.OBSERVE, b"off": Mode.BYPASS}


def find_mode(headers: Headers) -> Mode | None:
    """What a request asks for; None if it does not say, or says what nobody knows."""
    said = [value.strip().lower() for name, value in headers if name.lower() == MODE_HEADER]
    return MODES.get(said[0]) if said else None


def plain_path(target: bytes) -> bytes:
    """The path of a target as providers document it: without empty parts, and from its last ``v1`` on, before which a
    gateway may have a prefix. It only says what a request is; what goes upstream is the client's own target.
    """
    parts = _parts_of(target)
    before = len(parts) - parts[::-1].index(b"v1") - 1 if b"v1" in parts else 0
    return b"/" + b"/".join(parts[before:])


def _parts_of(target: bytes) -> list[bytes]:
    return [part for part in target.partition(b"?")[0].split(b"/") if part]


def turn_dialect(request: UpstreamRequest) -> Dialect | None:
    """The dialect in which the request asks the model for a message; None where it does not. Counting tokens does not:
    the model never sees it.
    """
    return PATHS.get(plain_path(request.target)) if request.method == "POST" else None


def error_dialect(target: bytes) -> Dialect:
    """The dialect in which whoever asks for it reads errors."""
    return path_dialect(target) or MESSAGES


def path_dialect(target: bytes) -> Dialect | None:
    """The dialect to which a path belongs, be it that of a turn or one below it; None where it belongs to none."""
    path = plain_path(target)
    return next((each for own, each in PATHS.items() if path == own or path.startswith(own + b"/")), None)


def is_count(request: UpstreamRequest) -> bool:
    """Whether the request asks how many tokens a turn would have."""
    return request.method == "POST" and plain_path(request.target) in COUNTING


def may_hold_a_conversation(request: UpstreamRequest) -> bool:
    """Whether the request may hold a conversation in a dialect that we do not know, which is passed on and not
    recorded. What clients post below ``/api/`` are statistics, unless it names a model.
    """
    if request.method != "POST" or turn_dialect(request) is not None or is_count(request):
        return False
    return _parts_of(request.target)[:1] != [b"api"] or model_of(request.body) is not None


def model_of(body: bytes) -> str | None:
    """The model that a request names; None if it names none, or is no JSON object."""
    named = (member for member in json_spans.members(body) or () if member.key == "model")
    return next((json_spans.text_at(body, member) for member in named), None)


def is_encoded(headers: Headers) -> bool:
    """Whether the body is not what its bytes are, but what they decode to."""
    return bool(encodings_of(headers))


def readable_body(headers: Headers, body: bytes) -> bytes | None:
    """The JSON of a request that came compressed; None if it cannot be decoded, or is far too large.

    A compressed body is recorded decoded: a credential inside could not be withheld from it otherwise.
    """
    decoder = decoder_for(encodings_of(headers))
    try:
        return decoder.decode(body) if decoder else None
    except ValueError:
        return None


def measure_decoded(headers: Headers, body: bytes) -> int | None:
    """How many bytes such a request decodes to; None as in ``readable_body``. Few of them are held at once."""
    decoder = decoder_for(encodings_of(headers))
    try:
        return sum(map(len, decoder.pieces(body))) if decoder else None
    except ValueError:
        return None
