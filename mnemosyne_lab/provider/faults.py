"""The faults of a script, put into a stream of events at their places. Pure; the kinds are listed at `script.Fault`."""

from collections.abc import Iterator, Sequence

from mnemosyne_lab.provider.script import Place, WireFault
from mnemosyne_lab.provider.stream_events import Event, StreamForm
from mnemosyne_lab.provider.wire_steps import Chunk, Cut, Step, Wait

_STRUCTURAL = {"index_gap", "restart_index", "no_message_stop", "duplicate_tool_id", "cut_before_reply"}
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
