"""What a session owes after a turn began, went on or ended: objects, an account, a look at texts in cleanup tags.

All of it follows from the state, so a process that ends before it is done leaves it to the next one. Nobody waits for
it, and no turn fails by it.
"""

import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence

import attrs

from mnemosyne.actors.cleanup import Append, CleanupTexts
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.threads import LARGE, make_in_slices, run_in_thread
from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.catalogue import tariff_of
from mnemosyne.domain.cost.prices import Tokens, reports_cache, tokens_of, window_of
from mnemosyne.domain.cost.prompt_cache import rules_of
from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.cost.tariffs import API, Tariff
from mnemosyne.domain.cost.tokens import Features
from mnemosyne.domain.segmentation.ingest import Remember, head_of, is_pending, remember_in_steps, remember_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decision_inputs import ServerSettings, in_force
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.ledger import AccountTurn, Sent, account, why_to_stop
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Branch, OpenAttempt, SentRequest, Session
from mnemosyne.domain.window.window_size import choose_window
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import LogUnavailable, MnemosyneError
from mnemosyne.steps import Steps, finish

log = logging.getLogger(__name__)

MANY = 2_000
"""Objects of a branch from which on what a turn changes about them is decided in a thread: to tell an episode that is
over from all others takes 20 ms there, and 90 at 8,000. Other turns take 3 ms.
"""

MUCH = 1 << 15
"""New bytes of a request from which on the objects of an observed turn are made in slices: that takes 10 ms, and nobody
waits for them. A managed turn needs them at once.
"""

HEADS_HELD = 6
"""Of how many system prompts with their tools the size is kept: a session's agents have few between them."""

LAYOUTS_HELD = 12
"""Of how many branches the last layouts are kept."""


class DeferredWork:
    """Does what one session owes."""

    def __init__(self, loaded: Loaded, texts: CleanupTexts, settings: ServerSettings) -> None:
        self._loaded = loaded
        self._texts = texts
        self._settings = settings
        self._reads: dict[int, Transcript] = {}
        self._heads: Lru[tuple[bytes | None, bytes | None, int | None, str | None], Features] = Lru(HEADS_HELD)
        self._layouts: Lru[tuple[str, bool], PromptLayout] = Lru(LAYOUTS_HELD)
        self._seen: dict[str, int] = {}
        self._given_up: set[Hashable] = set()
        self.is_late = False
        """Whether something waits for the database, which a turn that begins would leave behind for ever."""

    @property
    def _state(self) -> Session:
        return self._loaded.state

    def list_held(self) -> list[bytes]:
        """The bodies whose account is not made."""
        return [each.raw for each in self._reads.values()]

    def keep_sent(self, version: int, read: Transcript) -> None:
        """Keep the reading of a request that was recorded just now, for its account."""
        self._reads[version] = read

    async def do(self, append: Append) -> bool:
        """Do all that is owed, recorded by ``append``; whether objects changed."""
        changed = self.is_late = False
        for branch in [each for each in self._state.branches.values() if is_pending(each, self._state.memory)]:
            changed |= await self._once(("objects", branch.name, branch.turns), lambda: self._remember(branch, append))  # noqa: B023
        changed |= await self._texts.apply_tags(append)
        for address, exchange in self._over():
            await self._once(("account", address), lambda: self._account(address, exchange, append))  # noqa: B023
        self._let_go_of_reads()
        return changed

    def _let_go_of_reads(self) -> None:
        """Keep the readings that an account still needs: each is as long as its conversation."""
        exchanges = (each for branch in self._state.branches.values() for each in branch.exchanges.items())
        deferred = (each for address, each in exchanges if ("account", address) not in self._given_up)
        needed = {sent.version for each in deferred for sent in (each.request, *each.rounds)}
        self._reads = {version: read for version, read in self._reads.items() if version in needed}

    def _over(self) -> list[tuple[Address, OpenAttempt]]:
        """The exchanges that have ended, in the order in which they did."""
        exchanges = (each for branch in self._state.branches.values() for each in branch.exchanges.items())
        ended = [(each.ended.at, address, each) for address, each in exchanges if each.ended is not None]
        return [(address, each) for _, address, each in sorted(ended, key=lambda found: found[:2])]

    async def _once(self, work: Hashable, do: Callable[[], Awaitable[bool]]) -> bool:
        """Do a piece of work, whether it changed anything. What cannot be done is not tried again by this process,
        unless it is for the database being away.
        """
        if work in self._given_up:
            return False
        try:
            changed = await do()
        except LogUnavailable as error:
            log.warning("%s of session %s are left for later: %s", work, self._loaded.identity.stream, error)
            self.is_late = True
            return False
        except MnemosyneError as error:
            log.warning("%s of session %s cannot be worked on: %s", work, self._loaded.identity.stream, error)
            changed = False
        except Exception:
            log.exception("%s of session %s could not be worked on", work, self._loaded.identity.stream)
            changed = False
        if not changed:
            self._given_up.add(work)
        return changed

    # Objects

    async def _remember(self, branch: Branch, append: Append) -> bool:
        """Make objects of what the branch's last turn brought."""
        events = await self.remember(branch)
        if events:
            await append(events, Remember.__name__, ())
        return bool(events)

    async def remember(self, branch: Branch) -> tuple[Event, ...]:
        """What is remembered of a branch's last turn."""
        read = await self._loaded.bodies.last(branch)

        def decide() -> Steps[tuple[Event, ...]]:
            command = self._command(branch, read)
            yield
            return () if command is None else (yield from remember_in_steps(command, self._state))

        new = len(read.raw) - self._seen.get(branch.name, 0)
        self._seen[branch.name] = len(read.raw)
        many = len(self._state.memory.view_of(branch.name).objects) >= MANY
        # A long history that is new to us takes seconds, in which other sessions go on.
        in_thread = many or new >= LARGE
        if new >= MUCH and not in_thread and branch.mode is Mode.OBSERVE:
            return await make_in_slices(decide())
        return await run_in_thread(lambda: finish(decide()), in_thread=in_thread)

    def _command(self, branch: Branch, read: Transcript) -> Remember | None:
        assert branch.began is not None
        shown = self._state.memory.view_of(branch.name)
        head = self._head_of(read, branch.tool_budget)
        model = branch.began.model
        wanted, stated = in_force(self._state.taken, self._settings).window, self._state.find_stated_window(model)
        window = choose_window(wanted, model, stated)
        return remember_of(branch.began, read, branch, shown, head, window)

    def _head_of(self, read: Transcript, tool_budget: int | None) -> Features:
        """The features of system prompt and tools, which hardly ever change."""
        key = read.fields.system_digest, read.fields.tools_digest, tool_budget, read.fields.model
        return self._heads.get(key) or self._heads.put(key, head_of(read, tool_budget))

    # The account

    async def _account(self, address: Address, exchange: OpenAttempt, append: Append) -> bool:
        """Enter what ended into the ledger."""
        events = await self.account(address, exchange)
        if not events:
            return False
        deviated = self._state.ledger.deviates
        await append(events, AccountTurn.__name__, ())
        if not deviated and self._tariff.is_billed and (why := why_to_stop(self._state.ledger)):
            log.warning("session %s is not to be managed any longer: %s", self._loaded.identity.stream, why)
        return True

    async def account(self, address: Address, exchange: OpenAttempt) -> tuple[Event, ...]:
        """The account of an attempt that has ended; nothing where its body is no conversation."""
        command = await self._account_turn(address, exchange)
        return (account(command, self._state.ledger),) if command is not None else ()

    async def _account_turn(self, address: Address, exchange: OpenAttempt) -> AccountTurn | None:
        """The command; None where a body is no conversation."""
        assert exchange.ended is not None
        branch, usage = self._state.branches[address.branch], exchange.ended.usage
        sent_versions = [each.version for each in (exchange.request, *exchange.rounds)]
        missing = [version for version in sent_versions if version not in self._reads]
        if missing:
            self._reads |= await self._loaded.bodies.of_versions(missing, branch.lane)
        client = await self._lay_out(branch, exchange.request, upstream=False)
        if client is None:
            return None
        rounds = []
        for each in exchange.rounds:
            layout = await self._lay_out(branch, each, upstream=True)
            if layout is not None:
                rounds.append(Sent(at=each.at, layout=layout, usage=each.usage, reports_cache=each.reports_cache))
        if not rounds:
            # The client's own bytes went, in a managed branch, too, where we could not say better.
            told = reports_cache(usage)
            sent = [Sent(at=exchange.request.at, layout=client, usage=tokens_of(usage), reports_cache=told)]
        elif rounds[-1].usage is None:
            used = _of_last_round(window_of(usage), rounds[:-1])
            sent = [*rounds[:-1], attrs.evolve(rounds[-1], usage=used, reports_cache=reports_cache(usage))]
        else:
            sent = rounds
        return AccountTurn(
            at=exchange.ended.at,
            branch=address.branch,
            turn=address.turn,
            attempt=address.attempt,
            mode=branch.mode if rounds else Mode.OBSERVE,
            model=exchange.model,
            client=client,
            rounds=sent,
            cache=rules_of(self._tariff),
            scaled=self._state.taken is not None and self._state.taken.settings.scaled,
            parts=self._state.taken is not None and self._state.taken.settings.parts,
        )

    @property
    def _tariff(self) -> Tariff:
        """By what the session is billed."""
        return tariff_of(in_force(self._state.taken, self._settings).tariff or API)

    async def _lay_out(self, branch: Branch, request: SentRequest, *, upstream: bool) -> PromptLayout | None:
        """By way of the branch's last layout, or of its parent's where it has none yet."""
        read = self._reads[request.version]
        parent = branch.parent or ""
        before = self._layouts.get((branch.name, upstream)) or self._layouts.get((parent, upstream))
        layout = await run_in_thread(lambda: lay_out(read, before), in_thread=before is None and len(read.raw) >= LARGE)
        return layout and self._layouts.put((branch.name, upstream), layout)


def _of_last_round(usage: Tokens | None, before: Sequence[Sent]) -> Tokens | None:
    """What a round used that was cut short, from the window of its turn: that is the last round's, but for the output,
    which is that of all.
    """
    if usage is None:
        return None
    output = usage.output - sum(each.usage.output for each in before if each.usage is not None)
    return attrs.evolve(usage, output=max(0, output))
