"""Answer the requests of a client that repeats a recorded session: find the recorded request and its reply."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any
from uuid import UUID

import attrs

from mnemosyne import credentials
from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.session.events import CLIENT_LEFT, BranchKind, TurnInterrupted
from mnemosyne.domain.wire import json_values, request_matching
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.project import find_project
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.domain.wire.reply_stream import join_reply
from mnemosyne.domain.wire.request_matching import Place, RequestComparison
from mnemosyne.errors import MnemosyneError, NotFound
from mnemosyne.services import sessions
from mnemosyne.services.contexts import read_reply, rebuild
from mnemosyne.services.sessions import Archive

CANDIDATES = 16
"""The most recorded requests that a request is compared with, if it equals none of them byte for byte."""


@attrs.frozen
class RecordedReply:
    """The reply to a recorded attempt, as its client saw it. ``body`` is None if nothing arrived; ``complete`` is
    whether the end arrived. ``waited`` and ``took`` are the times in µs to the first byte and to the end.
    ``is_repeated``: the client sent the request again. ``is_stopped``: it left before the end and did not retry.
    """

    status: int | None
    body: bytes | None
    complete: bool
    streamed: bool
    waited: int
    took: int
    is_repeated: bool
    is_stopped: bool


@attrs.frozen
class RepeatedRequest:
    """The recorded attempt that a request repeats. ``exact``: byte for byte. ``reply``: as in ``_Recorded``."""

    attempt: Attempt
    exact: bool
    comparison: RequestComparison
    reply: tuple[int, int] | None = None


@attrs.define
class _Recorded:
    """A request that is answered when a client repeats it: the one of ``attempt`` or, with ``reply``, an earlier one
    that was not recorded. The latter ends before these elements of the recorded request, which are its reply.
    """

    attempt: Attempt
    dialect: Dialect
    place: Place
    last: bytes
    reply: tuple[int, int] | None = None
    is_used: bool = False


@attrs.define
class Replay:
    """One run of a client against the record. ``matches`` are its recorded requests, in the order in which they came;
    ``unknown`` is the number of the others, ``unknown_after`` the match before the first of them, and ``unknown_like``
    the recorded request from which that one differs in its prompt. ``folder`` is where the session worked, None if no
    request names it, and ``forgotten`` are the requests whose content is gone. ``programs`` are the clients that sent
    requests, with their versions.
    """

    session: UUID
    _archive: Archive
    history: History
    _recorded: Sequence[_Recorded]
    _is_strict: bool
    """Whether a prompt that differs from the recorded one is unknown."""
    folder: str | None
    forgotten: Sequence[Attempt]
    matches: list[RepeatedRequest] = attrs.field(factory=list)
    unknown: int = 0
    unknown_after: RepeatedRequest | None = None
    unknown_like: RepeatedRequest | None = None
    programs: set[str] = attrs.field(factory=set)
    rename: Callable[[bytes], bytes] = bytes
    """Puts the recorded folder in place of its other names in a request, of this run or recorded."""

    async def find(self, body: bytes, dialect: Dialect) -> RecordedReply | None:
        """The reply to the recorded request that this one repeats; None if there is none. Raises what ``rebuild``
        raises.
        """
        try:
            match = await self._match(self.rename(body), dialect)
        except (ValueError, RecursionError):  # not JSON
            match = None
        if match is None:
            if not self.unknown and self.matches:
                self.unknown_after = self.matches[-1]
            self.unknown += 1
            return None
        self.matches.append(match)
        return await self._read(match)

    @property
    def unsent(self) -> list[Attempt]:
        """The recorded requests that no client has repeated."""
        return [each.attempt for each in self._recorded if not each.is_used and each.reply is None]

    async def _match(self, body: bytes, dialect: Dialect) -> RepeatedRequest | None:
        digest = sha256(body).digest()
        same = [each for each in self._recorded if each.attempt.sent.sha256 == digest and each.reply is None]
        if same:
            found = next((each for each in same if not each.is_used), same[-1])
            found.is_used = True
            return RepeatedRequest(found.attempt, True, RequestComparison((), {}))
        request = json_values.read(body)
        place, last = request_matching.find_place(request, dialect), request_matching.find_last(request, dialect)
        there = [each for each in self._recorded if each.dialect is dialect and each.place == place]
        free = [each for each in there if not each.is_used]
        used = [each for each in reversed(there) if each.is_used and each.last == last]
        if not free:  # a client may have kept a reply that broke off when it was recorded, and not now, or the reverse
            calls = [*filter(None, place)]
            others = (each for each in self._recorded if each.dialect is dialect and not (each.is_used or each.reply))
            free = [each for each in others if each.last == last and [*filter(None, each.place)] == calls]
        candidates = free if self._is_strict else free + used
        candidates.sort(key=lambda each: each.last != last)  # tells parallel sub-agents apart
        compared = []
        for each in candidates[:CANDIDATES]:
            recorded, is_masked = await self._read_request(each)
            # If both differ, the recorded request is of another kind, such as one for a title.
            if each.last == last or request_matching.offers_alike(recorded, request):
                now = json_values.read(credentials.mask_bytes(body)) if is_masked else request
                compared.append((each, request_matching.compare(recorded, now)))
        if self._is_strict:
            prompt = request_matching.find_prompt(request, dialect)
            closest = min(compared, key=lambda pair: len(pair[1].differences), default=None)
            compared = [(each, found) for each, found in compared if not each.is_used and not (
                prompt and found.differs_in(prompt)
                # Claude Code 2.1.332 puts its own texts before the prompt for some models and after it for others.
                and not (each.last == last and found.differs_in("model"))
            )]  # fmt: skip
            if closest is not None and not (compared or self.unknown):
                self.unknown_like = RepeatedRequest(closest[0].attempt, False, closest[1])
        if not compared:
            return None
        # A concurrent request may have taken one of them meanwhile.
        found, comparison = min(compared, key=lambda pair: (len(pair[1].differences), pair[0].is_used))
        found.is_used = True
        return RepeatedRequest(found.attempt, False, comparison, found.reply)

    async def _read_request(self, recorded: _Recorded) -> tuple[Any, bool]:
        """The parsed request, and whether the record has masked credentials in it."""
        rebuilt = await rebuild(self._archive, self.session, self.history, recorded.attempt)
        request = json_values.read(self.rename(rebuilt.body))
        if recorded.reply is not None:
            del request[recorded.dialect.array][recorded.reply[0] :]
        return request, rebuilt.withheld

    async def _read(self, match: RepeatedRequest) -> RecordedReply:
        attempt = match.attempt
        ended, began = attempt.ended, attempt.began
        if match.reply is not None:
            request = json_values.read((await rebuild(self._archive, self.session, self.history, attempt)).body)
            dialect = self.history.dialect_of(began.branch)
            body = as_json(join_reply(request[dialect.array][slice(*match.reply)], dialect, request.get("model")))
            return RecordedReply(200, body, True, began.stream, 0, 0, False, False)
        later = (each.began for each in self.history.attempts if each.began.attempt > began.attempt)
        is_repeated = any((each.branch, each.turn) == (began.branch, began.turn) for each in later)
        has_left = ended is None or (isinstance(ended, TurnInterrupted) and ended.reason == CLIENT_LEFT)
        return RecordedReply(
            status=ended.status if ended is not None else None,
            body=await read_reply(self._archive, self.session, attempt),
            complete=ended is not None and not isinstance(ended, TurnInterrupted),
            streamed=began.stream,
            waited=(ended.first_byte or 0) if ended is not None else 0,
            took=ended.at - began.at if ended is not None else 0,
            is_repeated=is_repeated,
            is_stopped=has_left and not is_repeated,
        )


async def open_replay(archive: Archive, wanted: str, until: int | None, progress: Callable[[int, int], None]) -> Replay:
    """Read the requests of a session, or only those up to the turn ``until`` of its main conversation. ``progress``
    gets the number of requests read and their total. Raises NotFound without any, and what ``rebuild`` raises.
    """
    stream, history = await sessions.read_history(archive, wanted)
    recorded, forgotten, folder, known = [], [], None, set[tuple[str, Place, bytes]]()
    attempts = list(_attempts_until(history, until))
    if not attempts:
        raise NotFound(f"Session {stream} has no requests to repeat.")
    failure: MnemosyneError | None = None
    for number, attempt in enumerate(attempts, 1):
        dialect = history.dialect_of(attempt.began.branch)
        try:
            body = (await rebuild(archive, stream, history, attempt)).body
            await read_reply(archive, stream, attempt)
        except MnemosyneError as error:  # forgotten or damaged: the others can be repeated
            failure = error
            forgotten.append(attempt)
            continue
        place: Place = ()
        last = b""
        request: Any = None
        with suppress(ValueError, RecursionError):  # not JSON: it can only be repeated exactly
            request = json_values.read(body)
            place, last = request_matching.find_place(request, dialect), request_matching.find_last(request, dialect)
            folder = folder or (find_project(request) if isinstance(request, dict) else None)
        recorded.append(_Recorded(attempt, dialect, place, last))
        known.add(_name_place(dialect, place, last))
        for start, end in request_matching.find_replies(request, dialect):
            before = {**request, dialect.array: request[dialect.array][:start]}
            place = request_matching.find_place(before, dialect)
            last = request_matching.find_last(before, dialect)
            if (named := _name_place(dialect, place, last)) in known:
                break
            recorded.append(_Recorded(attempt, dialect, place, last, (start, end)))
            known.add(named)
        progress(number, len(attempts))
    if not recorded and failure is not None:
        raise failure
    return Replay(stream, archive, history, recorded, until is not None, folder, forgotten)


def _name_place(dialect: Dialect, place: Place, last: bytes) -> tuple[str, Place, bytes]:
    """What tells a place from the others of a session: before the first call, conversations differ only in texts."""
    return dialect.name, place, b"" if any(place) else last


def _attempts_until(history: History, until: int | None) -> Iterator[Attempt]:
    """The attempts, in the order in which they began, before the first later turn of the main conversation."""
    for attempt in history.attempts:
        began = attempt.began
        is_main = history.line(began.branch).opened.kind is BranchKind.MAIN
        if until is not None and is_main and began.turn > until:
            return
        yield attempt
