"""What an actor keeps in memory of the bytes of its session: the last bodies and replies, to compare the next request
with. Whatever it does not hold it puts together from the log.
"""

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.ports import ContentStore
from mnemosyne.domain.session.events import TurnFinished, TurnInterrupted
from mnemosyne.domain.session.state import Branch
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.identity import MAIN
from mnemosyne.domain.wire.normal_form import Echo, content_blocks
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)

BODIES_HELD = 6
"""How many branches' last bodies are kept in memory."""


class Bodies:
    """The bodies and contents of one session. Bodies hold credentials in clear, so nothing here is ever shown."""

    def __init__(self, stream: UUID, contents: ContentStore) -> None:
        self.known: set[bytes] = set()
        """The digests of the contents that are stored, or will be before whatever is queued next."""
        self._stream = stream
        self._contents = contents
        self._held: OrderedDict[str, Transcript] = OrderedDict()

    async def nearest(self, branches: Sequence[Branch], raw: bytes) -> tuple[str | None, Transcript | None]:
        """Of some branches that which spoke last, the one whose last body begins most like this one, and that body."""
        newest_first = sorted(branches, key=lambda branch: -branch.body_version)[:BODIES_HELD]
        bodies = [(branch.name, await self._last_of(branch)) for branch in newest_first if branch.body_version]
        there = [(name, body) for name, body in bodies if body is not None]
        if len(there) < 2:  # the usual case: there is nothing to choose, and comparing ten megabytes takes its time
            return there[0] if there else (None, None)
        return max(there, key=lambda named: recipe.common_prefix(named[1].raw, raw))

    async def _last_of(self, branch: Branch) -> Transcript | None:
        """The last body of a branch; None where it cannot be had, and then a request is stored from nothing."""
        held = self._held.get(branch.name)
        if held is not None:
            return held
        try:
            raw = await self.assembled(branch.body)
        except (ContentForgotten, LogFailed) as error:
            log.debug("branch %s starts from nothing: %s", branch.name, error)
            return None
        lane = f"agent:{branch.agent_id}" if branch.agent_id else MAIN
        return self.hold(branch, transcript.read(raw, lane=lane, known=self.known).transcript)

    async def assembled(self, body: Recipe) -> bytes:
        """A body's bytes from the log, each withheld byte as ``*``. Raises ContentForgotten and LogFailed."""
        digests = {piece.digest for piece in body.pieces if isinstance(piece, recipe.Piece)}
        found = await self._contents.fetch(self._stream, sorted(digests))
        return recipe.assemble(body.pieces, found.__getitem__)

    async def content(self, digest: bytes) -> bytes:
        """One content from the log. Raises ContentForgotten and LogFailed."""
        return (await self._contents.fetch(self._stream, [digest]))[digest]

    async def contents(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Several contents from the log. Raises ContentForgotten and LogFailed."""
        return await self._contents.fetch(self._stream, sorted(set(digests)))

    def hold(self, branch: Branch, read: Transcript) -> Transcript:
        """Keep the last body of a branch."""
        # The recipe in the log is the one to build on: a reading of other origin may name pieces that nobody stored.
        held = self._held[branch.name] = attrs.evolve(read, recipe=branch.body)
        self._held.move_to_end(branch.name)
        while len(self._held) > BODIES_HELD:
            self._held.popitem(last=False)
        return held

    def forget(self) -> None:
        """Nothing is stored any more."""
        self.known.clear()
        self._held.clear()


_LIKENESS = (Echo.SAME, Echo.TRIMMED, Echo.REWRITTEN, Echo.ABSENT)


class Replies:
    """The replies to the last turn of each branch, by attempt, and which of them a history shows."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._recorded: dict[str, dict[int, bytes]] = {}
        self._last: tuple[bytes, bytes] = (b"", b"")
        self._blocks: tuple[bytes, list[dict[str, Any]]] = (b"", [])

    def expect(self, branch: str) -> None:
        """A new turn began: the replies to the one before have been compared, or never will be."""
        self._recorded.pop(branch, None)

    def note(self, event: TurnFinished | TurnInterrupted) -> None:
        """An attempt at the last turn of its branch ended."""
        if event.reply is not None:
            self._recorded.setdefault(event.branch, {})[event.attempt] = event.reply

    def hold(self, reply: bytes, body: bytes) -> None:
        """Keep the bytes of the newest reply: the next request most likely shows it."""
        self._last = reply, body

    def forget(self) -> None:
        """Nothing is stored any more."""
        self._recorded.clear()

    async def echoed(self, branch: Branch, read: Transcript) -> tuple[Echo | None, int | None]:
        """How a history that goes on from the branch's shows the reply to its last turn, and of which attempt.

        Of attempts shown equally well the first counts.
        """
        best: tuple[Echo | None, int | None] = (None, None)
        for attempt, reply in sorted(self._recorded.get(branch.name, {}).items()):
            echo = transcript.compare_reply(read, len(branch.chains), await self._blocks_of(reply))
            if best[0] is None or _LIKENESS.index(echo) < _LIKENESS.index(best[0]):
                best = echo, attempt if echo in (Echo.SAME, Echo.TRIMMED) else None
        return best

    async def _blocks_of(self, reply: bytes) -> list[dict[str, Any]]:
        if self._blocks[0] != reply:
            try:
                message = json.loads(await self._body_of(reply))
            except (ContentForgotten, LogFailed, ValueError, RecursionError):
                return []
            self._blocks = reply, content_blocks(message.get("content") if isinstance(message, dict) else None)
        return self._blocks[1]

    async def _body_of(self, reply: bytes) -> bytes:
        if self._last[0] == reply:
            return self._last[1]
        return await self._bodies.assembled(recipe.apply(Recipe(), recipe.decode(reply)))
