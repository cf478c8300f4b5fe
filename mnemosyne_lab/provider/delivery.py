"""A reply on its way out: whole or as a stream, then the faults of the script, then the framing.

It becomes a list of steps, the server's actions on a connection: first a `Head`, then `Chunk`s and `Wait`s, and perhaps
a `Cut`. Without a `Cut`, the response ends normally. Pure.
"""

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import attrs
import orjson

from mnemosyne_lab.provider.reading import Headers, header
from mnemosyne_lab.provider.script import Failure, Place, Raw, ScriptedReply, WireFault

HeaderLines = list[tuple[str, str]]


@attrs.frozen
class Head:
    """Status and headers. Without a content length the body goes in chunks."""

    status: int
    headers: HeaderLines
    reason: str = ""
    literal: bool = False
    """Sent as given: no header is added, and the connection closes after the body."""


@attrs.frozen
class Chunk:
    """Bytes of the body that leave together, as one chunk."""

    data: bytes


@attrs.frozen
class Wait:
    """Seconds in which nothing is sent."""

    seconds: float


@attrs.frozen
class Cut:
    """The connection ends here, in the middle of things."""

    reset: bool = False


@attrs.frozen
class CloseIdle:
    """The connection ends here, unannounced, after a complete response."""


Step = Head | Chunk | Wait | Cut | CloseIdle
Framing = Literal["frame", "byte", "whole"] | list[int]


# Events of a stream, and their bytes in each dialect


@attrs.frozen
class Event:
    """One server-sent event."""

    name: str
    data: dict[str, Any]
    wait: float = 0
    """Seconds before it."""


@attrs.frozen
class StreamForm:
    """How a dialect writes its stream."""

    encode: Callable[[Event], bytes]
    ping: bytes
    """What keeps a silent connection alive."""
    make_error: Callable[[str, str], Event]
    """The event that ends a stream by an error, from the error's type and message."""
    last: str
    """Name of the event without which a stream has no proper end."""


def _encode_event(event: Event) -> bytes:
    """`event:` and `data:` lines with compact JSON; the data gets the event's name as `type`."""
    return b"event: " + event.name.encode() + b"\ndata: " + orjson.dumps({"type": event.name, **event.data}) + b"\n\n"


def _encode_chunk(event: Event) -> bytes:
    """A `data:` line only. The names of events are for the script; no client sees them."""
    return b"data: " + (b"[DONE]" if event.name == "done" else orjson.dumps(event.data)) + b"\n\n"


_COMMENT = b": ping\n\n"

MESSAGES = StreamForm(
    encode=_encode_event,
    ping=_encode_event(Event("ping", {})),
    make_error=lambda kind, text: Event("error", {"error": {"type": kind, "message": text}}),
    last="message_stop",
)
CHAT = StreamForm(
    encode=_encode_chunk,
    ping=_COMMENT,
    make_error=lambda kind, text: Event(
        "error", {"error": {"message": text, "type": kind, "param": None, "code": None}}
    ),
    last="done",
)
RESPONSES = StreamForm(
    encode=_encode_event,
    ping=_COMMENT,
    make_error=lambda kind, text: Event("error", {"code": kind, "message": text, "param": None}),
    last="response.completed",
)


# A reply as steps


@attrs.frozen
class Rendering:
    """One reply in one dialect, in each way in which it may leave."""

    form: StreamForm
    make_whole: Callable[[], dict[str, Any]]
    make_events: Callable[[], Iterable[Event]]
    write_failure: Callable[[Failure], bytes]
    """The JSON body of a scripted failure."""


def deliver(
    reply: ScriptedReply, rendering: Rendering, *, stream: bool, asked: Headers, headers: HeaderLines
) -> list[Step]:
    """All steps on the connection for this reply.

    `asked` are the request's headers, `headers` the response headers that the dialect adds.
    """
    begin: list[Step] = [Wait(reply.pace.first)] if reply.pace.first else []
    if any(fault.kind == "cut_before_reply" for fault in reply.faults):
        return [*begin, Cut(any(fault.reset for fault in reply.faults))]
    if reply.raw is not None:
        return [*begin, *raw_steps(reply.raw)]
    headers = [*headers, *reply.transport.headers]
    if reply.failure is not None:
        headers += reply.failure.headers
        if reply.failure.retry_after is not None:
            headers.append(("retry-after", f"{reply.failure.retry_after:g}"))
        steps = whole(reply.failure.status, headers, rendering.write_failure(reply.failure))
    elif stream:
        steps = _stream(reply, rendering, headers)
    else:
        steps = _send_whole(reply, whole(200, headers, orjson.dumps(rendering.make_whole())))
    steps = list(frame(steps, reply.transport.framing))
    if reply.transport.close_after:
        steps.append(CloseIdle())
    if reply.transport.gzip and "gzip" in (header(asked, "accept-encoding") or ""):
        steps = list(compress(steps))
    return [*begin, *steps]


def raw_steps(raw: Raw) -> list[Step]:
    """A literal response."""
    body = raw.payload()
    headers = list(raw.headers)
    if not {name.lower() for name, _ in raw.headers} & {"content-length", "transfer-encoding"}:
        headers.append(("content-length", str(len(body))))
    return [Head(raw.status, headers, raw.reason, literal=True), *([Chunk(body)] if body else [])]


def _send_whole(reply: ScriptedReply, steps: list[Step]) -> list[Step]:
    for fault in reply.faults:
        if fault.kind == "silence":
            steps.insert(0, Wait(fault.seconds))
        elif fault.kind == "cut":
            assert isinstance(steps[-1], Chunk)
            kept = steps[-1].data[: fault.inside or len(steps[-1].data) // 2]
            return [*steps[:-1], Chunk(kept), Cut(fault.reset)]
    return steps


def _stream(reply: ScriptedReply, rendering: Rendering, headers: HeaderLines) -> list[Step]:
    events = list(rendering.make_events())
    if any(fault.kind == "no_message_stop" for fault in reply.faults):
        events = [event for event in events if event.name != rendering.form.last]
    head = Head(200, [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"), *headers])
    return [head, *_add_faults(reply.faults, events, rendering.form)]


def cut(text: str, size: int) -> list[str]:
    """The text in deltas of so many characters."""
    size = max(1, size)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _find_place(at: Place, events: Sequence[Event]) -> int:
    """How many events come before the place; a name that does not occur means the end."""
    if isinstance(at, str):
        return next((number for number, event in enumerate(events) if event.name == at), len(events))
    return max(0, min(len(events), at if at >= 0 else len(events) + at))


def _add_faults(faults: Sequence[WireFault], events: Sequence[Event], form: StreamForm) -> Iterator[Step]:
    """The stream with its faults. Faults at the same place happen in the order of the script."""
    places = [(_find_place(fault.at, events), fault) for fault in faults]
    for number, following in enumerate([*events, None]):
        for fault in (fault for place, fault in places if place == number):
            yield from _list_fault_steps(fault, events, following, form)
            if fault.kind in {"cut", "error_event"}:
                return
        if following is not None:
            if following.wait:
                yield Wait(following.wait)
            yield Chunk(form.encode(following))


def _list_fault_steps(
    fault: WireFault, events: Sequence[Event], following: Event | None, form: StreamForm
) -> Iterator[Step]:
    """The steps of a fault at its place; none for a kind that changes how the events are made."""
    match fault.kind:
        case "second_message_start":
            yield Chunk(form.encode(events[0]))
        case "event":
            yield Chunk(form.encode(Event(fault.name, fault.data)))
        case "comment":
            yield Chunk(b": " + fault.text.encode() + b"\n\n")
        case "ping":
            yield Chunk(form.ping)
        case "bytes":
            yield Chunk(fault.text.encode())
        case "silence":
            yield Wait(fault.seconds)
        case "error_event":
            yield Chunk(form.encode(form.make_error(fault.error_type, fault.text or "Overloaded")))
        case "cut":
            if fault.inside and following is not None:
                yield Chunk(form.encode(following)[: fault.inside])
            yield Cut(fault.reset)


def whole(status: int, headers: HeaderLines, body: bytes) -> list[Step]:
    """A response with a JSON body of known length."""
    framing = [("content-type", "application/json"), ("content-length", str(len(body)))]
    return [Head(status, [*framing, *headers]), Chunk(body)]


def frame(steps: Iterable[Step], framing: Framing) -> Iterator[Step]:
    """Divide the bytes between waits into other chunks; remaining bytes are sent before a wait or a cut."""
    if framing == "frame":
        yield from steps
        return
    sizes = itertools.repeat(1) if framing == "byte" else itertools.cycle(framing if isinstance(framing, list) else [0])
    held = b""
    size = next(sizes)
    for step in steps:
        if not isinstance(step, Chunk):
            if held:
                yield Chunk(held)
                held = b""
            yield step
            continue
        held += step.data
        start = 0
        while size and len(held) - start >= size:
            yield Chunk(held[start : start + size])
            start += size
            size = next(sizes)
        held = held[start:]
    if held:
        yield Chunk(held)


def compress(steps: Iterable[Step]) -> Iterator[Step]:
    """Compress the body; each chunk can still be read as soon as it arrives."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    cut = False
    for step in steps:
        if isinstance(step, Chunk):
            yield Chunk(packer.compress(step.data) + packer.flush(zlib.Z_SYNC_FLUSH))
        elif isinstance(step, Head):
            kept = [(name, value) for name, value in step.headers if name.lower() != "content-length"]
            yield attrs.evolve(step, headers=[*kept, ("content-encoding", "gzip")])
        else:
            cut = cut or isinstance(step, Cut)
            if isinstance(step, CloseIdle):
                yield Chunk(packer.flush())
                packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
                yield step
                return
            yield step
    if not cut:
        yield Chunk(packer.flush())
