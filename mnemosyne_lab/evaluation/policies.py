"""The compared policies: reality, other tools, proposals from papers, and the limits.

To add one, write a planner (``domain/window/planning.py``) and a line in ``POLICIES``; `docs/evaluation.md` shows how.
"""

import os
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs

from mnemosyne.app.policies import import_object
from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prompt import Ttl
from mnemosyne.domain.cost.tariffs import LIFETIME
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity, FidelityMode
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.assembly import Renderings
from mnemosyne.domain.window.planning import Candidates, Plan, Planner, Situation, head_lasts_an_hour, planner
from mnemosyne.domain.window.policies import guard, is_conversation, lower, plan_of, zones
from mnemosyne.domain.wire.blocks import is_result
from mnemosyne.domain.wire.normal_form import THINKING
from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.demand import Demand
from mnemosyne_lab.evaluation.policy import Compaction, Policy, Settings
from mnemosyne_lab.evaluation.trace import Trace


def age(situation: Situation, candidate: Candidate) -> int:
    """Turns since it was sent first."""
    return situation.turn - candidate.born


# What others do

CLEARED = "[Old tool result content cleared]"
TRIGGER, KEEP = 100_000, 3


def clearing(situation: Situation, candidates: Candidates) -> Plan | None:
    """The provider's own clearing of tool results, with its defaults."""
    if situation.prompt <= TRIGGER:
        return None
    gone = _list_clearable(candidates, KEEP)
    return _clear_all(gone, "more than 100,000 tokens") if gone else None


def _list_clearable(candidates: Candidates, keeps: int) -> list[Candidate]:
    """The results still shown in full that may be stubbed, except the last ``keeps`` results."""
    tools = [each for each in candidates() if not is_conversation(each)][:-keeps]
    full = (each for each in tools if each.fidelity is Fidelity.FULL and not each.kept)
    return [each for each in full if lower(each, Fidelity.STUB) is Fidelity.STUB]


def _clear_all(gone: Sequence[Candidate], reason: str) -> Plan:
    return Plan(fidelities=dict.fromkeys((each.key for each in gone), Fidelity.STUB), reason=reason)


def clear(
    messages: Sequence[dict[str, Any]], renderings: Renderings, thinking_from: int, first: int
) -> list[dict[str, Any]]:
    """Replace results as the provider does; keep calls and thinking."""
    found = []
    for number, message in enumerate(messages, first):
        gone = [is_result(block) and BlockPlace(number, n) in renderings for n, block in enumerate(message["content"])]
        blocks = zip(message["content"], gone, strict=True)
        found.append({**message, "content": [{**each, "content": CLEARED} if out else each for each, out in blocks]})
    return found


# The client itself

AUTOCOMPACT = 33_000
"""Tokens that Claude Code keeps free before it compacts."""

USUAL_WINDOW = 200_000
"""The window that both are meant for."""

IDLE_LEAST, IDLE_BEFORE = 200_000, 60_000_000
"""It compacts above this many tokens when its user is away, this many µs before an hour's cache entry expires (an
assumption).
"""

CLEARED_AFTER, CLEARED_KEEPS, CLEARED_NEEDS, CLEARED_FREES = 3_900_000_000, 12, 27, 20_000
"""After this many µs it clears all but the last tool results, if there are enough and it frees enough tokens."""


def native(settings: Settings, before: int, upcoming: int, at: int, last_at: int | None) -> Compaction | None:
    """Claude Code 2.1.329 compacts before the window is full, and while its user is away if cache entries last an hour.
    In a window of another size its reserve and summary scale with it.
    """
    hour = LIFETIME["1h"]
    if last_at is not None and settings.ttl == "1h" and at - last_at >= hour and before >= IDLE_LEAST:
        return Compaction(last_at + hour - IDLE_BEFORE)
    if settings.window is None:
        full = upcoming > model_of(settings.model).window - AUTOCOMPACT
        return Compaction(at) if full else None
    share = Fraction(settings.window, USUAL_WINDOW)
    full = upcoming > settings.window - int(AUTOCOMPACT * share)
    return Compaction(at, int(COMPACTED_TOKENS * share)) if full else None


def clearing_after_idleness(situation: Situation, candidates: Candidates) -> Plan | None:
    """Claude Code's clearing of old tool results after idle time, which a flag of its server enables."""
    if situation.idle is None or situation.idle < CLEARED_AFTER:
        return None
    gone = _list_clearable(candidates, CLEARED_KEEPS)
    tools = sum(not is_conversation(each) for each in candidates())
    freed = sum(each.tokens[0] - (each.tokens[Fidelity.STUB] or 0) for each in gone)
    return _clear_all(gone, "the user was away") if tools >= CLEARED_NEEDS and freed >= CLEARED_FREES else None


def clear_without_thinking(
    messages: Sequence[dict[str, Any]], renderings: Renderings, thinking_from: int, first: int
) -> list[dict[str, Any]]:
    """Replace results as ``clear`` does, and remove all thinking."""
    return [
        {**message, "content": [block for block in message["content"] if block.get("type") not in THINKING]}
        for message in clear(messages, renderings, thinking_from, first)
    ]


# Paying rules


def simple(situation: Situation, candidates: Candidates) -> Plan | None:
    """When cold or above 130,000 tokens: stub what is older than ten requests, drop what is older than twenty, and keep
    objects of files edited within eight.
    """
    if not situation.cold and situation.prompt <= 130_000:
        return None
    recent = {
        each.source_key
        for each in candidates()
        if each.source_key is not None and "edit" in each.tags and age(situation, each) <= 8
    }

    def choose(situation: Situation, candidate: Candidate) -> Fidelity:
        old = age(situation, candidate)
        if is_conversation(candidate) or old <= 10 or candidate.source_key in recent:
            return candidate.fidelity
        return lower(candidate, Fidelity.EVICTED if old > 20 else Fidelity.STUB)

    return plan_of(situation, candidates, choose, "cold cache" if situation.cold else "more than 130,000 tokens")


# The upper limit, which knows the future


def oracle(trace: Trace, demands: Sequence[Demand]) -> Policy:
    """Belady with free rewriting: evict an object right after its last use as the latest source of an exact text."""
    uses: dict[str, int] = {}
    for demand in demands:
        if demand.exact:
            uses[demand.sources[0]] = max(uses.get(demand.sources[0], 0), demand.turn)

    def choose(situation: Situation, candidate: Candidate) -> Fidelity:
        if is_conversation(candidate) or uses.get(candidate.key, 0) >= situation.turn:
            return candidate.fidelity
        return lower(candidate, Fidelity.EVICTED)

    def rewrite(situation: Situation, candidates: Candidates) -> Plan | None:
        # Free rewriting drops thinking with every request.
        plan = plan_of(situation, candidates, choose, "not needed any more")
        return plan or Plan(fidelities={}, reason="thinking")

    return Policy(name="oracle", about="", planner=rewrite, free=True)


# Ours


def hour_after_a_break(settings: Settings, situation: Situation, freed: int) -> Ttl:
    """Cache system prompt and tools for an hour once the user takes breaks."""
    return "1h" if head_lasts_an_hour(situation, freed) else settings.ttl


UNMANAGED = Policy(
    name="unmanaged", about="The recorded requests, including the client's own compactions.", history="client"
)

UNCOMPACTED = Policy(name="uncompacted", about="Nothing is ever evicted: a window of a million tokens.")

NATIVE = Policy(
    name="native",
    about="Claude Code of autumn 2026 without Mnemosyne: compacts 33,000 tokens before the model's window is full, and"
    " from 200,000 on while its user is away, where the cache lasts an hour.",
    compacts=native,
    guess="what it goes on with after a compaction (20,000 tokens), the moment of the idle one, and that nothing which"
    " it dropped is read again",
)

NATIVE_CLEARING = Policy(
    name="native-clearing",
    about="The same, and old tool results cleared after 65 minutes without a request, which a flag of its server"
    " decides on.",
    compacts=native,
    planner=clearing_after_idleness,
    assemble=clear_without_thinking,
    guess=f"{NATIVE.guess}; that an object is a result",
)

DENOMINATORS: tuple[Policy, ...] = (UNMANAGED, UNCOMPACTED, NATIVE, NATIVE_CLEARING)
"""The alternatives that each policy is compared with."""


def behind_guard(policy: Planner) -> Planner:
    """The planner as a server runs it. Raises PolicyFailed for an impossible plan."""

    def plan_behind_guard(situation: Situation, candidates: Candidates) -> Plan | None:
        objects = candidates()
        allowed = guard(situation, objects, policy(situation, lambda: objects))
        return allowed if isinstance(allowed, Plan) else None

    return plan_behind_guard


MNEMOSYNE = Policy(
    name="mnemosyne",
    about="What the server plans (`docs/research/planning.md`); the head is held for an hour once the user took a"
    " break.",
    planner=planner,
    head=hour_after_a_break,
    has_memory=True,
    mode=FidelityMode.GRADED,
)

POLICIES: tuple[Policy, ...] = (
    UNMANAGED,
    UNCOMPACTED,
    NATIVE,
    NATIVE_CLEARING,
    Policy(
        name="clearing",
        about="The provider clears tool results above 100,000 tokens and keeps the last three.",
        planner=clearing,
        assemble=clear,
    ),
    Policy(
        name="simple",
        about="When cold or above 130,000 tokens: stubs after 10 requests, gone after 20, edited files stay.",
        planner=simple,
    ),
    MNEMOSYNE,
    attrs.evolve(
        MNEMOSYNE,
        name="mnemosyne-thrifty",
        about="The same with `fidelity = thrifty`: objects go at once to what costs least.",
        mode=FidelityMode.THRIFTY,
    ),
    Policy(
        name="zones",
        about="The server's policy of this name: degrades by how full the window is, where the guard allows it.",
        planner=behind_guard(zones),
        head=hour_after_a_break,
        has_memory=True,
    ),
    Policy(name="zones-unguarded", about="The same zones with every request, whatever it costs.", planner=zones),
    Policy(
        name="oracle",
        about="Knows which exact texts will be needed, and rewrites for nothing: the limit.",
        for_trace=oracle,
    ),
)


# Selection by name, and import of a user's own policy


def choose_policies(names: Sequence[str]) -> list[Policy]:
    """The named policies, each once: built-in ones in the order of the table, then ``MODULE:NAME`` in the given order.
    Without names, all built-in ones. Raises BadOption.
    """
    known = [policy.name for policy in POLICIES]
    own = [name for name in names if ":" in name]
    for name in names:
        if name not in known and name not in own:
            raise BadOption(
                f"There is no policy {name!r}; there are {', '.join(known)}. One of your own is MODULE:NAME."
            )
    chosen = [policy for policy in POLICIES if not names or policy.name in names]
    for name in own:
        policy = import_policy(name)
        if any(policy.name == each.name for each in chosen) or policy.name in known:
            raise BadOption(f"{name}: there is a policy {policy.name!r} already; give it a name of its own.")
        chosen.append(policy)
    return chosen


def import_policy(place: str) -> Policy:
    """Import a policy from ``MODULE:NAME``; the current folder is on the path. A planner becomes the policy that a
    server makes of it. Raises BadOption with the reason.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise BadOption(f"{place!r} is not the place of a policy: that is MODULE:NAME.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value = import_object(place)[0]
    except ValueError as reason:
        raise BadOption(f"{place}: {reason}") from None
    if isinstance(value, Policy):
        return value
    if callable(value) and not isinstance(value, type):
        words = " ".join((value.__doc__ or "").split())
        return Policy(
            name=place,
            about=f"{words.partition('. ')[0].removesuffix('.')}." if words else "A planner of your own.",
            planner=behind_guard(value),
            head=hour_after_a_break,
            has_memory=True,
        )
    raise BadOption(f"{place}: it is neither a Policy nor a planner (`docs/evaluation.md` shows both).")
