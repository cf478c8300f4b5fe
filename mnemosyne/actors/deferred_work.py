"""Deferred work of a session after a turn began, continued or ended: objects, accounting, texts in cleanup tags.

All of it is derived from the state, so the next process completes work that this one did not finish. Turns do not wait
for it, and its failures do not fail a turn.
"""

import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile

import attrs

from mnemosyne.actors.cleanup import Append, CleanupTexts
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.patience import Patience
from mnemosyne.actors.threads import LARGE, is_behind, run_in_thread
from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.catalogue import find_tariff_name, tariff_of
from mnemosyne.domain.cost.prices import find_last_usage, reports_cache, tokens_of, window_of
from mnemosyne.domain.cost.prompt_cache import rules_of, with_ends_only
from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.cost.tariffs import Tariff
from mnemosyne.domain.cost.tokens import Features
from mnemosyne.domain.segmentation.ingest import Remember, head_of, is_pending, remember, remember_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decision_inputs import ServerSettings, in_force
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.ledger import AccountTurn, Sent, account, why_to_stop
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Branch, OpenAttempt, SentRequest, Session, is_failed
from mnemosyne.domain.window.window_size import choose_window
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ContentForgotten, ContentMissing, LogUnavailable, MnemosyneError

log = logging.getLogger(__name__)

MANY = 2_000
"""Number of objects in a branch above which a turn's changes to them are decided in a thread: finding a finished
episode among them takes 20 ms there, and 90 ms with 8,000. Other turns take 3 ms.
"""

MUCH = 1 << 15
"""Number of new bytes in a request above which the objects of an observed turn are made in a thread: that takes 10 ms,
and no caller waits. A managed turn needs them at once.
"""

HEADS_HELD = 6
"""Number of cached feature sets of a system prompt with its tools: a session's agents share a few."""

READS_HELD = 4
"""From this number of requests on, accounts no longer wait for objects: each body is as long as its conversation."""

LAYOUTS_HELD = 32
"""Number of last layouts of branches, with their versions, that are cached."""


class DeferredWork:
    """Does the deferred work of one session."""

    def __init__(self, loaded: Loaded, patience: Patience, settings: ServerSettings) -> None:
        self._loaded = loaded
        self._texts = CleanupTexts(loaded, patience)
        self._settings = settings
        self._reads: dict[int, Transcript] = {}
        self._heads: Lru[tuple[bytes | None, bytes | None, int | None, str | None], Features] = Lru(HEADS_HELD)
        self._layouts: Lru[tuple[str, bool], tuple[int, PromptLayout]] = Lru(LAYOUTS_HELD)
        self._seen: dict[str, int] = {}
        self._given_up: set[Hashable] = set()
        self.is_late = False
        """Whether work waits for the database; a turn that begins before it is done would make it impossible."""
        self.is_behind = False
        """Whether the objects of a long observed request wait for those of other sessions."""

    @property
    def _state(self) -> Session:
        return self._loaded.state

    def list_held(self) -> list[bytes]:
        """The bodies of requests that are not accounted yet."""
        return [each.raw for each in self._reads.values()]

    def keep_sent(self, version: int, read: Transcript) -> None:
        """Keep the reading of a newly recorded request for its accounting."""
        self._reads[version] = read

    async def do(self, append: Append, *, waits: bool = True, is_needed: bool = False) -> bool:
        """Do all deferred work and record it with ``append``; return whether objects changed. Unless it ``waits``, it
        leaves the objects of long observed requests while another session's are made. ``is_needed``: a caller waits.
        """
        changed = self.is_late = is_left = False
        for branch in [each for each in self._state.branches.values() if is_pending(each, self._state.memory)]:
            may_wait = branch.mode is Mode.OBSERVE and not is_needed
            if may_wait and not waits and is_behind() and self._is_much(branch):
                is_left = True
                continue
            work = "objects", branch.name, branch.turns
            changed |= await self._try_once(work, lambda: self._remember(branch, append, deferred=may_wait))  # noqa: B023
        changed |= await self._texts.apply_tags(append)
        if not is_left or len(self._reads) >= READS_HELD:
            for address, exchange in self._list_ended():
                await self._try_once(("account", address), lambda: self._account(address, exchange, append))  # noqa: B023
            self._drop_unneeded_reads()
        self.is_behind = is_left  # not before: a message may end this
        return changed

    async def account_at_once(self, append: Append) -> None:
        """Account for attempts whose end was just queued, in the same transaction, if that takes about a millisecond
        and no earlier attempt waits for its account: all of them continue one simulated cache.
        """
        for address, exchange in takewhile(lambda each: self._is_quick(*each), self._list_ended()):
            await self._try_once(("account", address), lambda: self._account(address, exchange, append))  # noqa: B023

    def _is_quick(self, address: Address, exchange: OpenAttempt) -> bool:
        """Whether an account can be made without reading the log or laying out a whole body."""
        tariff = self._tariff_of(self._state.branches[address.branch], exchange.model)
        is_kept = all(each.version in self._reads for each in (exchange.request, *exchange.rounds))
        laid_out = all(self._layouts.get((address.branch, sent)) for sent in {False, bool(exchange.rounds)})
        return is_kept and laid_out and not rules_of(tariff).partial

    def _drop_unneeded_reads(self) -> None:
        """Drop the readings that no account needs any more: each is as long as its conversation."""
        exchanges = (each for branch in self._state.branches.values() for each in branch.exchanges.items())
        deferred = (each for address, each in exchanges if ("account", address) not in self._given_up)
        needed = {sent.version for each in deferred for sent in (each.request, *each.rounds)}
        self._reads = {version: read for version, read in self._reads.items() if version in needed}

    def _list_ended(self) -> list[tuple[Address, OpenAttempt]]:
        """The ended exchanges that wait for their account, ordered by time; those of one branch by turn, even if the
        clock was set back.
        """
        ended: list[tuple[int, Address, OpenAttempt]] = []
        for branch in self._state.branches.values():
            latest = 0
            for address, each in sorted(branch.exchanges.items(), key=lambda found: found[0]):
                if each.ended is not None and ("account", address) not in self._given_up:
                    latest = max(latest, each.ended.at)
                    ended.append((latest, address, each))
        return [(address, each) for _, address, each in sorted(ended, key=lambda found: found[:2])]

    async def _try_once(self, work: Hashable, do: Callable[[], Awaitable[bool]]) -> bool:
        """Do one piece of work; return whether it changed anything. Failed work is not retried by this process, except
        when the database was unavailable.
        """
        if work in self._given_up:
            return False
        try:
            changed = await do()
        except LogUnavailable as error:
            log.warning("%s of session %s are deferred: %s", work, self._loaded.identity.stream, error)
            self.is_late = True
            return False
        except MnemosyneError as error:
            log.warning("%s of session %s cannot be processed: %s", work, self._loaded.identity.stream, error)
            changed = False
        except Exception:
            log.exception("%s of session %s could not be processed", work, self._loaded.identity.stream)
            changed = False
        if not changed:
            self._given_up.add(work)
        return changed

    # Objects

    async def _remember(self, branch: Branch, append: Append, *, deferred: bool) -> bool:
        """Make objects of the messages in the branch's last turn."""
        events = await self.remember(branch, deferred=deferred)
        if events:
            await append(events, Remember.__name__, ())
        return bool(events)

    def list_paused(self) -> list[Branch]:
        """The observed branches that wait for their clients with assessed messages that are in no object."""
        running = {(each.branch, each.turn) for each in self._state.running}
        waiting = [each for each in self._state.branches.values() if (each.name, each.turns) not in running]
        held = [each for each in waiting if each.mode is Mode.OBSERVE and self._loaded.bodies.find_held(each)]
        shown = [(each, self._state.memory.view_of(each.name)) for each in held]
        return [one for one, its in shown if its.measure.turn == one.turns and its.known.open < its.measure.messages]

    async def close_runs(self, append: Append) -> None:
        """Make objects of everything but unanswered calls in observed conversations: nothing follows for now."""
        for branch in self.list_paused():
            work = "runs", branch.name, branch.turns
            await self._try_once(work, lambda: self._remember(branch, append, deferred=True))  # noqa: B023

    async def remember(self, branch: Branch, *, deferred: bool = False) -> tuple[Event, ...]:
        """The events that make objects of a branch's last turn; ``deferred`` as in ``run_in_thread``."""
        read = await self._loaded.bodies.last(branch)

        def decide() -> tuple[Event, ...]:
            command = self._command(branch, read)
            return () if command is None else remember(command, self._state)

        events = await run_in_thread(decide, in_thread=self._is_much(branch), deferred=deferred)
        self._seen[branch.name] = branch.body.length
        return events

    def _is_much(self, branch: Branch) -> bool:
        """Whether a thread makes its objects: a long new history takes seconds."""
        many = len(self._state.memory.view_of(branch.name).objects) >= MANY
        new = branch.body.length - self._seen.get(branch.name, 0)
        return many or new >= (MUCH if branch.mode is Mode.OBSERVE else LARGE)

    def _command(self, branch: Branch, read: Transcript) -> Remember | None:
        assert branch.began is not None
        shown = self._state.memory.view_of(branch.name)
        head = self._head_of(read, branch.tool_budget)
        model = branch.began.model
        taken = in_force(self._state.find_taken(branch.name), self._settings)
        window = choose_window(taken.window, model, self._state.find_stated_window(model))
        return remember_of(branch.began, read, branch, shown, head, window)

    def _head_of(self, read: Transcript, tool_budget: int | None) -> Features:
        """The features of system prompt and tools, cached because they hardly ever change."""
        key = read.fields.system_digest, read.fields.tools_digest, tool_budget, read.fields.model
        return self._heads.get(key) or self._heads.put(key, head_of(read, tool_budget))

    # Accounting

    async def _account(self, address: Address, exchange: OpenAttempt, append: Append) -> bool:
        """Enter an ended attempt into the ledger."""
        events = await self.account(address, exchange)
        if not events:
            return False
        before = self._state.ledger
        await append(events, AccountTurn.__name__, ())
        tariff = self._tariff_of(self._state.branches[address.branch], exchange.model)
        if tariff.is_billed and (why := why_to_stop(self._state.ledger)) and not before.deviates:
            log.warning("session %s should no longer be managed: %s", self._loaded.identity.stream, why)
        return True

    async def account(
        self,
        address: Address,
        exchange: OpenAttempt,
        earlier: Callable[[AccountTurn], AccountTurn] | None = None,
        *,
        repeats: bool = False,
    ) -> tuple[Event, ...]:
        """The account of an ended attempt; empty if its body is not a conversation. ``earlier`` replaces its rules by
        those of earlier servers. ``repeats``, also theirs: an uncounted last round is billed the prompt before it.
        """
        command = await self._account_turn(address, exchange, repeats)
        if command is None:
            return ()
        return (account(earlier(command) if earlier is not None else command, self._state.ledger),)

    async def _account_turn(self, address: Address, exchange: OpenAttempt, repeats: bool) -> AccountTurn | None:
        """The command; None if a body is not a conversation, or nothing was billed."""
        assert exchange.ended is not None
        branch, usage = self._state.branches[address.branch], exchange.ended.usage
        sent_versions = [each.version for each in (exchange.request, *exchange.rounds)]
        missing = [version for version in sent_versions if version not in self._reads]
        if missing:
            self._reads |= await self._loaded.bodies.of_versions(missing, branch.conversation)
        taken = self._state.find_taken(address.branch)
        cache = rules_of(self._tariff_of(branch, exchange.model))
        if taken is not None and not taken.prefixes:
            cache = with_ends_only(cache)
        before = await self._find_before(branch, exchange.before) if cache.partial else (None, None)
        client = await self._lay_out(branch, exchange.request, upstream=False)
        if client is None:
            return None
        rounds = []
        for each in exchange.rounds:
            layout = await self._lay_out(branch, each, upstream=True)
            if layout is not None:
                rounds.append(Sent(at=each.at, layout=layout, usage=each.usage, reports_cache=each.reports_cache))
        if not rounds:
            # The client's own bytes were sent; this includes fallbacks in a managed branch.
            has_cache_counts = reports_cache(usage)
            sent = [Sent(at=exchange.request.at, layout=client, usage=tokens_of(usage), reports_cache=has_cache_counts)]
        elif rounds[-1].usage is None:
            used = find_last_usage(window_of(usage), [each.usage for each in rounds[:-1]], repeats=repeats)
            sent = [*rounds[:-1], attrs.evolve(rounds[-1], usage=used, reports_cache=reports_cache(usage))]
        else:
            sent = rounds
        if is_failed(exchange.ended):
            sent = [each for each in sent if each.usage is not None]
        if not sent:
            return None
        return AccountTurn(
            at=exchange.ended.at,
            branch=address.branch,
            turn=address.turn,
            attempt=address.attempt,
            mode=branch.mode if rounds else Mode.OBSERVE,
            model=exchange.model,
            client=client,
            rounds=sent,
            cache=cache,
            scaled=taken is not None and taken.scaled,
            parts=taken is not None and taken.parts,
            client_before=before[0],
            sent_before=before[1],
        )

    def _tariff_of(self, branch: Branch, model: str | None) -> Tariff:
        """The tariff that bills a branch. The log of one that was only observed does not name it."""
        known = in_force(self._state.find_taken(branch.name), self._settings).tariff
        credential = branch.client_headers.credential if branch.client_headers is not None else None
        return tariff_of(known or find_tariff_name(credential, hour=False, host="", model=model))

    async def _lay_out(self, branch: Branch, request: SentRequest, *, upstream: bool) -> PromptLayout | None:
        """The layout of a request, based on the branch's last layout, or on its parent's if it has none yet."""
        read = self._reads[request.version]
        parent = branch.parent or ""
        _, before = self._layouts.get((branch.name, upstream)) or self._layouts.get((parent, upstream)) or (0, None)
        layout = await run_in_thread(lambda: lay_out(read, before), in_thread=before is None and len(read.raw) >= LARGE)
        return layout and self._layouts.put((branch.name, upstream), (request.version, layout))[1]

    async def _find_before(self, branch: Branch, versions: Sequence[int]) -> Sequence[PromptLayout | None]:
        """The layouts of earlier bodies of a branch or its parent; None for one that is not there any more."""
        places = [(name or "", upstream) for name in (branch.name, branch.parent) for upstream in (True, False)]
        held = dict(found for each in places if (found := self._layouts.get(each)) is not None)
        if missing := {version for version in versions if version} - held.keys():
            with suppress(ContentForgotten, ContentMissing):
                for version, read in (await self._loaded.bodies.of_versions(missing, branch.conversation)).items():
                    layout = await run_in_thread(partial(lay_out, read), in_thread=len(read.raw) >= LARGE)
                    if layout is not None:
                        held[version] = layout
        return [held.get(version) for version in versions]
