"""Which requests are turns of a conversation, and what of them is recorded."""

from typing import Protocol

from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.exchange import Headers, UpstreamRequest
from mnemosyne.http.content_encoding import decoder_for
from mnemosyne.http.headers import TextHeaders
from mnemosyne.http.turn_log import TurnLog

PATHS = frozenset({b"/v1/messages", b"/messages"})
COUNTING = frozenset(path + b"/count_tokens" for path in PATHS)


class TurnLogs(Protocol):
    """Opens the log of a turn."""

    def open_turn(self, headers: TextHeaders, body: bytes, wanted: Mode | None, default: Mode) -> TurnLog:
        """``wanted`` is the mode that a request asks for, ``default`` that of a conversation that begins."""
        ...


MODE_HEADER = b"x-mnemosyne-mode"
MODES = {b"manage": Mode.MANAGE, b"observe": Mode.OBSERVE, b"off": Mode.BYPASS}


def find_mode(headers: Headers) -> Mode | None:
    """What a request asks for; None if it does not say, or says what nobody knows."""
    said = [value.strip().lower() for name, value in headers if name.lower() == MODE_HEADER]
    return MODES.get(said[0]) if said else None


def is_turn(request: UpstreamRequest) -> bool:
    """Whether the request asks the model for a message. Counting tokens does not: the model never sees it."""
    return request.method == "POST" and request.target.partition(b"?")[0] in PATHS


def is_count(request: UpstreamRequest) -> bool:
    """Whether the request asks how many tokens a turn would have."""
    return request.method == "POST" and request.target.partition(b"?")[0] in COUNTING


def may_hold_a_conversation(request: UpstreamRequest) -> bool:
    """Whether the request may hold a conversation in another dialect than ours, which is passed on and not recorded.
    What clients post below ``/api/`` are statistics.
    """
    elsewhere = request.method == "POST" and not request.target.startswith(b"/api/")
    return elsewhere and not is_turn(request) and not is_count(request)


def is_encoded(headers: Headers) -> bool:
    """Whether the body is not what its bytes are, but what they decode to."""
    return _encodings(headers) not in ([], [b"identity"])


def readable_body(headers: Headers, body: bytes) -> bytes | None:
    """The JSON of a request that came compressed; None if it cannot be decoded, or is far too large.

    A compressed body is recorded decoded: a credential inside could not be withheld from it otherwise.
    """
    encodings = _encodings(headers)
    decoder = decoder_for(encodings[0]) if len(encodings) == 1 else None
    try:
        return decoder.decode(body) if decoder else None
    except ValueError:
        return None


def _encodings(headers: Headers) -> list[bytes]:
    return [value.strip().lower() for name, value in headers if name.lower() == b"content-encoding"]
