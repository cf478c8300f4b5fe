"""The manifest of a turn: the context of the model, as verifiable data. It lists each object of the conversation as a
page at its level, with the blocks of the request that show it, and the use of every other block.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.history import loading
from mnemosyne.domain.history.context_view import View
from mnemosyne.domain.history.memory_travel import Moved
from mnemosyne.domain.history.page_layout import Layout, OtherBlock, Pages
from mnemosyne.domain.history.time_travel import Attempt
from mnemosyne.domain.objects.aggregate import MemoryObject, make_object
from mnemosyne.domain.objects.events import LinkRelation, ObjectCreated, ObjectFaulted, ObjectRestored, TurnAssessed
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.memory import Memory, proven, show_in_full
from mnemosyne.domain.objects.protection import Now, Resident, is_kept
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.counted_sizes import scales_in, size_object
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import EpochBegan, FallbackSent, KnowledgeTold, Mode

SHAPE = 2
"""The version of a manifest's shape. It increases when a member changes its meaning or is removed."""


@attrs.frozen(kw_only=True)
class ManifestPage:
    """An object as a request shows it. ``move`` is its last change of level, None if it never changed; ``kept`` is the
    reason why it is protected, None if it could be evicted. ``blocks`` are the numbers of the request's blocks that
    show a part of it; empty for an evicted object without a stub. ``is_used`` is true if it was used after the request.
    """

    object: MemoryObject
    level: Fidelity
    move: Moved | None
    kept: str | None
    blocks: tuple[int, ...]
    is_used: bool


@attrs.frozen
class EffectiveTokens:
    """Tokens of objects in a request (``sent``), and those of objects that were ``used`` after it: estimates."""

    sent: int = 0
    used: int = 0


@attrs.frozen(kw_only=True)
class Manifest:
    """The context of one request. ``sha256`` is the hash of the request, ``view`` its blocks, ``metadata`` the tokens
    that memory adds: its tools, lines, notes and stubs. ``assessed`` states how full the window was, ``settings`` are
    those of the decision, ``epoch`` is the last rewrite of the history; each is None if the log does not say.
    ``others`` are the blocks that belong to no page.
    """

    stream: UUID
    attempt: Attempt
    sha256: bytes
    view: View
    metadata: int
    mode: Mode
    settings: SettingsTaken | None
    assessed: TurnAssessed | None
    epoch: EpochBegan | None
    pages: Sequence[ManifestPage]
    others: Sequence[OtherBlock]

    @property
    def tokens(self) -> int:
        """The estimated tokens of the request."""
        return sum(each.tokens or 0 for each in self.view.blocks)

    @property
    def effective(self) -> EffectiveTokens:
        """The tokens of all pages, and of pages that were used later."""
        shown = [(each.object.tokens_at(each.level) or 0, each.is_used) for each in self.pages if each.blocks]
        return EffectiveTokens(sum(tokens for tokens, _ in shown), sum(tokens for tokens, used in shown if used))


@attrs.frozen(kw_only=True)
class Known:
    """Data of the log about a request, except its bytes: the ``pages`` of its branch, the last ``moves`` of their
    levels, the pages restored since the last rewrite (``back``), their last uses (``find_last_uses``), and the data
    about the decision that a manifest contains.
    """

    pages: Pages
    moves: Mapping[str, Moved]
    last_uses: Mapping[str, int]
    back: Mapping[str, ObjectRestored]
    told: KnowledgeTold | None
    mode: Mode
    settings: SettingsTaken | None
    assessed: TurnAssessed | None
    epoch: EpochBegan | None

    def make_page(self, object_id: str, attempt: Attempt, layout: Layout) -> ManifestPage:
        """The page of an object in the request of an attempt. An object restored in an attempt that the client did not
        continue is not restored in its next request.
        """
        each, level = self.pages[object_id]
        move = self.moves.get(object_id)
        if object_id in self.back and object_id not in layout.back:
            level = self.back[object_id].before
        return ManifestPage(
            object=each,
            level=level,
            move=move if move is not None and move.after is level else None,
            kept=self._find_reason(each, level, attempt),
            blocks=layout.blocks.get(object_id, ()),
            is_used=self.last_uses.get(object_id, 0) > attempt.body_version,
        )

    def _find_reason(self, each: MemoryObject, level: Fidelity, attempt: Attempt) -> str | None:
        if self.assessed is None or not each.places:
            return None
        turn, typed = attempt.began.turn, self.assessed.typed
        now = Now(turn=turn, message_count=attempt.messages, last_user_messages=typed)
        return is_kept(Resident(each, level), now)


def know_request(events: Sequence[Recorded[Event]], attempt: Attempt) -> Known:
    """Read the log's data about the request of an attempt: the state when it was sent, and the objects that were made
    of its newest messages when the turn was assessed.
    """
    branch, turn = attempt.began.branch, attempt.began.turn
    until = [each.envelope.event for each in events if each.version <= attempt.body_version]
    session = loading.fold(each for each in events if each.version <= attempt.body_version)
    known = session.branches[branch]
    assessed, made = _read_assessment(events, attempt)
    is_fallback = attempt.round is not None and isinstance(attempt.round.began, FallbackSent)
    memory = proven(session.memory, branch, attempt.messages)
    memory = show_in_full(memory, branch) if is_fallback else memory
    scales = scales_in(events)
    taken = session.find_taken(branch)
    pages = {each.id: (size_object(each, scales), level) for each, level in _list_shown(memory, branch)}
    return Known(
        pages=pages | {each.id: (each, Fidelity.FULL) for each in made},
        last_uses=find_last_uses(events),
        back={event.object: event for event in reversed(memory.view_of(branch).restored)},
        moves={event.object: event for event in until if isinstance(event, Moved) and event.object in pages},
        told=known.told,
        mode=known.mode,
        settings=taken if attempt.round is not None else None,
        assessed=assessed,
        epoch=_find_epoch(until, branch, turn) if attempt.round is not None else None,
    )


def _list_shown(memory: Memory, branch: str) -> Iterable[tuple[MemoryObject, Fidelity]]:
    """The objects that a window may show: those with a place in it, and those restored from elsewhere."""
    return (
        (each, level)
        for each, level in memory.within_reach(branch)
        if not each.forgotten and (each.id not in memory.view_of(branch).before or level is not Fidelity.EVICTED)
    )


def _read_assessment(
    events: Sequence[Recorded[Event]], attempt: Attempt
) -> tuple[TurnAssessed | None, list[MemoryObject]]:
    """The turn's assessment, the last one if a pause repeated it, and the objects made after the request was sent."""
    branch, turn = attempt.began.branch, attempt.began.turn
    assessed: TurnAssessed | None = None
    made, seen = list[MemoryObject](), 0
    for each in events:
        event = each.envelope.event
        if isinstance(event, TurnAssessed) and (event.branch, event.turn) == (branch, turn):
            assessed, seen = event, len(made)
        elif isinstance(event, ObjectCreated) and event.branch == branch and each.version > attempt.body_version:
            made.append(make_object(event))
    return assessed, made[:seen]


def _find_epoch(events: Iterable[Event], branch: str, turn: int) -> EpochBegan | None:
    found = [each for each in events if isinstance(each, EpochBegan) and each.branch == branch and each.turn <= turn]
    return found[-1] if found else None


def find_last_uses(events: Iterable[Recorded[Event]]) -> Mapping[str, int]:
    """The version of the last event that shows a use of an object, by object.

    A use is a reference from a later object (its successor's does not count), a restore, a question about it, or a
    fetch of the same content by the agent.
    """
    last_uses: dict[str, int] = {}
    for recorded in events:
        last_uses.update(dict.fromkeys(_list_used(recorded.envelope.event), recorded.version))
    return last_uses


def _list_used(event: Event) -> Sequence[str]:
    match event:
        case ObjectCreated() if event.places and not KINDS[event.kind].is_conversation:
            return [link.target for link in event.links if link.relation is not LinkRelation.SUPERSEDES]
        case ObjectFaulted():
            return [event.object]
        case _:
            return ()
