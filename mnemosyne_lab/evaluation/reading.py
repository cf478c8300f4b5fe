"""Read recorded sessions and divide them into objects, as the server does during a session.

FILE is JSON Lines, one session a line: ``{name, model, messages, turns, resets}``. ``messages`` is the whole history in
the form of the Messages API; request k holds the first ``turns[k].msg`` of them, and the next one is its answer.
``turns[k].ts`` is when it was sent (ISO 8601); ``resets`` says where the client dropped its history: kind ``compact``,
``before_msg``, the ``summary`` that it continued with, and ``trigger`` ``auto`` or ``manual``. ``head`` has the
session's own ``system`` and ``tools``, ``turns[k].output`` the tokens of a reply. ``nanodollars`` is the recorded cost
without Mnemosyne, ``developer`` a name of its user. Anything else is ignored.
A FILE may also be one that `mnemosyne export` wrote.
"""

import base64
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import Admission, Link, LinkRelation
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation import prose, tools
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, Segmented, Superseded, segment
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks
from mnemosyne.errors import MnemosyneError
from mnemosyne.regular_files import open_regular
from mnemosyne_lab.evaluation.renditions import list_renditions, part_of
from mnemosyne_lab.evaluation.trace import Item, OwnHead, Reset, Step, Trace, TraceRequest, Use, pass_on

GAP = 20_000_000
"""µs between two requests of a session that has no times on record."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_USES = frozenset({LinkRelation.REFERENCES, LinkRelation.DEPENDS_ON, LinkRelation.CAUSED_BY})
_UNSCORED = Admission(type_prior=0.0, novelty=0.0, utility=0.0, recency=0.0, score=0.0, admitted=False)


@attrs.frozen
class RecordedSession:
    """A recorded session. ``where`` names its file and line; ``notes`` list the assumptions made about it.
    ``nanodollars`` is its recorded cost without Mnemosyne, None if that is not on record.
    """

    where: str
    name: str
    model: str | None
    messages: Sequence[Mapping[str, Any]] = attrs.field(repr=False)
    requests: Sequence[TraceRequest] = attrs.field(repr=False)
    resets: Sequence[Reset] = attrs.field(repr=False)
    notes: tuple[str, ...] = ()
    found_cached: int = 0
    head: OwnHead | None = attrs.field(default=None, repr=False)
    nanodollars: int | None = None
    developer: str | None = None


class Unreadable(ValueError):
    """It is no recorded session; the message says why."""


LINES_NAMED = 3
"""So many lines of a file that are unreadable, or sessions left out, for the same reason are named."""

Exported = Callable[[Path], Iterator[Mapping[str, Any]]]
"""Reads the sessions, in the form of a line of ours, out of a file that `mnemosyne export` wrote. Raises
MnemosyneError.
"""


def read(paths: Sequence[Path], exported: Exported) -> Iterator[RecordedSession | str]:
    """The sessions in files, in order. For input that is not a session, a sentence with file and line."""
    for path in paths:
        try:
            with open_regular(path) as file:
                is_export = _is_export(file.readline())
                file.seek(0)
                yield from _of_export(path, exported) if is_export else _sessions(path, file)
        except OSError as error:
            yield f"{path}: it cannot be read: {error.strerror or error}."


def _is_export(line: bytes) -> bool:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("format") == "mnemosyne-session"


def _of_export(path: Path, exported: Exported) -> Iterator[RecordedSession | str]:
    found = False
    try:
        for session in exported(path):
            found = True
            try:
                yield recording(str(path), session)
            except Unreadable as error:
                yield f"{path} ({session['name']}): {error}."
    except MnemosyneError as error:
        yield str(error)
    else:
        if not found:
            yield f"{path}: the exported session holds no conversation."


def _sessions(path: Path, lines: Iterator[bytes]) -> Iterator[RecordedSession | str]:
    """The sessions of a file, then a sentence for each reason why lines were skipped."""
    empty = True
    unreadable: dict[str, list[int]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            empty = False
            try:
                yield recording(f"{path}, line {number}", json.loads(line))
            except Unreadable as error:
                unreadable.setdefault(str(error), []).append(number)
            except (ValueError, RecursionError):
                reason = "it is no recorded session: no JSON object stands there"
                unreadable.setdefault(reason, []).append(number)
    for reason, numbers in unreadable.items():
        yield f"{path}, {_render_lines(numbers)}: {reason}."
    if empty:
        yield f"{path}: it is empty."


def _render_lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    shown = ", ".join(map(str, numbers[:LINES_NAMED]))
    more = f" and {len(numbers) - LINES_NAMED} more" if len(numbers) > LINES_NAMED else ""
    return f"lines {shown}{more}"


# From JSON to requests


def recording(where: str, session: object) -> RecordedSession:
    """One session, checked and put in order. Raises Unreadable."""
    if not isinstance(session, dict) or not isinstance(session.get("name"), str) or not session["name"]:
        raise Unreadable("it is no recorded session: a JSON object with a name, messages and turns")
    messages = session.get("messages")
    if not isinstance(messages, list) or not all(map(_is_message, messages)):
        raise Unreadable("its messages are no list of messages with a role and content")
    notes: list[str] = []
    turns = list(_turns(session.get("turns"), len(messages), notes.append))
    times = times_of([turn.get("ts") for turn in turns], notes.append)
    resets = tuple(_resets(session.get("resets"), messages, [turn["msg"] for turn in turns], notes.append))
    model, own, cost, developer = (session.get(name) for name in ("model", "head", "nanodollars", "developer"))
    return RecordedSession(
        where,
        session["name"],
        model if isinstance(model, str) else None,
        messages,
        tuple(_requests(messages, turns, times)),
        resets,
        tuple(notes),
        _count_cached(turns[0].get("usage")),
        OwnHead(own.get("system"), own.get("tools")) if isinstance(own, dict) else None,
        cost if type(cost) is int and cost > 0 else None,
        developer if isinstance(developer, str) else None,
    )


def _is_message(message: object) -> bool:
    match message:
        case {"role": "user" | "assistant" | "system", "content": str()}:
            return True
        case {"role": "user" | "assistant" | "system", "content": list(content)}:
            return all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content)
        case _:
            return False


def _turns(turns: object, count: int, note: Any) -> Iterator[dict[str, Any]]:
    """The turns whose request holds more of the history than the previous one."""
    if not isinstance(turns, list) or not turns:
        raise Unreadable("the session has no turns")
    before, left_out = 0, 0
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict) or type(turn.get("msg")) is not int or not 0 <= turn["msg"] <= count:
            raise Unreadable(f"turn {number} does not say how many of the {count} messages its request holds")
        if turn["msg"] > before:
            before = turn["msg"]
            yield turn
        else:
            left_out += 1
    if before == 0:
        raise Unreadable("none of its turns holds a message")
    if left_out:
        note(f"{left_out} turns that repeat an earlier request, or hold nothing, were left out")


def times_of(stamps: Sequence[object], note: Any = lambda sentence: None) -> list[int]:
    """Non-decreasing times in µs since 1970. A missing time is GAP after the previous one."""
    known = [_time(stamp) for stamp in stamps]
    first = next((at - GAP * (index + 1) for index, at in enumerate(known) if at is not None), -GAP)
    times: list[int] = []
    for at in known:
        before = times[-1] if times else first
        times.append(before + GAP if at is None else max(at, before))
    missing = known.count(None)
    backwards = sum(at is not None and at < told for at, told in zip(known, times, strict=True))
    if missing:
        note(f"{missing} turns have no time on record: {GAP // 1_000_000} s after the one before are assumed")
    if backwards:
        note(f"{backwards} turns begin before the one before them: the same time is assumed")
    return times


def _time(stamp: object) -> int | None:
    if not isinstance(stamp, str):
        return None
    try:
        read_as = datetime.fromisoformat(stamp)
        at = read_as.replace(tzinfo=read_as.tzinfo or UTC)
        return (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def _requests(
    messages: Sequence[Mapping[str, Any]], turns: Sequence[Mapping[str, Any]], times: Sequence[int]
) -> Iterator[TraceRequest]:
    before, exchange = 0, 1
    for number, (turn, at) in enumerate(zip(turns, times, strict=True), 1):
        if any(_is_prompt(message) for message in messages[before : turn["msg"]]):
            exchange = number
        before = turn["msg"]
        yield TraceRequest(
            turn=number,
            at=at,
            messages=before,
            prompt=_prompt_size(turn.get("usage")),
            exchange=exchange,
            output=output if type(output := turn.get("output")) is int and output >= 0 else None,
        )


def _is_prompt(message: Mapping[str, Any]) -> bool:
    """Whether it holds more than tool results."""
    return blocks.is_prompt(message["role"], content_blocks(message["content"]))


def _prompt_size(usage: object) -> int | None:
    """The provider's count of the prompt's tokens."""
    if not isinstance(usage, dict):
        return None
    parts = [usage.get(name) for name in ("input", "cache_write", "cache_read")]
    counts = [part for part in parts if isinstance(part, int) and part >= 0]
    return sum(counts) or None if len(counts) == len(parts) else None


def _count_cached(usage: object) -> int:
    read = usage.get("cache_read") if isinstance(usage, dict) else None
    return read if isinstance(read, int) else 0


def _resets(resets: object, messages: Sequence[Mapping[str, Any]], counts: Sequence[int], note: Any) -> Iterator[Reset]:
    for reset in resets if isinstance(resets, list) else ():
        at = reset.get("before_msg") if isinstance(reset, dict) else None
        if type(at) is not int or not 0 < at < len(messages):
            note("a reset that does not say before which message it was is ignored")
        elif reset.get("kind") != "compact" or not isinstance(reset.get("summary"), str) or not reset["summary"]:
            note(f"what a {str(reset.get('kind'))[:40]} took away before message {at} is not on record; it is ignored")
        else:
            # If the assistant's message is next, the request was the summary alone.
            needed = at + (messages[at]["role"] == "user")
            turn = next((turn for turn, count in enumerate(counts, 1) if count >= needed), None)
            if turn is not None:
                manual = reset.get("trigger") == "manual"
                yield Reset(turn=turn, kept_from=at, summary=reset["summary"], by_user=manual)


# From requests to objects


def trace_of(recorded: RecordedSession, step: Step = pass_on) -> Trace:
    """The session with its history in objects. Takes a second for each megabyte."""
    made = _Made(recorded)
    for request in recorded.requests:
        made.segment(request)
        step()
    items = [made.item(number) for number in range(len(made.drafts))]
    return Trace(
        name=recorded.name,
        model=recorded.model,
        messages=recorded.messages,
        requests=recorded.requests,
        items=tuple(items),
        resets=recorded.resets,
        found_cached=recorded.found_cached,
        head=recorded.head,
    )


class _Made:
    """The objects that segmentation makes, request by request, as it does in the server."""

    def __init__(self, recorded: RecordedSession) -> None:
        self._recorded = recorded
        self._seen = list(_read_messages(recorded))
        self._known = SegmentationState()
        self.drafts: list[Draft] = []
        self._ids: list[str] = []
        self._born: list[int] = []
        self._uses: dict[str, list[Use]] = {}
        self._superseded: dict[str, int] = {}
        self._identify = partial(_id, sha256(recorded.name.encode("utf-8", "surrogatepass")).digest())

    def segment(self, request: TraceRequest) -> None:
        """Segment the messages up to a request."""
        found = segment(self._seen[self._known.open : request.messages], self._known)
        ids = self._make(found, request.turn)
        for each in found.supersessions:
            self._supersede(each, ids, request.turn)
        self._known = self._known.settle_before(found.open)

    def _make(self, found: Segmented, turn: int) -> list[str]:
        first = len(self.drafts)
        ids = [self._identify(first + number, draft) for number, draft in enumerate(found.drafts)]
        for identity, draft in zip(ids, found.drafts, strict=True):
            links = tuple(Link(link.relation, _resolve(link.target, ids)) for link in draft.links)
            self.drafts.append(draft)
            self._ids.append(identity)
            self._born.append(turn)
            for link in links:
                if link.relation in _USES:
                    self._uses.setdefault(link.target, []).append(Use(turn, draft.last_turn))
            self._known = self._known.after_all([_memory_object(identity, draft, links)])
        return ids

    def _supersede(self, each: Superseded, ids: Sequence[str], turn: int) -> None:
        target = _resolve(each.target, ids)
        self._superseded.setdefault(target, turn)
        self._known = self._known.supersede(target)

    def item(self, number: int) -> Item:
        draft, identity = self.drafts[number], self._ids[number]
        parts = list(_parts(draft, self._seen))
        texts, lost, asks = list_renditions(draft)
        return Item(
            id=identity,
            kind=draft.kind,
            role=draft.role,
            tags=draft.tags,
            source_tool=draft.source_tool,
            source_key=draft.source_key,
            places=draft.places,
            born=self._born[number],
            last_turn=draft.last_turn,
            text=draft.text,
            texts=texts,
            lost=lost,
            asks=asks,
            parts=tuple(part_of(each) for each in parts),
            uses=tuple(self._uses.get(identity, ())),
            superseded=self._superseded.get(identity),
        )


def _read_messages(recorded: RecordedSession) -> Iterator[SeenMessage]:
    counts = [request.messages for request in recorded.requests]
    for index, message in enumerate(recorded.messages):
        content = message["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield SeenMessage(index, message["role"], bisect_right(counts, index) + 1, listed)


def _parts(draft: Draft, seen: Sequence[SeenMessage]) -> Iterator[Description]:
    """Describe each call of an object with its results, and each text."""
    calls: dict[str, Any] = {}
    results: dict[str, list[Any]] = {}
    for place in draft.places:
        message = seen[place.message]
        block = message.content[place.block]
        if blocks.is_any_call(block):
            calls[str(block.get("id"))] = block
        elif blocks.is_any_result(block):
            results.setdefault(str(block.get("tool_use_id")), []).append(block)
        elif block["type"] not in THINKING:
            yield prose.describe(message.role, block)
    for identity in {**calls, **results}:
        yield tools.describe(calls.get(identity), results.get(identity, []))


def _resolve(target: str | int, ids: Sequence[str]) -> str:
    return ids[target] if isinstance(target, int) else target


def _id(salt: bytes, number: int, draft: Draft) -> str:
    """Eight characters from the session's name and the object's first place, or a derived object's number."""
    origin = f"{draft.places[0].message}.{draft.places[0].block}" if draft.places else f"derived {number}"
    return base64.b32encode(blake2b(origin.encode(), key=salt, digest_size=5).digest()).decode().lower()


def _memory_object(identity: str, draft: Draft, links: tuple[Link, ...]) -> MemoryObject:
    """The part of an object that segmentation remembers."""
    return MemoryObject(
        at=0,
        object=identity,
        branch="",
        turn=draft.last_turn,
        kind=draft.kind,
        role=draft.role,
        source_tool=draft.source_tool,
        source_key=draft.source_key,
        tags=draft.tags,
        first_turn=draft.first_turn,
        last_turn=draft.last_turn,
        places=draft.places,
        content=b"",
        size=len(draft.text),
        tokens=0,
        stub=draft.stub,
        stub_tokens=0,
        key_entities=draft.key_entities,
        links=links,
        admission=_UNSCORED,
        last_use=draft.last_turn,
    )
