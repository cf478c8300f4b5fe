"""A copy of a session without the credentials in its prompts, files and tool results.

Each byte becomes ``*``, so every body is rebuilt as before. Changed contents have new hashes; ``sha256`` is still that
of the sent bytes, as for a credential that was never stored.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

import attrs

from mnemosyne import credentials
from mnemosyne.credentials import Range
from mnemosyne.domain.history import time_travel
from mnemosyne.domain.objects.events import ObjectCreated, ObjectSummarized
from mnemosyne.domain.ports import ContentStore, Recorded
from mnemosyne.domain.session.events import Event, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.round_events import FallbackSent, RoundBegan, RoundFinished
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece, Recipe

SHORTEST = 8
"""Minimum size in bytes of a credential that is also searched for without context."""

PART = 5
"""Minimum length of a word that is masked in derived texts, such as names, if it is part of a credential."""

_WORD = re.compile(rf"[\w.+=/-]{{{PART},}}+")

AROUND = 4096
"""Bytes searched around the change in a body: its name may be on one side, and the key on the other."""


@attrs.frozen
class RedactedSession:
    """The events of the copy and their contents. ``masked`` is the number of masked places, and ``lost`` are the
    missing contents.
    """

    events: Sequence[Recorded[Event]]
    masked: int
    _contents: Mapping[bytes, bytes] = attrs.field(repr=False)
    lost: Collection[bytes] = ()

    async def fetch(self, stream: UUID, digests: Collection[bytes]) -> dict[bytes, bytes]:
        return {digest: self._contents[digest] for digest in digests}


async def redact(
    contents: ContentStore, stream: UUID, events: Sequence[Recorded[Event]], lost: Collection[bytes] = ()
) -> RedactedSession:
    """The copy, without the ``lost`` contents; it holds the whole session in memory. Raises ContentForgotten, and
    ValueError if an event is damaged.
    """
    named = {digest for each in events for digest in time_travel.digests_of(each.envelope.event)}
    search = _Search(await contents.fetch(stream, sorted(named.difference(lost))))
    for each in events:
        search.look_at(each)
    search.look_for_found()
    copy = _Copy(search)
    copied = [
        attrs.evolve(each, envelope=attrs.evolve(each.envelope, event=copy.event(each.version, each.envelope.event)))
        for each in events
    ]
    return RedactedSession(copied, sum(map(len, search.found.values())), copy.contents, lost)


class _Search:
    """Finds credentials in the contents of a session, and in the bodies made of these."""

    def __init__(self, held: Mapping[bytes, bytes]) -> None:
        self.held = held
        self.bodies: dict[int, Recipe] = {0: Recipe()}
        self.found: dict[bytes, set[Range]] = {}
        self.secrets: set[bytes] = set()
        for digest, data in held.items():
            self._note(digest, self._spans(data))

    def look_at(self, recorded: Recorded[Event]) -> None:
        """Search the new part of an event's body, and its other contents."""
        match event := recorded.envelope.event:
            case TurnBegan() | RoundBegan() | FallbackSent():
                change = recipe.decode(event.body)
                body = recipe.apply(self.bodies[event.base], change)
                self.bodies[recorded.version] = body
                self._look(body, change.head - AROUND, body.length - change.tail + AROUND)
            case _:
                for stored in _on_nothing(event):
                    body = recipe.apply(Recipe(), recipe.decode(stored))
                    self._look(body, 0, body.length)

    def look_for_found(self) -> None:
        """Search for the found credentials in all contents."""
        for secret in self.secrets:
            for digest, data in self.held.items():
                at = data.find(secret)
                while at >= 0:
                    self._note(digest, [(at, at + len(secret))])
                    at = data.find(secret, at + len(secret))

    def _spans(self, data: bytes) -> list[Range]:
        spans = credentials.spans(data)
        self.secrets.update(data[start:end] for start, end in spans if end - start >= SHORTEST)
        return spans

    def _look(self, body: Recipe, start: int, end: int) -> None:
        pieces = body.between(max(start, 0), min(end, body.length))
        spans = self._spans(recipe.assemble(pieces, self.held.__getitem__))
        at = 0
        for piece in pieces if spans else ():
            if isinstance(piece, Piece):
                moved = piece.offset - at
                inside = ((max(first, at), min(last, at + piece.length)) for first, last in spans)
                self._note(piece.digest, [(first + moved, last + moved) for first, last in inside if first < last])
            at += piece.length

    def _note(self, digest: bytes, spans: Sequence[Range]) -> None:
        if spans:
            self.found.setdefault(digest, set()).update(spans)


def _on_nothing(event: Event) -> Iterator[bytes]:
    """The event's encoded changes against an empty body."""
    match event:
        case RoundFinished():
            yield event.reply
            yield from (each.result for each in event.answers)
        case TurnFinished() | TurnInterrupted() if event.reply is not None:
            yield event.reply


class _Copy:
    """Copies events so that they name the masked contents."""

    def __init__(self, search: _Search) -> None:
        masked = {digest: credentials.blank(search.held[digest], found) for digest, found in search.found.items()}
        self._bodies = search.bodies
        self._names = {digest: sha256(data).digest() for digest, data in masked.items()}
        self._held = {**search.held, **masked}
        self._secrets = b"\n".join(search.secrets).decode("utf-8", "replace")
        self.contents = {self._names.get(digest, digest): data for digest, data in self._held.items()}

    def event(self, version: int, event: Event) -> Event:
        worded: Event = self._mask(event)
        match worded:
            case TurnBegan() | RoundBegan() | FallbackSent():
                proof = self._proof(self._bodies[version], worded.stored_sha256)
                return attrs.evolve(worded, body=self._rename(worded.body), stored_sha256=proof)
            case RoundFinished():
                answers = tuple(attrs.evolve(each, result=self._rename(each.result)) for each in worded.answers)
                return attrs.evolve(worded, reply=self._rename(worded.reply), answers=answers)
            case TurnFinished() if worded.reply is not None:
                return attrs.evolve(worded, reply=self._rename(worded.reply))
            case TurnInterrupted() if worded.reply is not None:
                return attrs.evolve(worded, reply=self._rename(worded.reply))
            case ObjectSummarized():
                return attrs.evolve(worded, text=self._names.get(worded.text, worded.text))
            case ObjectCreated():
                return attrs.evolve(worded, content=self._rename(worded.content))
            case _:
                return worded

    def _rename(self, stored: bytes) -> bytes:
        change = recipe.decode(stored)
        if self._names.keys().isdisjoint(change.digests):
            return stored
        pieces = [
            attrs.evolve(piece, digest=self._names.get(piece.digest, piece.digest))
            if isinstance(piece, Piece)
            else piece
            for piece in change.pieces()
        ]
        return recipe.encode(recipe.change_of(change.head, pieces, change.tail))

    def _proof(self, body: Recipe, recorded: bytes | None) -> bytes | None:
        if self._names.keys().isdisjoint(time_travel.digests_in(body.pieces)):
            return recorded
        return sha256(recipe.assemble(body.pieces, self._held.__getitem__)).digest()

    def _mask(self, value: Any) -> Any:
        """The value with credentials and parts of them masked in all its texts."""
        match value:
            case str():
                return _WORD.sub(self._unless_secret, credentials.mask(value)) if self._secrets else value
            case tuple():
                return tuple(map(self._mask, value))
            case list():
                return list(map(self._mask, value))
            case Mapping():
                return {key: self._mask(inner) for key, inner in value.items()}
            case _ if attrs.has(type(value)):
                fields = attrs.fields(type(value))
                return attrs.evolve(value, **{each.alias: self._mask(getattr(value, each.name)) for each in fields})
            case _:
                return value

    def _unless_secret(self, word: re.Match[str]) -> str:
        return credentials.MASK * len(word.group()) if word.group() in self._secrets else word.group()
