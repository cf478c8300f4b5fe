"""A context window at a turn: its bytes, proof, blocks and reply."""

from collections.abc import Sequence
from hashlib import sha256
from uuid import UUID

import attrs

from mnemosyne.domain.history import context_view, time_travel
from mnemosyne.domain.history.context_view import Comparison, ContextBlock, KnownBlocks, View
from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.session.events import GapRecorded
from mnemosyne.domain.session.helper_results import find_goal
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.errors import ContentForgotten
from mnemosyne.services import sessions
from mnemosyne.services.sessions import Archive


@attrs.frozen
class Rebuilt:
    """A rebuilt body. ``sha256`` is the hash of these bytes, not the recorded one."""

    attempt: Attempt
    recipe: Recipe
    body: bytes
    sha256: bytes

    @property
    def proven(self) -> bool:
        """Whether the bytes match the recorded hash."""
        return self.sha256 == self.attempt.proof

    @property
    def withheld(self) -> bool:
        """Whether the request held a credential that was not stored; each of its bytes is ``*``."""
        return self.attempt.sent.stored_sha256 is not None

    @property
    def difference(self) -> str | None:
        """The mismatch with the record, as a sentence."""
        if self.proven:
            return None
        return (
            f"differs: the rebuilt body has the SHA-256 {self.sha256.hex()} and {len(self.body)} bytes, "
            f"{self.attempt.proof.hex()} and {self.attempt.sent.size} bytes were recorded"
        )


@attrs.frozen(kw_only=True)
class SessionContext:
    """A session's window with its blocks and the reply's. ``reply_size`` is None if nothing arrived. ``gaps`` are
    unrecorded turns just before it, ``goal`` what its user wants by a helper model. ``client`` is the client's own
    request, if a different one is shown.
    """

    stream: UUID
    rebuilt: Rebuilt
    view: View
    client: View | None
    reply: tuple[ContextBlock, ...]
    reply_size: int | None
    gaps: Sequence[GapRecorded]
    goal: str | None


async def rebuild(
    archive: Archive, stream: UUID, history: History, attempt: Attempt, held: dict[bytes, bytes] | None = None
) -> Rebuilt:
    """The body of an attempt's request. ``held`` is a cache of contents by digest; afterwards it holds those of this
    body only. Raises ContentForgotten, ContentMissing, LogFailed.
    """
    made_of = time_travel.body_of(history, attempt.body_version)
    body = await _assemble(archive, stream, made_of, {} if held is None else held)
    return Rebuilt(attempt, made_of, body, sha256(body).digest())


async def rebuild_turn(archive: Archive, session: str, branch: str, turn: str | None) -> Rebuilt:
    """The body of a turn in a person's notation (``7``, ``7.2/1``, a checkpoint; None: the last). Raises BadOption,
    NotFound, and what ``rebuild`` raises.
    """
    stream, history = await sessions.read_history(archive, session)
    return await rebuild(archive, stream, history, history.find(branch, turn))


async def read_context(archive: Archive, session: str, branch: str, turn: str | None) -> SessionContext:
    """The window and the reply at such a turn. Raises what ``rebuild_turn`` raises."""
    stream, history = await sessions.read_history(archive, session)
    return await context_of(archive, stream, history, history.find(branch, turn))


async def compare_turns(archive: Archive, session: str, branch: str, turns: Sequence[str]) -> Comparison:
    """The changes of the window between two such turns. Raises what ``rebuild_turn`` raises."""
    stream, history = await sessions.read_history(archive, session)

    async def view_at(turn: str) -> View:
        rebuilt = await rebuild(archive, stream, history, history.find(branch, turn))
        return await view_of(archive, stream, history, rebuilt)

    before, after = turns
    return context_view.compare(await view_at(before), await view_at(after))


async def context_of(
    archive: Archive, stream: UUID, history: History, attempt: Attempt, known: KnownBlocks | None = None
) -> SessionContext:
    """The window and the reply of an attempt; ``known`` as in ``context_view.view``."""
    rebuilt = await rebuild(archive, stream, history, attempt)
    reply = await read_reply(archive, stream, attempt)
    view, client = await _views_of(archive, stream, history, rebuilt, known)
    return SessionContext(
        stream=stream,
        rebuilt=rebuilt,
        view=view,
        client=client,
        reply=context_view.reply_blocks(reply, history.dialect_of(attempt.began.branch)) if reply is not None else (),
        reply_size=len(reply) if reply is not None else None,
        gaps=history.gaps_before(attempt),
        goal=find_goal(history.goals, attempt.began.branch, attempt.began.turn),
    )


async def view_of(
    archive: Archive, stream: UUID, history: History, rebuilt: Rebuilt, known: KnownBlocks | None = None
) -> View:
    """The blocks of a rebuilt body, each with its turn of origin; ``known`` as in ``context_view.view``."""
    view, _ = await _views_of(archive, stream, history, rebuilt, known)
    return view


async def _views_of(
    archive: Archive, stream: UUID, history: History, rebuilt: Rebuilt, known: KnownBlocks | None
) -> tuple[View, View | None]:
    """The same, and the client's own request if it differs. The blocks' tokens add up to the provider's count of the
    upstream request, if it reported one.
    """
    view, attempt = _own_view(history, rebuilt, known), rebuilt.attempt
    if view.opaque is not None:
        return view, None

    def size(shown: View, client: View) -> View:
        places = history.list_places(attempt.began.branch)
        count = attempt.used.prompt if attempt.used is not None else None
        return context_view.size_blocks(shown, client, count, places, history.tokens_of)

    if attempt.was_replaced:
        last = await rebuild(archive, stream, history, attrs.evolve(attempt, round=attempt.rounds[-1]))
        _, client = await _views_of(archive, stream, history, last, known)
        return client or view, None
    if attempt.round is None:
        return size(view, view), None
    client = _own_view(history, await rebuild(archive, stream, history, attrs.evolve(attempt, round=None)), known)
    turns = {name: each.first_turn for name, each in history.objects.items()}
    shown = size(context_view.with_origins_of(view, client, rebuilt.body, turns), client)
    return shown, context_view.size_alike(client, shown, history.list_places(attempt.began.branch), history.tokens_of)


def _own_view(history: History, rebuilt: Rebuilt, known: KnownBlocks | None) -> View:
    attempt, body = rebuilt.attempt, rebuilt.body
    if attempt.began.opaque is not None:
        return View(blocks=(), settings={}, size=len(body), opaque=attempt.began.opaque)
    dialect = history.dialect_of(attempt.began.branch)
    view = context_view.view(body, time_travel.wire_turns(history, attempt), dialect, known)
    pieces = {each.span: _largest(rebuilt.recipe, each.span) for each in view.blocks if each.section != "messages"}
    named = time_travel.find_first_names(history, attempt, {each for each in pieces.values() if each is not None})
    # Blocks from another branch's body were there from the start.
    origins = {span: 1 if piece is None else named.get(piece, 1) for span, piece in pieces.items()}
    blocks = (
        attrs.evolve(each, origin=origins[each.span]) if each.section != "messages" else each for each in view.blocks
    )
    return attrs.evolve(view, blocks=tuple(blocks))


def _largest(made_of: Recipe, span: Range) -> bytes | None:
    """The content of the largest piece in these bytes, if any."""
    largest = max(made_of.between(*span), key=lambda piece: piece.length, default=None)
    return largest.digest if isinstance(largest, Piece) else None


async def read_reply(archive: Archive, stream: UUID, attempt: Attempt) -> bytes | None:
    """The recorded part of the reply to an attempt; None if nothing arrived. Raises as ``rebuild``."""
    made_of = time_travel.reply_of(attempt)
    return None if made_of is None else await _assemble(archive, stream, made_of, {})


async def _assemble(archive: Archive, stream: UUID, made_of: Recipe, held: dict[bytes, bytes]) -> bytes:
    needed = dict.fromkeys(time_travel.digests_in(made_of.pieces))
    for digest in held.keys() - needed.keys():
        del held[digest]
    try:
        held |= await archive.contents.fetch(stream, [digest for digest in needed if digest not in held])
    except ContentForgotten:
        raise ContentForgotten(f"Session {stream} was forgotten: the content of this turn was erased.") from None
    return recipe.assemble(made_of.pieces, held.__getitem__)
