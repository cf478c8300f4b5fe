"""Drive one recorded session under one policy and compute its requests, its bill and its missing texts.

Requests have the recorded times and get the recorded answers; the agent does not react. If the next reply uses an exact
text that is not in the window, it is restored first: another round, and the object's tokens at the tail until the next
epoch, as in a real session.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import attrs

from mnemosyne.domain.cost import prompt_cache
from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Prompt, PromptBlock, PromptStep, Tier, Ttl, last_markable
from mnemosyne.domain.cost.prompt_cache import Cache, CacheEntry
from mnemosyne.domain.cost.tariffs import LIFETIME, PaidIn, weights_at
from mnemosyne.domain.objects.faults import ReuseRecord, find_shown
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.followed_plan import LARGEST, find_followed_plan
from mnemosyne.domain.objects.kinds import is_operators
from mnemosyne.domain.objects.protection import Now, why_recent
from mnemosyne.domain.segmentation.ingest import LAST_TYPED
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS, SUMMARY_TOKENS
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.tools.memory_tools import TOOLS
from mnemosyne.domain.window.ages import Candidate, Later, later_of
from mnemosyne.domain.window.assembly import Message
from mnemosyne.domain.window.planning import CostSoFar, Plan, Situation
from mnemosyne.domain.window.situation import count_reuse, find_limit
from mnemosyne.domain.window.window_size import choose_window
from mnemosyne.domain.wire.blocks import has_results
from mnemosyne.domain.wire.normal_form import THINKING
from mnemosyne_lab.evaluation.demand import Demand, Outcome, ShownObject, outcome
from mnemosyne_lab.evaluation.policy import Policy, as_slot
from mnemosyne_lab.evaluation.results import Epoch, SessionResult, TurnPoint
from mnemosyne_lab.evaluation.sizing import Sized, SizedItem, rendering_of
from mnemosyne_lab.evaluation.trace import Reset, Step, TraceRequest, pass_on
from mnemosyne_lab.provider.rules import violations

CALL_TOKENS = 80
"""Tokens of the model's restore call."""

SUMMARY_REQUEST = PromptBlock(b"summarize", 1_500, Tier.MESSAGES, "text")
"""The client's request for a summary of its history."""

ROUNDING = Fraction(102, 100)
"""Tolerance of an estimate of the cached part of the head."""

SUMMARY_NOT_KNOWN = "(The client's own summary of what came before.)"

IN_FULL = ShownObject(full=True)
GONE = ShownObject(full=False)

BETAS = (("anthropic-beta", "per-turn-control-2026-07-01"),)
"""A beta that the wire rules must allow: recorded clients change the effort in mid-history."""


Observe = Callable[[TraceRequest, Mapping[str, Fidelity], Callable[[], Iterable[str]], Sequence[Demand]], None]
"""Sees each request: the objects below full fidelity, the texts of the window, and the demands of its reply."""


def simulate(
    sized: Sized,
    demands: Sequence[Demand],
    policy: Policy,
    unmanaged: SessionResult | None = None,
    step: Step = pass_on,
    observe: Observe | None = None,
) -> SessionResult:
    """Drive one session. ``unmanaged`` is its result without a policy; None to compute that. ``observe`` sees each
    request before its reply.
    """
    if policy.for_trace is not None:
        policy = policy.for_trace(sized.trace, demands)
    run = _Run(sized, policy, unmanaged)
    wanted: dict[int, list[Demand]] = {}
    for demand in demands:
        wanted.setdefault(demand.turn, []).append(demand)
    for request in sized.trace.requests:
        run.send(request)
        needed = wanted.get(request.turn, ())
        if observe is not None:
            observe(request, run.list_shortened(), run.list_texts, needed)
        run.answer(request, needed)
        step()
    return run.result()


class _Run:
    """The mutable state of one simulated session."""

    def __init__(self, sized: Sized, policy: Policy, unmanaged: SessionResult | None) -> None:
        self._sized = sized
        self._policy = policy
        self._unmanaged = unmanaged
        self._settings = sized.settings
        self._price = sized.settings.price
        self._read = sized.settings.tariff.weights_at(self._price).read
        self._write = sized.settings.tariff.write_at(self._price)
        self._minimum = model_of(sized.settings.model).cache_minimum
        self._rules = prompt_cache.rules_of(sized.settings.tariff.tariff)
        # For the client's own history all, otherwise only the user's.
        its_own = policy.history == "client"
        self._resets = {reset.turn: reset for reset in sized.trace.resets if its_own or reset.by_user}
        prompts = (each["role"] == "user" and not has_results(each["content"]) for each in sized.messages)
        self._typed = [number for number, is_typed in enumerate(prompts) if is_typed]
        # The window
        self._window = choose_window(sized.settings.window, sized.settings.model)
        self._limit = find_limit(sized.settings.window, sized.settings.model, Session())
        sends_tools = sized.settings.memory_tools and policy.has_memory
        self._fixed = sized.head_with(TOOLS) if sends_tools else sized.head
        self._prompt = self._fixed
        self._wire: list[Message] = []
        self._since = 0
        self._sent = 0
        self._reset: Reset | None = None
        self._visible: list[SizedItem] = []
        self._fidelity: dict[str, Fidelity] = {}
        self._restored: dict[str, int] = {}
        self._plan: frozenset[str] = frozenset()
        self._uses: dict[str, int] = {}
        self._reuse = ReuseRecord()
        self._items = {item.id: item for item in sized.trace.items}
        # The cache
        # At first it holds the part of tools and system prompt that the first request read; of an assumed head nothing.
        read, first = ROUNDING * sized.trace.found_cached, sized.trace.requests[0].at
        held = [step for step in sized.head if step.tokens <= read and sized.trace.head is not None][-1:]
        self._cache = Cache({step.digest: CacheEntry(sized.settings.ttl, first + 1, first) for step in held})
        self._billed_last = Prompt()
        self._slot = Prompt()
        self._head: Ttl = sized.settings.ttl
        self._last_at: int | None = None
        # The account
        self._billed = self._shadow = Fraction(0)
        self._nanodollars = self._unmanaged_nanodollars = self._tokens_sent = 0
        self._evictions = self._violations = self._exact_faults = self._compactions = 0
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._steps: Counter[Fidelity] = Counter()
        self._epochs: list[Epoch] = []
        self._points: list[TurnPoint] = []

    # One request

    def send(self, request: TraceRequest) -> None:
        """Send a request; rewrite the history first if the policy plans it."""
        reset = self._resets.get(request.turn) or self._compaction(request)
        compacting, spent = Fraction(0), self._nanodollars
        if reset is not None:
            self._compactions += 1
            compacting = self._ask_for_summary(reset, request)
            self._start_over(reset)
        before = self._prompt
        born = self._sized.born[request.turn]
        self._visible += [each for each in born if each.item.places[0].message >= self._since]
        self._append(self._sized.messages[self._sent : request.messages])
        appended = self._prompt
        situation = self._situation(request, before, appended)
        plan = self._policy.planner(situation, lambda: self._candidates(request)) if self._policy.planner else None
        if plan is not None:
            self._rewrite(request, plan, situation)
        self._sent = request.messages
        tokens = (
            self._as_if_free(request, situation, appended[len(before) :])
            if self._policy.free
            else self._bill(self._prompt, request.at)
        )
        self._tokens_sent += tokens.prompt
        billed = self._pay(attrs.evolve(tokens, output=request.output or 0))
        if plan is not None:
            self._note_epoch(plan, situation, billed)
        self._last_at = request.at
        self._points.append(self._point(request, compacting + billed, self._nanodollars - spent))

    def _compaction(self, request: TraceRequest) -> Reset | None:
        """The compaction by another client before this request: it drops everything it has sent."""
        if self._policy.compacts is None or not self._sent:
            return None
        new = sum(block.tokens for block in self._sized.blocks(self._sized.messages[self._sent : request.messages]))
        before = self._prompt.tokens
        found = self._policy.compacts(self._settings, before, before + new, request.at, self._last_at)
        if found is None:
            return None
        reset = Reset(turn=request.turn, kept_from=self._sent, summary=SUMMARY_NOT_KNOWN, by_user=False)
        return attrs.evolve(reset, at=found.at, tokens=found.tokens)

    def _ask_for_summary(self, reset: Reset, request: TraceRequest) -> Fraction:
        """Bill the client's own compaction: the prompt again and the summary. Unsent messages are not written to the
        cache (seen in Claude Code 2.1.329).
        """
        dropped = self._sized.messages[self._sent : reset.kept_from]
        asked = self._prompt.extend([*self._sized.blocks(dropped), SUMMARY_REQUEST])
        tokens = self._bill(asked, request.at if reset.at is None else reset.at, marked=self._prompt)
        if reset.tokens is None:
            output = self._sized.text_tokens(reset.summary)
        else:
            output = SUMMARY_TOKENS * reset.tokens // COMPACTED_TOKENS
        self._last_at = self._last_at if reset.at is None else reset.at
        return self._pay(attrs.evolve(tokens, output=output))

    def _start_over(self, reset: Reset) -> None:
        """Start the window with the client's summary."""
        self._since = self._sent = reset.kept_from
        self._reset = reset
        self._begin(self._preface())
        self._visible = [each for each in self._visible if each.item.places[0].message >= self._since]
        self._restored.clear()

    def _append(self, messages: Sequence[Message]) -> None:
        self._wire += messages
        self._prompt = self._prompt.extend(self._sized.blocks(messages))

    def _begin(self, messages: Sequence[Message]) -> None:
        """Set the window to these messages. The first is the client's summary, if there is one."""
        preface = messages[:1] if self._reset is not None else []
        self._prompt, self._wire = self._fixed, list(preface)
        if self._reset is not None and self._reset.tokens is not None:
            name = f"summary before turn {self._reset.turn}".encode()
            self._prompt = self._prompt.extend([PromptBlock(name, self._reset.tokens, Tier.MESSAGES, "text")])
        else:
            self._prompt = self._prompt.extend(self._sized.blocks(preface))
        self._append(messages[len(preface) :])

    def _preface(self) -> list[Message]:
        if self._reset is None:
            return []
        return [{"role": "user", "content": [{"type": "text", "text": self._reset.summary}]}]

    def _situation(self, request: TraceRequest, before: Prompt, appended: Prompt) -> Situation:
        return Situation(
            turn=request.turn,
            prompt=appended.tokens,
            fixed=self._fixed.tokens,
            new=appended.tokens - before.tokens,
            idle=None if self._last_at is None else request.at - self._last_at,
            ttl=self._settings.tariff.forgets_after,
            write=self._write,
            read=self._read,
            window=self._window,
            limit=self._limit,
            billed=self._billed,
            shadow=self._shadow,
            unmanaged=(self._points[-1].unmanaged_tokens if self._points else before.tokens)
            + appended.tokens
            - before.tokens,
            last_epoch=self._epochs[-1].turn if self._epochs else None,
            exchange=request.exchange,
            mode=self._policy.mode,
            reuse=count_reuse(self._reuse, self._items),
            also=(self._dollars_so_far(),) if PaidIn.DOLLARS in self._settings.tariff.tariff.units[1:] else (),
        )

    def _dollars_so_far(self) -> CostSoFar:
        """The cost in dollars, which must not rise either when another unit is weighed."""
        weights = weights_at(self._price)
        return CostSoFar(
            read=weights.read,
            write=weights.write_5m if self._settings.ttl == "5m" else weights.write_1h,
            billed=Fraction(self._nanodollars, self._price.input),
            shadow=Fraction(self._unmanaged_nanodollars, self._price.input),
        )

    def _candidates(self, request: TraceRequest) -> list[Candidate]:
        known = [each for each in self._visible if each.item.born <= self._count_known(request)]
        items = sorted((each.item for each in known), key=lambda item: item.places[0])
        later = later_of((item.id, item.source_key, item.tags) for item in items)
        self._plan = find_followed_plan(each.item for each in known)
        return [self._candidate(each, request, later.get(each.item.id, Later.NOTHING)) for each in known]

    def _count_known(self, request: TraceRequest) -> int:
        """The last turn whose objects a planner knows. The server derives a request's objects after sending it, so a
        policy with memory does not know the current ones.
        """
        return request.turn - 1 if self._policy.has_memory else request.turn

    def _candidate(self, each: SizedItem, request: TraceRequest, later: Later) -> Candidate:
        item = each.item
        told = self._count_known(request)
        used = (use.turn for use in item.uses if use.known <= told)
        return Candidate(
            key=item.id,
            kind=item.kind,
            role=item.role,
            tags=item.tags,
            source_key=item.source_key,
            fidelity=Fidelity.FULL if item.id in self._restored else self._fidelity.get(item.id, Fidelity.FULL),
            tokens=each.tokens,
            thinking=each.thinking,
            born=item.last_turn,
            last_use=max(item.last_turn, self._uses.get(item.id, 0), *used),
            last_fault=self._uses.get(item.id),
            stale=item.superseded is not None and item.superseded <= told,
            kept=item.born >= request.turn or is_operators(item.tags) or self._is_protected(each, request),
            later=later,
        )

    def _is_protected(self, each: SizedItem, request: TraceRequest) -> bool:
        """Whether the server would protect the object from eviction, for a policy with memory."""
        if not self._policy.has_memory:
            return False
        typed = self._typed[: bisect_left(self._typed, request.messages)]
        latest = LAST_TYPED + (typed[-1] >= self._sent) if typed else 0
        now = Now(turn=request.turn, message_count=request.messages, last_user_messages=tuple(typed[-latest:]))
        followed = each.item.id in self._plan and each.tokens[0] <= LARGEST
        return followed or why_recent(each.item.places, now) is not None

    # An epoch

    def _rewrite(self, request: TraceRequest, plan: Plan, situation: Situation) -> None:
        there = {each.item.id: each for each in self._visible}
        for key in self._restored:  # it is rendered at its place again, in full unless the plan says otherwise
            self._fidelity.pop(key, None)
        self._restored.clear()
        for key, fidelity in plan.fidelities.items():
            self._set(there[key], fidelity)
        preface = self._preface()
        messages = [*preface, *self._sized.messages[self._since : request.messages]]
        renderings = {
            place: rendering_of(each.item, self._fidelity[each.item.id])
            for each in self._visible
            if each.item.id in self._fidelity
            for place in each.item.places
        }
        self._begin(self._policy.assemble(messages, renderings, request.messages, self._since - len(preface)))
        if not self._policy.free:  # what pays for its rewrites would be sent
            self._check_wire()
        if self._head == "5m":
            self._head = self._policy.head(self._settings, situation, situation.prompt - self._prompt.tokens)

    def _check_wire(self) -> None:
        body = {"model": "claude-opus-5-5", "max_tokens": 1024, "messages": self._wire}
        self._violations += len(violations(body, BETAS))

    def _set(self, each: SizedItem, fidelity: Fidelity) -> None:
        if each.tokens[fidelity] is None:
            raise ValueError(
                f"{self._policy.name} wants {each.item.id} at {fidelity.label}, and it has no such rendition"
            )
        if fidelity is Fidelity.FULL:
            self._fidelity.pop(each.item.id, None)
            return
        self._evictions += each.item.id not in self._fidelity
        self._steps[fidelity] += 1
        self._reuse = self._reuse.lower(each.item.id, fidelity)
        self._fidelity[each.item.id] = fidelity

    def _note_epoch(self, plan: Plan, situation: Situation, billed: Fraction) -> None:
        """Record an epoch. Its price is the difference to the same request without a rewrite."""
        written = situation.prompt if situation.cold or situation.idle is None else situation.new
        unchanged = (situation.prompt - written) * situation.read + written * situation.write
        self._epochs.append(
            Epoch(turn=situation.turn, reason=plan.reason, price=billed - unchanged, expected_price=plan.price)
        )

    # The bill

    def _bill(self, prompt: Prompt, at: int, *, marked: Prompt | None = None) -> Tokens:
        """Bill a request. With ``marked``, it has the cache markers of that earlier prompt."""
        if self._settings.tariff.has_slot:
            tokens = as_slot(self._slot, prompt)
            self._slot = prompt
            return tokens
        markers = client_markers(marked or prompt, head=self._head, tail=self._settings.ttl)
        shared = self._billed_last.count_shared(prompt) if self._cache.holds(self._billed_last, at) else 0
        self._cache, billed = prompt_cache.bill(
            self._cache,
            prompt,
            markers,
            started_at=at,
            minimum=self._minimum,
            readable_at=at,
            rules=self._rules,
            shared=prompt[shared - 1].tokens if shared else 0,
        )
        self._billed_last = prompt
        return billed.tokens

    def _as_if_free(self, request: TraceRequest, situation: Situation, added: Sequence[PromptStep]) -> Tokens:
        """Bill as if every rewrite were cached for an hour: only new blocks without thinking are written."""
        if situation.idle is None or situation.idle >= LIFETIME["1h"]:
            self._cache = Cache()
            return self._bill(self._prompt, request.at)
        whole = self._prompt.tokens
        new = min(sum(step.block.tokens for step in added if step.block.kind not in THINKING), whole)
        written = Tokens(write_1h=new) if self._settings.ttl == "1h" else Tokens(write_5m=new)
        return attrs.evolve(written, read=whole - new)

    def _pay(self, tokens: Tokens) -> Fraction:
        equivalents = self._settings.tariff.equivalents(tokens, self._price)
        self._billed += equivalents
        self._nanodollars += 0 if self._settings.tariff.has_slot else self._price.nanodollars(tokens)
        return equivalents

    def _point(self, request: TraceRequest, billed: Fraction, nanodollars: int) -> TurnPoint:
        fixed = self._fixed.tokens
        detailed, compact, stubs = (
            sum(each.tokens[fidelity] or 0 for each in self._visible if self._fidelity.get(each.item.id) is fidelity)
            for fidelity in (Fidelity.DETAILED, Fidelity.COMPACT, Fidelity.STUB)
        )
        number = len(self._points)
        real = self._unmanaged.points[number] if self._unmanaged is not None else None
        shadow = real.shadow if real else billed
        self._shadow += shadow
        self._unmanaged_nanodollars += real.nanodollars if real else nanodollars
        return TurnPoint(
            turn=request.turn,
            at=(request.at - self._sized.trace.requests[0].at) / 1e6,
            resident=(self._prompt.tokens - fixed - detailed - compact - stubs, detailed, compact, stubs),
            fixed=fixed,
            unmanaged_tokens=real.unmanaged_tokens if real else self._prompt.tokens,
            billed=billed,
            shadow=shadow,
            nanodollars=nanodollars,
        )

    # Demands of the reply

    def answer(self, request: TraceRequest, demands: Sequence[Demand]) -> None:
        """Judge the demands of the recorded reply and restore each exact text that is missing."""
        if self._settings.tariff.has_slot:  # the server does not read its own output again
            self._slot = self._prompt.extend(
                self._sized.blocks(self._sized.messages[request.messages : request.messages + 1])
            )
        there = [each.item for each in self._visible]
        for each in self._sized.born[request.turn]:  # evicted objects whose lines this request read again
            old = find_shown(each.item, reversed(there))
            if old is not None and old.id in self.list_shortened():
                self._reuse = self._reuse.read(old.id)
        for demand in demands:
            found = outcome(demand, self._show, self.list_texts)
            self._outcomes[found] += 1
            if found is Outcome.RESIDENT:
                continue
            if demand.exact:
                self._exact_faults += 1
                self._restore(request, demand)

    def list_texts(self) -> Iterator[str]:
        return self._sized.list_texts(self._wire)

    def list_shortened(self) -> Mapping[str, Fidelity]:
        """The objects of the window below full fidelity, unless they were restored."""
        known = (each.item.id for each in self._visible if each.item.id not in self._restored)
        return {key: self._fidelity[key] for key in known if key in self._fidelity}

    def _show(self, key: str) -> ShownObject:
        each = self._sized.by_id[key]
        if each.item.places[0].message < self._since:
            return GONE
        fidelity = self._fidelity.get(key, Fidelity.FULL)
        if fidelity is Fidelity.FULL or key in self._restored:
            return IN_FULL
        return self._sized.show(key, fidelity)

    def _restore(self, request: TraceRequest, demand: Demand) -> None:
        """Restore an object in another round. A client that dropped its history reads the file again, which the
        recording contains.
        """
        there = [key for key in demand.sources if self._sized.by_id[key].item.places[0].message >= self._since]
        if not there or self._policy.planner is None:
            return
        each = self._sized.by_id[there[0]]
        self._restored[each.item.id] = request.turn
        self._uses[each.item.id] = request.turn
        self._reuse = self._reuse.need(each.item.id)
        # The two messages of a restore.
        call_id = f"restore_{each.item.id}_{request.turn}"
        call = {"type": "tool_use", "id": call_id, "name": "memory_restore", "input": {"id": each.item.id}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": each.item.text}
        self._append([{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}])
        tokens = self._bill(self._prompt, request.at)
        self._tokens_sent += tokens.prompt
        last, before = self._points[-1], self._nanodollars
        billed = self._pay(attrs.evolve(tokens, output=CALL_TOKENS))
        self._points[-1] = attrs.evolve(
            last,
            billed=last.billed + billed,
            nanodollars=last.nanodollars + self._nanodollars - before,
            restored=last.restored + each.tokens[0],
        )

    # The result

    def result(self) -> SessionResult:
        self._check_wire()
        unmanaged = sum(point.unmanaged_tokens for point in self._points)
        shadow = sum((point.shadow for point in self._points), Fraction(0))
        return SessionResult(
            name=self._sized.trace.name,
            turns=len(self._points),
            tokens_sent=self._tokens_sent,
            tokens_unmanaged=unmanaged,
            billed=self._billed,
            billed_unmanaged=shadow,
            nanodollars=self._nanodollars,
            nanodollars_unmanaged=self._nanodollars if self._unmanaged is None else self._unmanaged.nanodollars,
            compactions=self._compactions,
            steps=self._steps,
            evictions=self._evictions,
            exact_faults=self._exact_faults,
            demands=sum(self._outcomes.values()),
            resident=self._outcomes[Outcome.RESIDENT],
            declared=self._outcomes[Outcome.DECLARED],
            silent=self._outcomes[Outcome.SILENT],
            wire_violations=self._violations,
            epochs=tuple(self._epochs),
            points=tuple(self._points),
        )


def client_markers(prompt: Prompt, *, head: Ttl = "5m", tail: Ttl = "5m") -> dict[int, Ttl]:
    """The markers that Claude Code 2.1.329 sets: on the last two blocks of the system prompt, and on the last
    block that may carry one.
    """
    systems = []
    for number, step in enumerate(prompt):
        if step.block.tier == Tier.MESSAGES:
            break  # the head is short: this does not walk through the history
        if step.block.tier == Tier.SYSTEM and step.block.markable:
            systems.append(number)
    markers: dict[int, Ttl] = dict.fromkeys(systems[-2:], head)
    last = last_markable(prompt)
    if last is not None:
        markers.setdefault(last, tail)
    return markers
