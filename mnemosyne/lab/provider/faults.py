"""The faults of a script, put into a stream of events at their places. Pure; the kinds are listed at `script.Fault`."""

from collections.abc import Iterator, Sequence

from mnemosyne.lab.provider.script import Place, WireFault
from mnemosyne.lab.provider.stream_events import PING, Event
from mnemosyne.lab.provider.wire_steps import Chunk, Cut, Step, Wait

_STRUCTURAL = {"index_gap", "restart_index", "no_message_stop", "duplicate_tool_id", "cut_before_reply"}
"""Kinds that have no place: they change how the events are made."""
_FINAL = {"cut", "error_event"}


def position(at: Place, events: Sequence[Event]) -> int:
    """How many events come before the place; a name that does not occur means the end."""
    if isinstance(at, str):
        return next((number for number, event in enumerate(events) if event.name == at), len(events))
    return max(0, min(len(events), at if at >= 0 else len(events) + at))


def apply(faults: Sequence[WireFault], events: Sequence[Event]) -> Iterator[Step]:
    """The stream with its faults. Faults at the same place happen in the order of the script."""
    at: dict[int, list[WireFault]] = {}
    for fault in faults:
        if fault.kind not in _STRUCTURAL:
            at.setdefault(position(fault.at, events), []).append(fault)
    for number in range(len(events) + 1):
        following = events[number] if number < len(events) else None
        for fault in at.get(number, ()):
            yield from _at_place(fault, events, following)
            if fault.kind in _FINAL:
                return
        if following is not None:
            if following.wait:
                yield Wait(following.wait)
            yield Chunk(following.encode())


def _at_place(fault: WireFault, events: Sequence[Event], following: Event | None) -> Iterator[Step]:
    match fault.kind:
        case "second_message_start":
            yield Chunk(events[0].encode())
        case "event":
            yield Chunk(Event(fault.name, fault.data).encode())
        case "comment":
            yield Chunk(b": " + fault.text.encode() + b"\n\n")
        case "ping":
            yield Chunk(PING)
        case "bytes":
            yield Chunk(fault.text.encode())
        case "silence":
            yield from _silence(fault)
        case "error_event":
            error = {"type": fault.error_type, "message": fault.text or "Overloaded"}
            yield Chunk(Event("error", {"error": error}).encode())
        case "cut":
            if fault.inside and following is not None:
                yield Chunk(following.encode()[: fault.inside])
            yield Cut(fault.reset)
        case _:
            pass


def _silence(fault: WireFault) -> Iterator[Step]:
    left = fault.seconds
    while fault.ping_every and left > fault.ping_every:
        yield Wait(fault.ping_every)
        yield Chunk(PING)
        left -= fault.ping_every
    yield Wait(left)
