"""A reply on its way out: whole or as a stream, then the faults of the script, then the framing. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import orjson

from mnemosyne_lab.provider.api_errors import whole
from mnemosyne_lab.provider.reading import Headers, header
from mnemosyne_lab.provider.script import Failure, Place, Raw, ScriptedReply, WireFault
from mnemosyne_lab.provider.stream_events import Event, StreamForm
from mnemosyne_lab.provider.wire_steps import Chunk, CloseIdle, Cut, Head, HeaderLines, Step, Wait, compress, frame


@attrs.frozen
class Rendering:
    """One reply in one dialect, in each way in which it may leave."""

    form: StreamForm
    make_whole: Callable[[], dict[str, Any]]
    make_events: Callable[[], Sequence[Event]]
    write_failure: Callable[[Failure], bytes]
    """The JSON body of a scripted failure."""


def deliver(
    reply: ScriptedReply, rendering: Rendering, *, stream: bool, asked: Headers, headers: HeaderLines
) -> list[Step]:
    """All steps on the connection for this reply.

    `asked` are the request's headers, `headers` the response headers that the dialect adds.
    """
    if any(fault.kind == "cut_before_reply" for fault in reply.faults):
        return [*wait_for(reply.pace.first), Cut(any(fault.reset for fault in reply.faults))]
    if reply.raw is not None:
        return [*wait_for(reply.pace.first), *raw_steps(reply.raw)]
    headers = [*headers, *reply.transport.headers]
    if reply.failure is not None:
        steps = _fail(reply.failure, rendering.write_failure(reply.failure), headers)
    elif stream:
        steps = _stream(reply, rendering, headers)
    else:
        steps = _send_whole(reply, rendering, headers)
    steps = list(frame(steps, reply.transport.framing))
    if reply.transport.close_after:
        steps.append(CloseIdle())
    if reply.transport.gzip and "gzip" in (header(asked, "accept-encoding") or ""):
        steps = list(compress(steps))
    return [*wait_for(reply.pace.first), *steps]


def wait_for(seconds: float) -> list[Step]:
    """One wait, or none for no time."""
    return [Wait(seconds)] if seconds else []


def raw_steps(raw: Raw) -> list[Step]:
    """A literal response."""
    body = raw.payload()
    names = {name.lower() for name, _ in raw.headers}
    headers = list(raw.headers)
    if not names & {"content-length", "transfer-encoding"}:
        headers.append(("content-length", str(len(body))))
    return [Head(raw.status, headers, raw.reason, literal=True), *([Chunk(body)] if body else [])]


def _fail(failure: Failure, body: bytes, headers: HeaderLines) -> list[Step]:
    extra = list(failure.headers)
    if failure.retry_after is not None:
        extra.append(("retry-after", f"{failure.retry_after:g}"))
    return whole(failure.status, [*headers, *extra], body)


def _send_whole(reply: ScriptedReply, rendering: Rendering, headers: HeaderLines) -> list[Step]:
    steps = whole(200, headers, orjson.dumps(rendering.make_whole()))
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
    return [head, *apply(reply.faults, events, rendering.form)]


def cut(text: str, size: int) -> list[str]:
    """The text in deltas of so many characters."""
    size = max(1, size)
    return [text[start : start + size] for start in range(0, len(text), size)]


_STRUCTURAL = {"index_gap", "restart_index", "no_message_stop", "cut_before_reply"}
"""Kinds that have no place: they change how the events are made."""
_FINAL = {"cut", "error_event"}


def position(at: Place, events: Sequence[Event]) -> int:
    """How many events come before the place; a name that does not occur means the end."""
    if isinstance(at, str):
        return next((number for number, event in enumerate(events) if event.name == at), len(events))
    return max(0, min(len(events), at if at >= 0 else len(events) + at))


def apply(faults: Sequence[WireFault], events: Sequence[Event], form: StreamForm) -> Iterator[Step]:
    """The stream with its faults. Faults at the same place happen in the order of the script."""
    at: dict[int, list[WireFault]] = {}
    for fault in faults:
        if fault.kind not in _STRUCTURAL:
            at.setdefault(position(fault.at, events), []).append(fault)
    for number in range(len(events) + 1):
        following = events[number] if number < len(events) else None
        for fault in at.get(number, ()):
            yield from _at_place(fault, events, following, form)
            if fault.kind in _FINAL:
                return
        if following is not None:
            if following.wait:
                yield Wait(following.wait)
            yield Chunk(form.encode(following))


def _at_place(fault: WireFault, events: Sequence[Event], following: Event | None, form: StreamForm) -> Iterator[Step]:
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
            yield from _silence(fault, form.ping)
        case "error_event":
            yield Chunk(form.encode(form.make_error(fault.error_type, fault.text or "Overloaded")))
        case "cut":
            if fault.inside and following is not None:
                yield Chunk(form.encode(following)[: fault.inside])
            yield Cut(fault.reset)
        case _:
            pass


def _silence(fault: WireFault, ping: bytes) -> Iterator[Step]:
    left = fault.seconds
    while fault.ping_every and left > fault.ping_every:
        yield Wait(fault.ping_every)
        yield Chunk(ping)
        left -= fault.ping_every
    yield Wait(left)
