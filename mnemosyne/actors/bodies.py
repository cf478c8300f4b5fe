"""The bodies, replies and upstream histories that an actor keeps in memory. Anything evicted is rebuilt from the log,
so losing it costs only time.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.actors.threads import read_in_thread
from mnemosyne.bounded import Lru
from mnemosyne.domain.history import time_travel
from mnemosyne.domain.ports import ContentStore, StreamReader
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import RoundFinished
from mnemosyne.domain.session.state import Branch
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire import normal_form, recipe, transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.dialects import dialect_of
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.normal_form import Block, Echo
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.domain.wire.transcript import StoredBytes, Transcript
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)

BRANCHES_COMPARED = 6
"""Number of recent branches whose last body is compared with a request."""

BYTES_HELD = BRANCHES_COMPARED * 32 * 1024 * 1024
"""Size in bytes of the last bodies that a session keeps in memory, and again of those last sent; the newest always. The
compared branches fit even with the largest requests that a provider accepts: a smaller limit would read them from the
log for every request.
"""

REPLIES_HELD = 4
"""Maximum number of replies kept in memory, the newest."""


class Bodies:
    """The bodies and contents of one session. Bodies hold credentials in clear text, so nothing here may be logged or
    displayed.
    """

    def __init__(self, stream: UUID, contents: ContentStore, event_log: StreamReader[Event]) -> None:
        self.known: set[bytes] = set()
        """Digests of the contents that are stored, or will be before the next queued append."""
        self._stream = stream
        self._contents = contents
        self._event_log = event_log
        self._held: Lru[str, Transcript] = Lru(BYTES_HELD, lambda read: len(read.raw))
        self._replies: Lru[bytes, StoredBytes] = Lru(REPLIES_HELD)

    def list_held(self) -> list[bytes]:
        return [each.raw for each in self._held.values()]

    async def nearest(self, branches: Sequence[Branch], raw: bytes) -> tuple[str | None, Transcript | None]:
        """Among the most recent branches, the name and last body of the one that shares the longest prefix with
        ``raw``.
        """
        newest_first = sorted(branches, key=lambda branch: -branch.body_version)[:BRANCHES_COMPARED]
        spoken = [branch for branch in newest_first if branch.body_version]
        await self._load_last(spoken)
        bodies = [(branch.name, await self.find_last(branch)) for branch in spoken]
        there = [(name, body) for name, body in bodies if body is not None]
        if len(there) < 2:  # the usual case: skip the comparison, which is slow for ten megabytes
            return there[0] if there else (None, None)
        return max(there, key=lambda named: recipe.common_prefix(named[1].raw, raw))

    async def _load_last(self, branches: Sequence[Branch]) -> None:
        """Read the last bodies of several branches with one statement. On failure, ``last`` reads them one by one."""
        missing = [branch for branch in branches if self._held.get(branch.name) is None]
        if len(missing) < 2:
            return
        try:
            found = await self.contents(digest for branch in missing for digest in _digests_of(branch.body))
        except (ContentForgotten, LogFailed):
            return
        for branch in missing:
            raw = recipe.assemble(branch.body.pieces, found.__getitem__)
            await self._read_last(branch, raw)

    async def _read_last(self, branch: Branch, raw: bytes) -> Transcript:
        return self.hold(
            branch, (await read_in_thread(raw, conversation=branch.conversation, known=self.known)).transcript
        )

    async def find_last(self, branch: Branch) -> Transcript | None:
        """The last body of a branch; None if it cannot be read, and then the next request is stored in full."""
        try:
            return await self.last(branch)
        except (ContentForgotten, LogFailed) as error:
            log.debug("branch %s starts from nothing: %s", branch.name, error)
            return None

    def find_held(self, branch: Branch) -> Transcript | None:
        """The last body that the client sent on a branch, if it is in memory."""
        return self._held.get(branch.name)

    async def last(self, branch: Branch) -> Transcript:
        """The last body that the client sent on a branch. Raises ContentForgotten and LogFailed."""
        held = self._held.get(branch.name)
        if held is not None:
            return held
        return await self._read_last(branch, await self.assemble(branch.body))

    async def of_versions(self, versions: Collection[int], conversation: str) -> dict[int, Transcript]:
        """The client bodies that several events recorded, by version. Raises ContentForgotten and LogFailed."""
        recorded = await self._event_log.read(self._stream, upto=max(versions))
        history = time_travel.history_of(str(self._stream), recorded)
        bodies = {version: time_travel.body_of(history, version) for version in versions}
        found = await self.contents(digest for body in bodies.values() for digest in _digests_of(body))
        reads: dict[int, Transcript] = {}
        for version, body in bodies.items():
            raw = recipe.assemble(body.pieces, found.__getitem__)
            reads[version] = (await read_in_thread(raw, conversation=conversation, known=self.known)).transcript
        return reads

    async def assemble(self, body: Recipe) -> bytes:
        """A body's bytes from the log, with each redacted byte as ``*``. Raises ContentForgotten and LogFailed."""
        found = await self.contents(_digests_of(body))
        return recipe.assemble(body.pieces, found.__getitem__)

    async def read_stored(self, change: bytes) -> bytes:
        """The bytes of an encoded change against an empty body: a reply or a result. Raises ContentForgotten and
        LogFailed.
        """
        held = self._replies.get(change)
        return held.raw if held is not None else await self.assemble(recipe.apply(Recipe(), recipe.decode(change)))

    async def read_all_stored(self, changes: Iterable[bytes]) -> dict[bytes, bytes]:
        """The bytes of several encoded changes against an empty body, in one read. Raises as ``read_stored``."""
        stored: dict[bytes, bytes] = {}
        recipes: dict[bytes, Recipe] = {}
        for change in changes:
            held = self._replies.get(change)
            if held is not None:
                stored[change] = held.raw
            else:
                recipes[change] = recipe.apply(Recipe(), recipe.decode(change))
        if recipes:
            found = await self.contents(digest for made in recipes.values() for digest in _digests_of(made))
            stored |= {change: recipe.assemble(made.pieces, found.__getitem__) for change, made in recipes.items()}
        return stored

    def hold_stored(self, change: bytes, data: bytes) -> None:
        """Cache a new reply: the next request most likely contains it."""
        self._replies.put(change, StoredBytes(data, recipe.apply(Recipe(), recipe.decode(change))))

    @property
    def replies(self) -> Sequence[StoredBytes]:
        return self._replies.values()

    async def content(self, digest: bytes) -> bytes:
        """One content from the log. Raises ContentForgotten and LogFailed."""
        return (await self._contents.fetch(self._stream, [digest]))[digest]

    async def contents(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Several contents from the log. Raises ContentForgotten and LogFailed."""
        return await self._contents.fetch(self._stream, sorted(set(digests)))

    def hold(self, branch: Branch, read: Transcript) -> Transcript:
        """Keep the last body of a branch."""
        # Build on the recipe in the log: the recipe of another reading may refer to pieces that were never stored.
        return self._held.put(branch.name, attrs.evolve(read, recipe=branch.body))

    def apart(self) -> "Bodies":
        """A copy with the same caches. Changes to it leave this instance unchanged."""
        other = Bodies(self._stream, self._contents, self._event_log)
        other.known = set(self.known)
        other._held, other._replies = self._held.copy(), self._replies.copy()
        return other

    def forget(self) -> None:
        """Clear all caches: the session's contents were deleted."""
        self.known.clear()
        self._held.clear()
        self._replies.clear()


def _digests_of(body: Recipe) -> Iterator[bytes]:
    return (piece.digest for piece in body.pieces if isinstance(piece, recipe.Piece))


_LIKENESS = (Echo.SAME, Echo.TRIMMED, Echo.REWRITTEN, Echo.ABSENT)


class Replies:
    """The replies to the last turn of a branch, compared with the history that a request shows."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._blocks: tuple[bytes, Sequence[Block]] = (b"", ())

    async def find_echo(self, branch: Branch, read: Transcript) -> tuple[Echo | None, int | None]:
        """How a request that continues a branch shows the reply to its last turn, and the attempt of that reply.

        If several attempts match equally well, the first one wins.
        """
        best: tuple[Echo | None, int | None] = (None, None)
        for attempt, reply in sorted(branch.replies.items()):
            echo = transcript.compare_reply(read, len(branch.chains), await self._blocks_of(reply, read.dialect))
            if best[0] is None or _LIKENESS.index(echo) < _LIKENESS.index(best[0]):
                best = echo, attempt if echo in (Echo.SAME, Echo.TRIMMED) else None
        return best

    async def are_words_shown(self, branch: Branch, read: Transcript) -> bool:
        """Whether a request that continues a branch contains a text or a call of a reply to its last turn. Clients drop
        parts of a reply: if none shows it unchanged, this is enough to identify the history.
        """
        shown = transcript.content_of(read, len(branch.chains))
        replies = [await self._blocks_of(each, read.dialect) for each in branch.replies.values()]
        return any(normal_form.share_words(shown, each) for each in replies)

    async def are_whole(self, branch: Branch) -> bool:
        """Whether any reply to the branch's last turn is complete."""
        dialect = dialect_of(branch.conversation)
        replies = [dialect.read_reply(await self._body_of(reply)) for reply in branch.replies.values()]
        return any(each.stop_reason is not None for each in replies)

    async def text_of(self, reply: bytes, dialect: Dialect) -> str:
        """The model's text in a recorded reply; empty if the reply cannot be read."""
        return "\n".join(
            block["text"] for block in await self._blocks_of(reply, dialect) if isinstance(block.get("text"), str)
        )

    async def _blocks_of(self, reply: bytes, dialect: Dialect) -> Sequence[Block]:
        if self._blocks[0] != reply:
            self._blocks = reply, blocks_of(await self._body_of(reply), dialect)
        return self._blocks[1]

    async def _body_of(self, reply: bytes) -> bytes:
        """A reply's bytes from the log; empty if they cannot be read."""
        try:
            return await self._bodies.read_stored(reply)
        except (ContentForgotten, LogFailed):
            return b""


@attrs.frozen
class Prior:
    """The upstream history that a branch continues, and the last body sent for it, with its recipe in the log, which
    the event with this ``version`` recorded.
    """

    history: UpstreamHistory
    sent: Transcript
    version: int


class Histories:
    """The upstream histories of a session's branches, rebuilt from the last body sent on the branch and the events of
    its last turn's rounds.
    """

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._held: Lru[str, Prior] = Lru(BYTES_HELD, lambda prior: len(prior.sent.raw))

    def list_held(self) -> list[bytes]:
        return [each.sent.raw for each in self._held.values()]

    async def of(self, branch: Branch | None) -> Prior | None:
        """The upstream history of a branch; None if it has none. Raises LogFailed and ContentForgotten."""
        if branch is None or branch.wire is None:
            return None
        held = self.find_held(branch)
        if held is not None:
            return held
        raw = await self._bodies.assemble(branch.wire.body)
        read = (await read_in_thread(raw, conversation=branch.conversation, most=transcript.ANY_NUMBER)).transcript
        sent = attrs.evolve(read, recipe=branch.wire.body)
        reach = branch.wire.ends[-1] if branch.wire.ends else 0
        messages = tuple(upstream_history.bare(sent, number) for number in range(len(sent.messages))[: reach + 1])
        # An attempt that the provider always refused has no replies.
        finished = {attempt: _list_accepted(rounds) for attempt, rounds in branch.rounds.finished.items()}
        stored = await self._bodies.read_all_stored(
            change
            for rounds in finished.values()
            for event in rounds
            for change in (event.reply, *(answer.result for answer in event.answers))
        )
        replies = {
            attempt: tuple(_round_of(event, sent.dialect, stored) for event in rounds)
            for attempt, rounds in finished.items()
            if rounds
        }
        history = UpstreamHistory(
            messages=sent.dialect.history.without_replies(messages[:reach], replies),
            ends=branch.wire.ends,
            behind=messages[reach:],
            epoch=branch.wire.epoch,
            replies=replies,
            dialect=sent.dialect,
        )
        return Prior(history, sent, branch.wire.body_version)

    def find_held(self, branch: Branch) -> Prior | None:
        """The upstream history of a branch, if it is in memory."""
        held = self._held.get(branch.name)
        return (
            held if held is not None and branch.wire is not None and held.version == branch.wire.body_version else None
        )

    def keep_sent(self, branch: Branch, history: UpstreamHistory, sent: Transcript) -> Prior:
        """Cache the request that was just sent, if its branch continues from it."""
        assert branch.wire is not None
        sent = attrs.evolve(sent, recipe=branch.wire.body)
        return self._held.put(branch.name, Prior(history, sent, branch.wire.body_version))

    def end_turn(self, branch: Branch, turn: int, history: UpstreamHistory) -> None:
        """Merge the replies of a finished turn. Two attempts at one turn have the same messages, so replies to either
        belong to both. If a later turn was sent meanwhile, the cached replies are that turn's and stay unchanged.
        """
        held = self._held.get(branch.name)
        if held is not None and branch.rounds.turn == turn:
            merged = {**held.history.replies, **history.replies}
            self._held.put(branch.name, attrs.evolve(held, history=attrs.evolve(held.history, replies=merged)))

    def forget(self) -> None:
        """Clear the cache: the session's contents were deleted."""
        self._held.clear()


def _list_accepted(rounds: Iterable[RoundFinished]) -> list[RoundFinished]:
    """The rounds that the provider accepted, each with the answers that it accepted in the next one."""
    accepted = list[RoundFinished]()
    for each in rounds:
        if each.usage or each.stop_reason:
            accepted.append(each)
        elif accepted and each.answers:
            accepted[-1] = attrs.evolve(accepted[-1], answers=each.answers)
    return accepted


def _round_of(event: RoundFinished, dialect: Dialect, stored: Mapping[bytes, bytes]) -> Round:
    return round_of(stored[event.reply], dialect, {answer.call: stored[answer.result] for answer in event.answers})


def blocks_of(body: bytes, dialect: Dialect) -> tuple[Block, ...]:
    """The content blocks of a reply."""
    return tuple(dialect.reply_content(json_object(body)))


def round_of(body: bytes, dialect: Dialect, results: Mapping[str, bytes]) -> Round:
    """A reply with the results of its hidden calls."""
    native = json_object(body)
    return Round(tuple(dialect.reply_content(native)), results, native)
