"""Turn a request into memory: its new messages become objects, each is admitted or not, and the context is assessed.

A pure decision: its inputs are the command and the state. It does not change the outgoing request; the
planner handles a full context (``window/epochs.py``).
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import attrs

from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prices import COMPACTION_TOKENS
from mnemosyne.domain.cost.tokens import (
    Estimator,
    Features,
    features_of_block,
    features_of_message,
    features_of_system,
    features_of_text,
    features_of_tools,
)
from mnemosyne.domain.objects import admission
from mnemosyne.domain.objects.decide import Create, Supersede, decide_all
from mnemosyne.domain.objects.events import (
    BlockPlace,
    Link,
    LinkRelation,
    ObjectEvent,
    Supersession,
    TurnAssessed,
)
from mnemosyne.domain.objects.faults import implicit
from mnemosyne.domain.objects.ids import object_id
from mnemosyne.domain.objects.kinds import READ, UNCHANGED, WRITTEN, list_declared
from mnemosyne.domain.objects.lookup import bare
from mnemosyne.domain.objects.memory import BranchView, Memory
from mnemosyne.domain.objects.pressure import ZONES, usable_tokens, zone
from mnemosyne.domain.segmentation import episodes
from mnemosyne.domain.segmentation.paths import normal
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, Segmented, segment
from mnemosyne.domain.session.events import ToolUse, TurnBegan
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.tools import tool_paging
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.blocks import is_named_only, is_prompt, list_attached
from mnemosyne.domain.wire.recipe import Piece, Withheld
from mnemosyne.domain.wire.transcript import Transcript

KEY_ENTITIES = 12
"""How many of an object's most significant specifics are stored with it."""

OUTPUT_RESERVE = 20_000
"""The maximum reserve for the reply: clients ask for up to 128,000 tokens and hardly ever use them."""


@attrs.frozen(kw_only=True)
class Remember:
    """The request of a turn has begun, or, if it ``closes`` the runs of an assessed turn, no other one has followed.

    ``messages`` are those from the position where segmentation continues, to the end; ``pieces`` gives the slice of the
    body's recipe for one of their blocks. ``content`` are the features of all ``message_count`` messages, ``head``
    those of system prompt and tools; ``max_tokens`` is the client's limit for the reply. ``window`` is the maximum
    number of prompt tokens of a managed branch; None if the client's own history is sent.
    """

    at: int
    branch: str
    turn: int
    model: str | None
    max_tokens: int | None
    messages: Sequence[SeenMessage]
    message_count: int
    pieces: Callable[[BlockPlace], Sequence[Piece | Withheld]]
    content: Features
    head: Features
    window: int | None = None
    closes: bool = False


def is_pending(branch: Branch, memory: Memory) -> bool:
    """Return whether the last turn of a branch has not been ingested yet."""
    began = branch.began
    if began is None or not branch.kind.is_agent_context or began.opaque is not None or not branch.chains:
        return False
    return memory.view_of(branch.name).measure.turn < began.turn == branch.turns


def remember_of(
    began: TurnBegan, read: Transcript, branch: Branch, shown: BranchView, head: Features, window: int
) -> Remember | None:
    """Return the command for a request that has begun; None for a side call, a request for a summary, an earlier turn
    again, or a body that was not read as a conversation. The turn's second command closes its runs.
    """
    if not branch.kind.is_agent_context or began.turn < branch.turns or not read.messages:
        return None
    first = min(shown.known.open, len(read.messages))
    messages = [_read_message(read, index, branch) for index in range(first, len(read.messages))]
    return Remember(
        at=began.at,
        branch=branch.name,
        turn=began.turn,
        model=began.model,
        max_tokens=read.fields.max_tokens,
        messages=messages,
        message_count=len(read.messages),
        pieces=_pieces_of(read, branch),
        content=_content(began, read, shown),
        head=head,
        window=window if branch.mode is Mode.MANAGE else None,
        closes=shown.measure.turn == began.turn,
    )


def head_of(read: Transcript, tool_budget: int | None = None) -> Features:
    """Return the features of system prompt and tools; with a tool budget, of the tools as they are sent."""
    tools = read.member("tools")
    if tools and tool_budget is not None:
        tools = json.loads(tool_paging.page_tools(tool_paging.tools_of(read), tool_budget))
    return features_of_system(read.system) + features_of_tools(tools, read.fields.model)


def _read_message(read: Transcript, index: int, branch: Branch) -> SeenMessage:
    content = read.message(index).get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    turn = bisect_right(branch.counts, index) + 1
    return SeenMessage(index, read.messages[index].role, turn, _blocks(blocks))


def _blocks(content: object) -> list[Mapping[str, Any]]:
    """Return the blocks in their places; anything but an object becomes an empty block."""
    return [block if isinstance(block, dict) else {} for block in content] if isinstance(content, list) else []


def _pieces_of(read: Transcript, branch: Branch) -> Callable[[BlockPlace], Sequence[Piece | Withheld]]:
    """Return a function that looks up a block's pieces when it is needed: most blocks of a request wait for several
    turns.
    """
    ranges = cache(read.block_ranges)

    def pieces(place: BlockPlace) -> Sequence[Piece | Withheld]:
        return branch.body.between(*ranges(place.message)[place.block])

    return pieces


def _content(began: TurnBegan, read: Transcript, shown: BranchView) -> Features:
    """Return the features of all messages; those that the last request had are not read again."""
    measure = shown.measure
    if measure.turn == began.turn:
        return measure.content
    continues = measure.turn == began.turn - 1 and began.kept == measure.messages > 0
    start, known = (measure.messages, measure.content) if continues else (0, Features())
    new = (features_of_message(read.message(index)) for index in range(start, len(read.messages)))
    return sum(new, known)


def remember(command: Remember, session: Session) -> tuple[ObjectEvent | TurnAssessed, ...]:
    """Decide which objects to create from a request."""
    shown = session.memory.view_of(command.branch)
    segmented = segment(command.messages, shown.known, _tag(session.tool_uses), closes=command.closes)
    estimator = shown.estimator(command.model)
    created = tuple(_create(command, session, segmented.drafts, estimator))
    superseded = _supersede(command, segmented, [creation.object for creation in created])
    events, after = decide_all((*created, *superseded), session.memory)
    faults = implicit(
        events, session.memory, session.eviction_turns, at=command.at, branch=command.branch, turn=command.turn
    )
    more, after = decide_all(faults, after)
    ended = episodes.list_ended(session.memory, after, command.branch, command.turn)
    grouped, after = decide_all(_create(command, session, ended, estimator), after)
    made = (*events, *more, *grouped)
    if command.closes and shown.measure.assessed is not None:
        return (*made, attrs.evolve(shown.measure.assessed, open_from=segmented.open)) if made else ()
    return (*made, _assess(command, after, segmented.open, estimator))


def _tag(uses: Mapping[str, ToolUse]) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of calls, by id, whose tools declared what they read and changed."""
    return {
        call: (*(READ + normal(each) for each in use.reads), *(WRITTEN + normal(each) for each in use.writes))
        for call, use in uses.items()
    }


# Objects


def _create(command: Remember, session: Session, drafts: Sequence[Draft], estimator: Estimator) -> Iterator[Create]:
    ids: list[str] = []
    admitted: set[str] = set()
    known, seen = session.memory.entities, set[str]()
    for draft in drafts:
        ids.append(_id_of(command, session, draft, ids))
        entities = key_entities(_ends_of(draft.text), KEY_ENTITIES)
        new = (
            sum(entity not in seen and entity not in known for entity in entities) / len(entities) if entities else 1.0
        )
        seen.update(entities)
        tokens = estimator.tokens(features_of_text(draft.text) + _count_attached(command, draft))
        pieces = [piece for place in draft.places for piece in command.pieces(place)]
        links = tuple(Link(link.relation, _name_of(link.target, ids)) for link in draft.links)
        named = (bare(name) for name in list_declared(draft.tags, READ))
        links += tuple(Link(LinkRelation.REFERENCES, name) for name in named if name in session.memory.objects)
        replaced = [link.target for link in links if link.relation is LinkRelation.SUPERSEDES]
        worth = admission.admit(
            admission.AdmissionCandidate(
                kind=draft.kind,
                role=draft.role,
                tokens=tokens,
                replaces_admitted=any(
                    target in admitted or _is_admitted(session.memory, target) for target in replaced
                ),
                refers=UNCHANGED in draft.tags,
                new_share=new,
                age=command.turn - draft.last_turn,
            )
        )
        if worth.admitted:
            admitted.add(ids[-1])
        yield Create(
            at=command.at,
            object=ids[-1],
            branch=command.branch,
            turn=command.turn,
            kind=draft.kind,
            role=draft.role,
            source_tool=draft.source_tool,
            source_key=draft.source_key,
            tags=draft.tags,
            first_turn=draft.first_turn,
            last_turn=draft.last_turn,
            places=draft.places,
            content=recipe.encode(recipe.change_of(0, pieces, 0)),
            size=len(draft.text),
            tokens=tokens,
            stub=draft.stub,
            stub_tokens=estimator.tokens(features_of_text(draft.stub)),
            line=draft.line,
            key_entities=entities,
            links=links,
            by_user=_numbers_of(draft),
            admission=worth,
        )


def _count_attached(command: Remember, draft: Draft) -> Features:
    """Return the features of the draft's images and documents, which its text only names."""
    first = command.messages[0].index if command.messages else 0
    own = (command.messages[place.message - first].content[place.block] for place in draft.places)
    attached = (each for block in own for each in list_attached(block) if is_named_only(each))
    return sum(map(features_of_block, attached), Features())


def _ends_of(text: str) -> str:
    """Return the beginning and end of a long text for the search of entities: five megabytes would take most of a
    second.
    """
    half = _READ_FOR_ENTITIES // 2
    return text if len(text) <= _READ_FOR_ENTITIES else f"{text[:half]}\n{text[-half:]}"


def _numbers_of(draft: Draft) -> tuple[int, ...]:
    """Return the numbers of the places with the user's own words; there may be a hundred thousand places."""
    by_user = frozenset(draft.by_user)
    return tuple(number for number, place in enumerate(draft.places) if place in by_user)


def _is_admitted(memory: Memory, object_id: str) -> bool:
    return object_id in memory.objects and memory.objects[object_id].admission.admitted


_READ_FOR_ENTITIES = 400_000


def _id_of(command: Remember, session: Session, draft: Draft, made: Sequence[str]) -> str:
    assert session.salt is not None
    if not draft.places:
        parts = "".join(_name_of(link.target, made) for link in draft.links)
        return object_id(session.salt, b"derived", command.branch.encode(), parts.encode())
    first = draft.places[0]
    chain = session.branches[command.branch].chains[first.message]
    # Content that was forgotten and sent again is a new object.
    where = f"{first.block} {session.memory.generation}"
    return object_id(session.salt, b"blocks", command.branch.encode(), chain, where.encode())


def _name_of(target: str | int, made: Sequence[str]) -> str:
    return made[target] if isinstance(target, int) else target


def _supersede(command: Remember, segmented: Segmented, made: Sequence[str]) -> Iterator[Supersede]:
    for supersession in segmented.supersessions:
        yield Supersede(
            at=command.at,
            object=_name_of(supersession.target, made),
            branch=command.branch,
            by=None if supersession.by is None else made[supersession.by],
            how=supersession.how,
        )
    for number, draft in enumerate(segmented.drafts):
        for name in map(bare, list_declared(draft.tags, WRITTEN)):
            yield Supersede(at=command.at, object=name, branch=command.branch, by=made[number], how=Supersession.EDITED)


# Pressure


def _assess(command: Remember, state: Memory, open_from: int, estimator: Estimator) -> TurnAssessed:
    shown = state.view_of(command.branch)
    measure = shown.measure
    total_features = measure.sum_sent(command.content + command.head)
    before = measure.anchor.features if measure.anchor is not None else Features()
    tokens = estimator.prompt(measure.anchor, total_features - before)
    fixed = min(tokens, estimator.tokens(command.head))
    usable = usable_tokens(
        ends=min(model_of(command.model).window, COMPACTION_TOKENS),
        budget=command.window,
        fixed=fixed,
        reserve=min(command.max_tokens or OUTPUT_RESERVE, OUTPUT_RESERVE),
    )
    return TurnAssessed(
        at=command.at,
        branch=command.branch,
        turn=command.turn,
        model=command.model,
        open_from=open_from,
        typed=_find_typed(command, shown),
        content=(command.content.text, command.content.fixed),
        head=(command.head.text, command.head.fixed),
        tokens=tokens,
        usable=usable,
        zone=ZONES[zone(tokens - fixed, usable)],
    )


LAST_TYPED = 2
"""How many of the user's last typed messages are always kept."""


def _find_typed(command: Remember, shown: BranchView) -> tuple[int, ...]:
    """Return the last messages that the user typed."""
    new = {message.index for message in command.messages if is_prompt(message.role, message.content)}
    return tuple(sorted({*shown.typed, *new}))[-LAST_TYPED:]
