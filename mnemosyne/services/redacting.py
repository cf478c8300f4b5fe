"""A copy of a session without the credentials that stand in what was said: in prompts, files and results of tools.

``*`` stands for each byte, so every body is put together as before. What was changed has hashes of its own; ``sha256``
still is that of what was sent, as it is where a credential never was stored.
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
"""Bytes that a credential must have to be looked for by itself, where nothing near it says what it is."""

PART = 5
"""Characters: a word of so many that is a part of a credential is masked in what was made of a text, such as names."""

_WORD = re.compile(rf"[\w.+=/-]{{{PART},}}+")

AROUND = 4096
"""Bytes before and behind what changed of a body that are looked at with it: a word may stand on one side, and the key
on the other.
"""


@attrs.frozen
class RedactedSession:
    """The events of the copy, and the contents that they name. ``masked`` is how many places were masked in these, and
    ``lost`` those that are not there.
    """

    events: Sequence[Recorded[Event]]
    masked: int
    _contents: Mapping[bytes, bytes] = attrs.field(repr=False)
    lost: Collection[bytes] = ()

    async def fetch(self, stream: UUID, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """The contents with these digests."""
        return {digest: self._contents[digest] for digest in digests}


async def redact(
    contents: ContentStore, stream: UUID, events: Sequence[Recorded[Event]], lost: Collection[bytes] = ()
) -> RedactedSession:
    """The copy, without the contents that are ``lost``; all that the session holds is in memory for it. Raises
    ContentForgotten, ValueError if an event is damaged.
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
    """Where credentials are in the contents of a session, and the bodies that these make."""

    def __init__(self, held: Mapping[bytes, bytes]) -> None:
        self.held = held
        self.bodies: dict[int, Recipe] = {0: Recipe()}
        self.found: dict[bytes, set[Range]] = {}
        self.secrets: set[bytes] = set()
        for digest, data in held.items():
            self._note(digest, self._spans(data))

    def look_at(self, recorded: Recorded[Event]) -> None:
        """Look at what an event's body has new, and at what it names besides."""
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
        """Look for what was found wherever else it stands."""
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
    """The encoded changes of an event that make something of nothing."""
    match event:
        case RoundFinished():
            yield event.reply
            yield from (each.result for each in event.answers)
        case TurnFinished() | TurnInterrupted() if event.reply is not None:
            yield event.reply


class _Copy:
    """Writes events again, for contents that are masked."""

    def __init__(self, search: _Search) -> None:
        masked = {digest: credentials.blank(search.held[digest], found) for digest, found in search.found.items()}
        self._bodies = search.bodies
        self._names = {digest: sha256(data).digest() for digest, data in masked.items()}
        self._held = {**search.held, **masked}
        self._secrets = b"\n".join(search.secrets).decode("utf-8", "replace")
        self.contents = {self._names.get(digest, digest): data for digest, data in self._held.items()}

    def event(self, version: int, event: Event) -> Event:
        """The event of the copy."""
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
        """The value with credentials, and what was cut from one, masked in every text of it."""
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
