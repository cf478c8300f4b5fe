"""The provider's own verdicts on its cache, read from recorded replies, next to our comparison of the same requests."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost.prompt_changes import Change, find_change
from mnemosyne.domain.cost.verdict_agreement import agrees
from mnemosyne.domain.history.time_travel import History, history_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.wire.cache_verdict import CacheVerdict
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import ContentForgotten, LogDamaged, LogFailed, UnknownEvent
from mnemosyne.figures import count_text, percent_text, plural, printable
from mnemosyne.services import contexts
from mnemosyne.services.cache_misses import PromptReader, PromptRequest, select_requests
from mnemosyne.services.sessions import Archive


@attrs.frozen(kw_only=True)
class JudgedRequest:
    """A request with the provider's ``verdict``, and ``ours``: its first difference from the branch's previous request.
    ``agrees`` is None if either is inconclusive, or the request named another reply than the previous request's.
    """

    address: Address
    round: int | None
    verdict: CacheVerdict
    ours: Change | None
    agrees: bool | None

    @property
    def sentence(self) -> str:
        """For the page and the command."""
        verdict = self.verdict
        missed = f", {count_text(verdict.missed)} tokens" if verdict.missed is not None else ""
        reason = f" ({printable(verdict.reason)}{missed})" if verdict.reason else ""
        mine = "" if self.agrees is not False else f"; ours: {self.ours.part.value if self.ours else 'no difference'}"
        return f"The provider's verdict: {verdict.compared.value}{reason}{mine}."


async def read_verdicts(
    archive: Archive,
    stream: UUID,
    events: Sequence[Recorded[Event]],
    history: History,
    *,
    only: Address | None = None,
    since: int = 0,
) -> list[JudgedRequest]:
    """The verdicts on a session's requests since a time, in order, or on the requests of ``only`` one attempt. Requests
    whose content cannot be read are omitted.
    """
    found = []
    reader = PromptReader(archive, stream, history)
    for request, before in select_requests(events, history, only=only, since=since):
        try:
            judged = await _judge(archive, stream, reader, request, before)
        except (ContentForgotten, LogFailed):
            continue
        if judged is not None:
            found.append(judged)
    return found


async def _judge(
    archive: Archive, stream: UUID, reader: PromptReader, request: PromptRequest, before: PromptRequest | None
) -> JudgedRequest | None:
    """The verdict on a request; None if it asked for none."""
    reply = await _read_reply(archive, stream, request)
    last = await reader.rebuild(before) if before is not None and reply is not None else None
    sent = await reader.rebuild(request) if reply is not None else None
    if reply is None or sent is None:
        return None
    read = sent.layout.read
    comparison = read.dialect.comparison
    verdict = comparison.read_verdict(read.member, reply) if comparison is not None else None
    if verdict is None:
        return None
    ours = find_change(last.layout, sent.layout) if last is not None else None
    earlier = await _read_reply(archive, stream, before) if before is not None else None
    is_same_pair = last is not None and earlier is not None and earlier.get("id") == verdict.named
    return JudgedRequest(
        address=request.attempt.address,
        round=None if request.attempt.round is None else request.attempt.round.began.round,
        verdict=verdict,
        ours=ours,
        agrees=agrees(verdict.compared, ours) if is_same_pair else None,
    )


async def _read_reply(archive: Archive, stream: UUID, request: PromptRequest) -> Mapping[str, Any] | None:
    """The reply to a request as the provider sent it; None if there is none."""
    attempt = request.attempt
    if attempt.round is not None and attempt.round.ended is None:
        attempt = attrs.evolve(attempt, round=None)  # its end is the turn's
    body = await contexts.read_reply(archive, stream, attempt)
    return None if body is None else json_object(body)


@attrs.frozen(kw_only=True)
class Agreement:
    """How often the provider's verdict agrees with our comparison. ``inconclusive`` counts the other verdicts by their
    text; ``differing`` are the disagreements, with their sessions.
    """

    agreed: int
    differing: Sequence[tuple[UUID, JudgedRequest]]
    inconclusive: Mapping[str, int]

    @property
    def sentence(self) -> str:
        compared = self.agreed + len(self.differing)
        rest = "; ".join(f"{text}: {count}" for text, count in self.inconclusive.items())
        rest = f" Inconclusive: {rest}." if rest else ""
        if not compared:
            return f"No request has a conclusive verdict of its provider yet.{rest}"
        share = percent_text(self.agreed / compared, 1)
        return f"The provider's verdict agrees for {self.agreed} of {plural(compared, 'request')} ({share}).{rest}"


async def read_agreement(archive: Archive, streams: Iterable[UUID], since: int = 0) -> Agreement:
    """The agreement in some sessions' requests since a time (µs of UTC). Damaged sessions are omitted."""
    agreed, differing, inconclusive = 0, [], Counter[str]()
    for stream in streams:
        try:
            events = await archive.events.read(stream)
            judged = await read_verdicts(archive, stream, events, history_of(str(stream), events), since=since)
        except (LogDamaged, UnknownEvent):
            continue
        agreed += sum(each.agrees is True for each in judged)
        differing += [(stream, each) for each in judged if each.agrees is False]
        inconclusive.update(_describe_doubt(each.verdict) for each in judged if each.agrees is None)
    return Agreement(agreed=agreed, differing=differing, inconclusive=inconclusive)


def _describe_doubt(verdict: CacheVerdict) -> str:
    if verdict.compared.is_conclusive:
        return "another reply was named, or the change has several parts"
    return verdict.compared.value
