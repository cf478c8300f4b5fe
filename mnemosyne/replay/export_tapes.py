"""Tapes from Mnemosyne exports: the commands that the session's events record, in order."""

from collections.abc import Iterator
from functools import partial

from mnemosyne.domain.history import replay, time_travel
from mnemosyne.domain.history.time_travel import Attempt, history_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.events import Event, GapRecorded, SessionStarted, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.replay.tapes import Arrives, Broken, Missed, Step, Tape, TapedReply, Unplayable
from mnemosyne.services.export_format import Reader


def tape_of(reader: Reader) -> Tape:
    """The tape of a file; the whole file is read and checked. Raises Unplayable, DamagedFile."""
    stream = reader.header.session
    events = [Recorded(stream, part.version, part.version, part.envelope) for part in reader.parts()]
    started = events[0].envelope.event if events else None
    if not isinstance(started, SessionStarted):
        raise Unplayable("the export does not begin with the start of a session")
    if any(headers is None for headers in replay.find_client_headers(events).values()):
        raise Unplayable("the export does not say who spoke: it is from before that was recorded")
    return Tape(started.external_id, partial(_steps, reader, events, started), started.tenant, started.salt)


def _steps(reader: Reader, events: list[Recorded[Event]], started: SessionStarted) -> Iterator[Step]:
    history = history_of(str(reader.header.session), events)
    client_headers = replay.find_client_headers(events)
    for each in events:
        event = each.envelope.event
        match event:
            case GapRecorded():
                yield Missed(started.external_id, Gap(since=event.since, turns=event.turns, reason=event.reason))
            case TurnBegan():
                body = _assemble(reader, time_travel.body_at(history, Attempt(each.version, event)))
                headers = client_headers[each.version]
                assert headers is not None
                yield Arrives(_key(event), event.at, history.dialect_of(event.branch), replay.headers_of(headers), body)
            case TurnFinished():
                head = ReplyHead(event.status, ((b"content-type", b"application/json"),))
                yield TapedReply(_key(event), event.at, head, _reply(reader, event.reply))
            case TurnInterrupted():
                part = _reply(reader, event.reply) if event.reply is not None else None
                yield Broken(_key(event), event.at, event.status, part, event.reason)


def _key(event: TurnBegan | TurnFinished | TurnInterrupted) -> str:
    return f"{event.branch} {event.turn}.{event.attempt}"


def _reply(reader: Reader, stored: bytes) -> bytes:
    return _assemble(reader, recipe.apply(Recipe(), recipe.decode(stored)))


def _assemble(reader: Reader, made_of: Recipe) -> bytes:
    return recipe.assemble(made_of.pieces, reader.fetch(list(time_travel.digests_in(made_of.pieces))).__getitem__)
