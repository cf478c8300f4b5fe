"""From a request to memory: its new messages become objects, each is admitted or not, and the window is assessed.

A pure decision: everything that it depends on comes with the command or is the state. It changes nothing that is sent:
what is to be done about a full window is the planner's to say (``window/epochs.py``).
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import attrs

from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prices import COMPACTION_TOKENS
from mnemosyne.domain.cost.tokens import (
    Estimator,
    Features,
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
    TurnAssessed,
)
from mnemosyne.domain.objects.faults import implicit
from mnemosyne.domain.objects.kinds import KINDS, UNCHANGED
from mnemosyne.domain.objects.memory import BranchView, Memory
from mnemosyne.domain.objects.pressure import Window, zone
from mnemosyne.domain.segmentation import episodes
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, Segmented, segment_in_steps
from mnemosyne.domain.session.events import BranchKind, TurnBegan, TurnRelation
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.tools import tool_paging
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.blocks import is_prompt
from mnemosyne.domain.wire.recipe import Piece, Withheld
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.steps import Steps, collect, finish

ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Of an object's id: none that is easily taken for another, and few tokens."""

ID_LENGTH = 7
"""31⁷ ids: nobody guesses one of another session, and a thousand objects of one do not meet."""

KEY_ENTITIES = 12
"""So many of an object's most telling specifics are kept with it."""

OUTPUT_RESERVE = 20_000
"""The most that is reserved for the reply: clients ask for up to 128,000 tokens and hardly ever use them."""


@attrs.frozen(kw_only=True)
class Remember:
    """The request of a turn has begun. ``messages`` are those from where segmentation goes on, to the end; ``pieces``
    gives the slice of the body's recipe for one of their blocks. ``content`` are the features of all ``message_count``
    messages, ``head`` those of system prompt and tools; ``max_tokens`` is what the client asks for at most.
    ``window`` is the most tokens that a prompt of a managed branch may hold; None where the client's own goes up.
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


def is_owed(branch: Branch, memory: Memory) -> bool:
    """Whether the last turn of a branch is still to be remembered."""
    began = branch.began
    if began is None or branch.kind in _NO_MEMORY or began.opaque is not None or not branch.chains:
        return False
    fresh = began.turn == branch.turns and began.relation is not TurnRelation.REPEATS
    return fresh and memory.view_of(branch.name).measure.turn < began.turn


def remember_of(
    began: TurnBegan, read: Transcript, branch: Branch, shown: BranchView, head: Features, window: int
) -> Remember | None:
    """The command that a request is once it has begun; None where nothing is to be remembered of it: a side call, a
    request for a summary, an earlier turn once more, or what was not read as a conversation.
    """
    repeated = began.turn < branch.turns or began.relation is TurnRelation.REPEATS
    if branch.kind in _NO_MEMORY or repeated or not read.messages:
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
    )


_NO_MEMORY = frozenset({BranchKind.SIDE, BranchKind.COMPACTION, BranchKind.OPAQUE})


def head_of(read: Transcript, tool_budget: int | None = None) -> Features:
    """The features of system prompt and tools, of these as they are sent where some of them are paged."""
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
    """The blocks, each in its place; what is none holds nothing."""
    return [each if isinstance(each, dict) else {} for each in content] if isinstance(content, list) else []


def _pieces_of(read: Transcript, branch: Branch) -> Callable[[BlockPlace], Sequence[Piece | Withheld]]:
    """Looked up when an object is made of a block: most blocks of a request wait for that through several turns."""
    ranges = cache(read.block_ranges)

    def pieces(place: BlockPlace) -> Sequence[Piece | Withheld]:
        return branch.body.between(*ranges(place.message)[place.block])

    return pieces


def _content(began: TurnBegan, read: Transcript, shown: BranchView) -> Features:
    """The features of all messages; those that the last request had too are not looked at again."""
    measure = shown.measure
    continues = measure.turn == began.turn - 1 and began.kept == measure.messages > 0
    start, known = (measure.messages, measure.content) if continues else (0, Features())
    new = (features_of_message(read.message(index)) for index in range(start, len(read.messages)))
    return sum(new, known)


def remember(command: Remember, session: Session) -> tuple[ObjectEvent | TurnAssessed, ...]:
    """What is remembered of a request."""
    return finish(remember_in_steps(command, session))


def remember_in_steps(command: Remember, session: Session) -> Steps[tuple[ObjectEvent | TurnAssessed, ...]]:
    """See ``remember``; a step takes what one message, object or block of a message does."""
    found = yield from segment_in_steps(command.messages, session.memory.view_of(command.branch).known)
    estimator = _estimator(command, session.memory)
    created = yield from collect(_create(command, session, found.drafts, estimator))
    superseded = _supersede(command, found, [each.object for each in created])
    events, after = decide_all((*created, *superseded), session.memory)
    faults = implicit(
        events, session.memory, session.eviction_turns, at=command.at, branch=command.branch, turn=command.turn
    )
    more, after = decide_all(faults, after)
    over = episodes.over(session.memory, after, command.branch, command.turn)
    grouped, after = decide_all(_create(command, session, over, estimator), after)
    return (*events, *more, *grouped, _assess(command, after, found.open, estimator))


def _estimator(command: Remember, state: Memory) -> Estimator:
    return state.view_of(command.branch).estimator(command.model)


# Objects


def object_id(salt: bytes, *origin: bytes) -> str:
    """An id that says nothing: a hash of where the object comes from, under the session's key."""
    number = int.from_bytes(blake2b(b"\0".join(origin), key=salt[:64], digest_size=16).digest(), "big")
    letters = []
    for _ in range(ID_LENGTH):
        number, letter = divmod(number, len(ID_LETTERS))
        letters.append(ID_LETTERS[letter])
    return "".join(letters)


def _create(command: Remember, session: Session, drafts: Sequence[Draft], estimator: Estimator) -> Iterator[Create]:
    ids: list[str] = []
    admitted: set[str] = set()
    known, seen = session.memory.entities, set[str]()
    for draft in drafts:
        ids.append(_id_of(command, session, draft, ids))
        entities = key_entities(_ends_of(draft.text), KEY_ENTITIES)
        new = sum(each not in seen and each not in known for each in entities) / len(entities) if entities else 1.0
        seen.update(entities)
        tokens = estimator.tokens(features_of_text(draft.text))
        pieces = [piece for place in draft.places for piece in command.pieces(place)]
        links = tuple(Link(link.relation, _name_of(link.target, ids)) for link in draft.links)
        replaced = [link.target for link in links if link.relation is LinkRelation.SUPERSEDES]
        worth = admission.admit(
            admission.AdmissionCandidate(
                kind=draft.kind,
                role=draft.role,
                tokens=tokens,
                text=draft.text[:_READ_FOR_ADMISSION],
                request=_command_of(draft),
                replaces_admitted=any(each in admitted or _is_admitted(session.memory, each) for each in replaced),
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


def _ends_of(text: str) -> str:
    """What a text is about is looked for where it begins and ends: five megabytes would take most of a second."""
    half = _READ_FOR_ENTITIES // 2
    return text if len(text) <= _READ_FOR_ENTITIES else f"{text[:half]}\n{text[-half:]}"


def _numbers_of(draft: Draft) -> tuple[int, ...]:
    """The numbers of the places whose words the user said; there may be a hundred thousand."""
    by_user = frozenset(draft.by_user)
    return tuple(number for number, place in enumerate(draft.places) if place in by_user)


def _is_admitted(memory: Memory, object_id: str) -> bool:
    return object_id in memory.objects and memory.objects[object_id].admission.admitted


def _command_of(draft: Draft) -> str | None:
    """The command that was run, which a source key names behind its tool."""
    if draft.source_key is None or KINDS[draft.kind].is_file:
        return None
    return draft.source_key.removeprefix(f"{draft.source_tool} ")


_READ_FOR_ADMISSION = 400
_READ_FOR_ENTITIES = 400_000


def _id_of(command: Remember, session: Session, draft: Draft, made: Sequence[str]) -> str:
    assert session.salt is not None
    if not draft.places:
        parts = "".join(_name_of(link.target, made) for link in draft.links)
        return object_id(session.salt, b"derived", command.branch.encode(), parts.encode())
    first = draft.places[0]
    chain = session.branches[command.branch].chains[first.message]
    # What was forgotten and is said again is another object.
    where = f"{first.block} {session.memory.generation}"
    return object_id(session.salt, b"blocks", command.branch.encode(), chain, where.encode())


def _name_of(target: str | int, made: Sequence[str]) -> str:
    return made[target] if isinstance(target, int) else target


def _supersede(command: Remember, found: Segmented, made: Sequence[str]) -> Iterator[Supersede]:
    for each in found.supersessions:
        yield Supersede(
            at=command.at,
            object=_name_of(each.target, made),
            branch=command.branch,
            by=None if each.by is None else made[each.by],
            how=each.how,
        )


# Pressure


def _assess(command: Remember, state: Memory, open_from: int, estimator: Estimator) -> TurnAssessed:
    shown = state.view_of(command.branch)
    measure = shown.measure
    held = measure.sum_sent(command.content + command.head)
    before = measure.anchor.features if measure.anchor is not None else Features()
    tokens = estimator.prompt(measure.anchor, held - before)
    fixed = min(tokens, estimator.tokens(command.head))
    window = Window(
        model_tokens=model_of(command.model).window,
        compaction_tokens=COMPACTION_TOKENS,
        budget_tokens=command.window,
        fixed_tokens=fixed,
        output_reserve=min(command.max_tokens or OUTPUT_RESERVE, OUTPUT_RESERVE),
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
        usable=window.usable,
        zone=zone(tokens - fixed, window).name.lower(),
    )


LAST_TYPED = 2
"""So many of the messages that the user typed last are always kept."""


def _find_typed(command: Remember, shown: BranchView) -> tuple[int, ...]:
    """The last messages that the user typed."""
    new = {message.index for message in command.messages if is_prompt(message.role, message.content)}
    return tuple(sorted({*shown.typed, *new}))[-LAST_TYPED:]
