"""An epoch of a branch: the planner's input, its decision, and the history sent upstream from then on.

Everything older than the request is rendered again from the client's own history: each object at its planned fidelity,
without thinking and hidden rounds; objects that a hidden round restored return to their original place. Until the next
epoch the wire history only grows.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, takewhile

import attrs

from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject, may_be_extracted
from mnemosyne.domain.objects.decide import Degrade, decide, decide_all
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.ids import REPLACED_TEXT
from mnemosyne.domain.objects.kinds import is_its_own_detail, is_operators, keeps_prompt
from mnemosyne.domain.objects.losses import describe_form
from mnemosyne.domain.session import decide as sessions
from mnemosyne.domain.session.decide import BeginEpoch, NoteFilled
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.summaries.forms import extract
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import assembly, policies, upstream_history
from mnemosyne.domain.window.assembly import Joined, Message, ObjectRendering, Renderings
from mnemosyne.domain.window.object_sizes import find_path, line_of
from mnemosyne.domain.window.planning import (
    RULE,
    NoRewrite,
    Plan,
    Situation,
    foresee,
    head_lasts_an_hour,
    tokens_saved_by,
)
from mnemosyne.domain.window.situation import (
    PendingRequest,
    Sizes,
    blocks_of,
    candidates_of,
    is_there,
    situation_of,
)
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.window.window_size import choose_window
from mnemosyne.domain.wire import markers
from mnemosyne.domain.wire.blocks import call_id_of, has_results, is_call
from mnemosyne.domain.wire.client_texts import is_reminder
from mnemosyne.domain.wire.history import is_hidden
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.transcript import Transcript

NOTHING_SENT = "nothing was sent yet"
REST_STAYS = "what else there is must stay, or is new"
SHARED_ID = "calls that wait for their results share an id, so it is unknown which result answers which"
UNPLANNED = "nothing was planned for it: its session did not answer in time"
WENT_BACK = "the client went back to before the last rewrite"
NO_LONGER_FITS = "the client's own history no longer fits the model's window"


@attrs.frozen(kw_only=True)
class Decision:
    """A decision to rewrite: what changes, why, and at what cost. ``managed``: the branch is still managed; otherwise
    the client's markers stay unchanged. ``client`` are the client's messages, if the decision has parsed them.
    """

    fidelities: Mapping[str, Fidelity]
    reason: str
    cause: Cause
    price: int = 0
    payback: int | None = None
    situation: Situation | None = None
    managed: bool = True
    client: Sequence[Message] = attrs.field(default=(), repr=False)


def consider(asked: PendingRequest, session: Session, sizes: Sizes) -> Decision | NoRewrite:
    """Decide whether this request begins an epoch; NoRewrite says why not."""
    situation = situate(asked, session, sizes)
    return NoRewrite(NOTHING_SENT) if situation is None else decide_epoch(asked, session, situation, sizes)


def situate(asked: PendingRequest, session: Session, sizes: Sizes) -> Situation | None:
    """The situation of the request without a rewrite; None if the branch has sent nothing before."""
    wire = session.branches[asked.branch].wire
    return None if wire is None else situation_of(asked, session, wire, sizes)


def decide_epoch(
    asked: PendingRequest,
    session: Session,
    situation: Situation,
    sizes: Sizes,
    planned: Plan | NoRewrite | None = None,
) -> Decision | NoRewrite:
    """Decide whether a request in this situation begins an epoch; NoRewrite says why not. ``planned`` is the plan of a
    policy that is not built in.
    """
    if not may_begin(asked):
        return NoRewrite("the request goes on in the midst of a reply")
    if planned is None and asked.settings.policy not in policies.BUILT_IN:
        return NoRewrite(f"only a server asks the policy {asked.settings.policy}")
    planned = planned or policies.plan(asked.settings.policy, situation, lambda: candidates_of(asked, session, sizes))
    if isinstance(planned, NoRewrite):
        return planned
    client = parse_client(asked)
    if not _have_distinct_ids(client):
        return NoRewrite(SHARED_ID)
    pressed = planned.payback is None and not situation.cold
    return Decision(
        fidelities=planned.fidelities,
        reason=planned.reason,
        cause=Cause.PRESSURE if pressed else Cause.ECONOMY,
        price=round(planned.price),
        payback=planned.payback,
        situation=situation,
        client=client,
    )


def list_leaving(
    asked: PendingRequest, session: Session, situation: Situation, sizes: Sizes
) -> list[tuple[MemoryObject, Fidelity]]:
    """The objects that a rewrite a few turns after this request would degrade, with their fidelities, the largest
    saving first. Objects with images are always among them: a full window evicts them without warning, and only
    a helper's caption keeps their content.
    """
    candidates = candidates_of(asked, session, sizes)
    in_full = [each.key for each in candidates if each.fidelity is Fidelity.FULL]
    pictured = {key: Fidelity.EVICTED for key in in_full if session.memory.objects[key].is_pictured}
    leaving = {**pictured, **foresee(situation, candidates)}
    by_saving = sorted(candidates, key=lambda each: tokens_saved_by(each, leaving.get(each.key, each.fidelity)))
    return [
        (session.memory.objects[each.key], leaving[each.key]) for each in reversed(by_saving) if each.key in leaving
    ]


def note_filled(asked: PendingRequest, situation: Situation, why: str, freed: int = 0) -> NoteFilled | None:
    """The record for a request that still fills its window after ``freed`` tokens were saved; None if it does not."""
    left = situation.prompt - freed
    if left <= RULE.overflow * situation.window:
        return None
    return NoteFilled(
        at=asked.at,
        branch=asked.branch,
        turn=asked.turn,
        window=situation.window,
        tokens=left,
        fixed=situation.fixed,
        new=situation.new,
        why=why,
    )


def go_back() -> Decision:
    """The decision after the client went back to a point that a rewrite left without a position on the wire."""
    return Decision(fidelities={}, reason=WENT_BACK, cause=Cause.ECONOMY)


def no_longer_fits() -> Decision:
    """The decision for a branch that is no longer managed and whose client history exceeds the model's window."""
    return Decision(fidelities={}, reason=NO_LONGER_FITS, cause=Cause.PRESSURE, managed=False)


def may_begin(asked: PendingRequest) -> bool:
    """Whether thinking may be dropped from this request and no hidden call still waits for its result."""
    replies = asked.before.replies.values()
    if any(is_hidden(block, memory_tools.NAMES) for rounds in replies for block in rounds[-1].content):
        return False
    return may_drop_thinking(asked.read) and _is_answered(asked.read)


def may_drop_thinking(read: Transcript) -> bool:
    """Whether thinking may be dropped from a request: with manual thinking, not inside a tool loop."""
    if not read.dialect.signs_thinking:
        return True
    thinking = read.member("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return True
    return not has_results(blocks_of(read, -1))


def _is_answered(read: Transcript) -> bool:
    """Whether the last message is the user's and answers every call of the assistant's last message."""
    if not read.messages or read.messages[-1].role == "assistant":
        return False
    backwards = range(len(read.messages) - 1, -1, -1)
    after = list(takewhile(lambda number: read.messages[number].role != "assistant", backwards))
    calling = takewhile(lambda number: read.messages[number].role == "assistant", backwards[len(after) :])
    calls = {str(block.get("id")) for number in calling for block in blocks_of(read, number) if is_call(block)}
    results = {call_id_of(block) for number in after for block in blocks_of(read, number)}
    return calls <= results


# Rendering


@attrs.frozen(kw_only=True)
class Rewritten:
    """The history of a new epoch and its first events. ``hour``: cache system prompt and tools for an hour."""

    history: UpstreamHistory
    events: tuple[Event, ...]
    hour: bool
    freed: int
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)
    """The texts of renditions made for this rewrite, by digest."""


def texts_of(decision: Decision, asked: PendingRequest, session: Session) -> dict[str, bytes]:
    """The renditions that the rewrite shows: the digest of the stored content, by object id."""
    texts = {}
    for obj, fidelity in _list_lowered(decision, asked, session):
        if fidelity in (Fidelity.DETAILED, Fidelity.COMPACT) and not _is_own_text(obj, fidelity):
            rendition = obj.renditions.get(fidelity)
            if rendition is not None:
                texts[obj.id] = rendition.text
    return texts


def list_to_extract(decision: Decision, asked: PendingRequest, session: Session) -> dict[str, bytes]:
    """The objects that the rewrite shows at an L1 that is not made yet: their stored contents, by object id."""
    return {
        obj.id: obj.content
        for obj, fidelity in _list_lowered(decision, asked, session)
        if fidelity is Fidelity.DETAILED and may_be_extracted(obj)
    }


@attrs.frozen
class Forms:
    """Texts for objects below full fidelity: the ``texts`` of recorded renditions, and the ``contents`` of the objects
    whose L1 is made now, by object id.
    """

    texts: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    contents: Mapping[str, bytes] = attrs.field(factory=dict, repr=False)


def rewrite(
    decision: Decision, asked: PendingRequest, session: Session, forms: Forms, sizes: Sizes
) -> Rewritten | None:
    """Render the new epoch; None if it would save nothing or would degrade a pinned object. An object without a text at
    its planned fidelity is shown as its stub.
    """
    found = (
        extract(session.memory.objects[key], session.memory, forms.contents[key], asked.at) for key in forms.contents
    )
    made = [each for each in found if each is not None]
    happened, memory = decide_all((each.command for each in made), session.memory)
    session = attrs.evolve(session, memory=memory)
    texts = {**forms.texts, **{each.command.object: each.text for each in made}}
    shown_at = [
        (each, fidelity if _is_had(each, fidelity, texts) else Fidelity.STUB)
        for each, fidelity in _list_lowered(decision, asked, session)
    ]
    shown = session.memory.view_of(asked.branch)
    estimator = shown.estimator(asked.model)
    long_gone = _find_long_gone(asked, shown_at, estimator, session.find_stated_window(asked.model))
    client = decision.client or parse_client(asked)
    rendered, ends = render(asked, client, _render_objects(shown_at, texts, long_gone))
    messages = _repeat_notices(rendered, ends, asked, session)
    before = upstream_history.without_tools(asked.history).messages
    was, becomes = (sizes.of(each, asked.dialect) for each in (before, messages))
    freed = estimator.tokens(was) - estimator.tokens(becomes)
    if not messages or (freed <= 0 and decision.situation is not None):
        return None
    changes = [decide(each, session.memory) for each in _degrades(decision, asked, session, shown_at)]
    if not all(changes):  # the rendering must match the recorded events
        return None
    history = upstream_history.rewrite(messages, ends, asked.before)
    wire = session.branches[asked.branch].wire
    held = wire is not None and wire.hour and decision.managed
    hour = held or (
        decision.situation is not None
        and asked.tariff.obeys_markers
        and markers.may_hold_head(asked.read)
        and head_lasts_an_hour(decision.situation, freed)
    )
    command = BeginEpoch(
        at=asked.at,
        branch=asked.branch,
        turn=asked.turn,
        epoch=history.epoch,
        messages=len(asked.read.messages),
        reason=decision.reason,
        freed=freed,
        price=decision.price,
        payback=decision.payback,
        hour=hour,
    )
    return Rewritten(
        history=history,
        events=(*happened, *sessions.decide(command, session), *chain.from_iterable(changes)),
        hour=hour,
        freed=freed,
        contents=tuple(each.content for each in made),
    )


def _repeat_notices(
    messages: Sequence[bytes], ends: Sequence[int], asked: PendingRequest, session: Session
) -> Sequence[bytes]:
    """Add the notice that the branch received at its start to the message that held it."""
    notice = session.branches[asked.branch].told
    if notice is None:
        return messages
    return upstream_history.tell(messages, ends, notice.message, notice.text, asked.dialect)


def _list_lowered(decision: Decision, asked: PendingRequest, session: Session) -> list[tuple[MemoryObject, Fidelity]]:
    """The objects that the rewritten history shows below full fidelity; operator text is never among them, even if an
    earlier version degraded it.
    """
    standings = session.memory.standings(asked.branch)
    wanted = [
        (obj, decision.fidelities.get(obj.id, fidelity)) for obj, fidelity in standings if not is_operators(obj.tags)
    ]
    return [(obj, at) for obj, at in wanted if at is not Fidelity.FULL and is_there(obj, asked)]


def _is_own_text(obj: MemoryObject, fidelity: Fidelity) -> bool:
    return fidelity is Fidelity.DETAILED and is_its_own_detail(obj.tags)


def _is_had(obj: MemoryObject, fidelity: Fidelity, texts: Mapping[str, str]) -> bool:
    return fidelity >= Fidelity.STUB or obj.id in texts or _is_own_text(obj, fidelity)


def _find_long_gone(
    asked: PendingRequest, shown_at: Sequence[tuple[MemoryObject, Fidelity]], estimator: Estimator, stated: int | None
) -> frozenset[str]:
    """The evicted objects that notes only count, oldest first: the lines of all evicted objects would fill any
    window.
    """
    evicted = sorted(
        (each for each, fidelity in shown_at if fidelity is Fidelity.EVICTED), key=lambda each: each.places[0]
    )
    room = round(RULE.told * choose_window(asked.settings.window, asked.model, stated))
    while evicted and room > 0:
        room -= estimator.tokens(features_of_text(line_of(evicted.pop())))
    return frozenset(each.id for each in evicted)


def _render_objects(
    shown_at: Sequence[tuple[MemoryObject, Fidelity]], texts: Mapping[str, str], long_gone: Collection[str]
) -> Renderings:
    return {
        place: attrs.evolve(rendering, long_gone=True) if obj.id in long_gone else rendering
        for obj, fidelity in shown_at
        for rendering in [_render_object(obj, fidelity, texts)]
        for place in obj.places
    }


def _render_object(obj: MemoryObject, fidelity: Fidelity, texts: Mapping[str, str]) -> ObjectRendering:
    facts = ""
    if _is_own_text(obj, fidelity):
        facts = f"lost: {REPLACED_TEXT}"
    elif fidelity < Fidelity.STUB:
        facts = describe_form(obj, fidelity)
    text = obj.stub
    if fidelity < Fidelity.STUB and not _is_own_text(obj, fidelity):
        text = texts[obj.id]
    return ObjectRendering(
        id=obj.id,
        fidelity=fidelity,
        text=text,
        line=line_of(obj),
        path=find_path(obj.kind, obj.source_key),
        keeps_prompt=keeps_prompt(obj.tags),
        is_own_detail=is_its_own_detail(obj.tags),
        facts=facts,
    )


def parse_client(asked: PendingRequest) -> list[Message]:
    """All messages of the client."""
    return [asked.message(number) for number in range(len(asked.read.messages))]


def render(asked: PendingRequest, client: Sequence[Message], renderings: Renderings) -> tuple[list[bytes], list[int]]:
    """Render the ``client``'s messages with these renderings. Return the elements and, for each client message, how
    many elements precede its end. Unchanged messages keep the client's bytes. Both lists are empty if calls share an
    id.
    """
    if not _have_distinct_ids(client):
        return [], []
    made = assembly.join(
        client,
        renderings,
        thinking_from=len(client),
        joins=asked.dialect.joins,
        omitted=find_repeated(client),
        cite=assembly.CITE if asked.settings.cited and renderings else "",
    )
    written = [(each.number, raw) for each in made for raw in _write(each, asked)]
    messages, numbers = [raw for _, raw in written], [number for number, _ in written]
    return messages, [max(1, bisect_right(numbers, number)) for number in range(len(client))]


def find_repeated(messages: Sequence[Message]) -> frozenset[BlockPlace]:
    """The places of reminders that the client repeats later with the same bytes. Reminders before the first assistant
    message are excluded, because they belong to the start of the conversation.
    """
    seen: set[tuple[str, str]] = set()
    repeated = set[BlockPlace]()
    begun = next((number for number, each in enumerate(messages) if each.get("role") == "assistant"), len(messages))
    for number in range(len(messages) - 1, begun, -1):
        role = str(messages[number].get("role"))
        blocks = content_blocks(messages[number].get("content")) if role != "assistant" else []
        for index, block in reversed(list(enumerate(blocks))):
            text = block.get("text")
            if block.keys() != {"type", "text"} or not isinstance(text, str) or not is_reminder(role, text):
                continue
            if (role, text) in seen:
                repeated.add(BlockPlace(number, index))
            seen.add((role, text))
    return frozenset(repeated)


def _have_distinct_ids(messages: Sequence[Message]) -> bool:
    """Whether each result answers exactly one call: an id is reused only after its call was answered. Some servers
    behind Chat Completions give all calls the same id, or none.
    """
    waiting: set[object] = set()
    for block in (block for message in messages for block in content_blocks(message["content"])):
        call = block.get("id")
        if is_call(block):
            if call is None or str(call) in waiting:
                return False
            waiting.add(str(call))
        else:
            waiting.discard(call_id_of(block))
    return True


def _write(joined: Joined, asked: PendingRequest) -> list[bytes]:
    elements = [asked.read.message_bytes(number) for number in joined.made_of]
    return asked.dialect.history.write(joined.message, elements, same=joined.same)


def _degrades(
    decision: Decision, asked: PendingRequest, session: Session, shown_at: Sequence[tuple[MemoryObject, Fidelity]]
) -> Iterator[Degrade]:
    """The commands that degrade objects in the branch; objects restored from earlier windows are evicted again."""
    shown = session.memory.view_of(asked.branch)
    earlier = [
        (shown.own(session.memory.objects[key]), Fidelity.EVICTED)
        for key in sorted(shown.before & shown.fidelity.keys())
    ]
    for obj, after in (*shown_at, *earlier):
        if after is not shown.fidelity_of(obj.id):
            yield Degrade(
                at=asked.at,
                object=obj.id,
                branch=asked.branch,
                turn=asked.turn,
                after=after,
                cause=Cause.RELEASE if obj.released else decision.cause,
            )
