"""A session, turn by turn: real bodies in, events out, and what must hold after every event checked."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import attrs

from mnemosyne.domain.cost.catalogue import tariff_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import (
    CHAIN_BYTES,
    BeginTurn,
    Command,
    FinishTurn,
    ForgetSession,
    Gap,
    InterruptTurn,
    decide,
)
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import BranchKind, BranchOpened, Event, SessionForgotten, TurnBegan
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Branch, Session, evolve
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.rounds import Opening
from mnemosyne.domain.window.situation import PendingRequest
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.dialects import MAIN, SIDE, conversation_of, is_side
from mnemosyne.domain.wire.identity import ClientHeaders, RequestKind, RequestOrigin
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.normal_form import Echo
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.transcript import Transcript
from tests.domain.recorded import dumps


def origin(
    *,
    agent: str | None = None,
    called_by: str | None = None,
    called_by_session: str | None = None,
    name: str = "s",
    kind: RequestKind = RequestKind.TURN,
) -> RequestOrigin:
    """Who sends a request, as ``identify`` would say."""
    own = f"agent:{agent}" if agent else MAIN
    return RequestOrigin(
        client="other",
        version=None,
        external_id=name,
        parent_external_id=called_by_session,
        agent_id=agent,
        parent_agent_id=called_by,
        conversation=SIDE if kind in (RequestKind.SIDE, RequestKind.TITLE) else own,
        kind=kind,
    )


def request(history: Sequence[str]) -> bytes:
    """A body whose messages alternate between user and assistant; the last one is marked, as clients do."""
    messages: list[dict[str, Any]] = [
        {"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(history)
    ]
    if messages:
        messages[-1]["content"] = [{"type": "text", "text": history[-1], "cache_control": {"type": "ephemeral"}}]
    return dumps({"model": "m", "messages": messages, "system": "You are.", "api_key": "sk-canary"})


def pending(read: Transcript, turn: int, *, window: int = 100_000, tariff: str = "api", **more: Any) -> PendingRequest:
    """A request whose history begins with it."""
    history, settings = upstream_history.begin(read), ServerSettings(window=window)
    same: dict[str, Any] = {"before": history, "history": history, "settings": settings, **more}
    return PendingRequest(at=7, branch="main", turn=turn, read=read, tariff=tariff_of(tariff), **same)


@attrs.define
class Story:
    """One session. Every event is checked as it happens."""

    state: Session = attrs.field(factory=Session)
    events: list[Event] = attrs.field(factory=list)
    contents: dict[bytes, bytes] = attrs.field(factory=dict)
    recipes: dict[int, Recipe] = attrs.field(factory=dict)
    bodies: dict[str, Transcript] = attrs.field(factory=dict)
    began: int = 0
    who: RequestOrigin | None = None

    def begin(
        self,
        history: str = "",
        *,
        raw: bytes | None = None,
        who: RequestOrigin | None = None,
        echo: Echo | None = None,
        echoed_attempt: int | None = None,
        gap: Gap | None = None,
        known: frozenset[str] | None = None,
    ) -> TurnBegan:
        """A request with these messages, one word each (or of these bytes); what was recorded of it."""
        who = who or origin()
        base = max(self.bodies, key=lambda name: self.state.branches[name].body_version, default=None)
        previous = self.bodies[base] if base else None
        conversation = who.conversation if not is_side(who.conversation) else conversation_of(MESSAGES, who.agent_id)
        raw = request(history.split()) if raw is None else raw
        reading = transcript.read(raw, previous, conversation=conversation, known=self.contents.keys())
        self.contents.update(reading.contents)
        read = reading.transcript
        self.began += 1
        happened = self.do(
            BeginTurn(
                at=self.began,
                tenant="t",
                external_id="s",
                salt=b"salt",
                client_headers=ClientHeaders(
                    client=who.client,
                    version=who.version,
                    external_id=who.external_id,
                    parent_external_id=who.parent_external_id,
                    agent_id=who.agent_id,
                    parent_agent_id=who.parent_agent_id,
                ),
                origin=who,
                chains=tuple(message.chain[:CHAIN_BYTES] for message in read.messages),
                base=base,
                body=recipe.encode(reading.change),
                size=len(raw),
                sha256=read.sha256,
                stored_sha256=read.stored_sha256,
                model=None,
                stream=False,
                echo=echo,
                echoed_attempt=echoed_attempt,
                opaque=read.opaque,
                gap=gap,
                known=known,
            )
        )
        event = happened[-1]
        assert isinstance(event, TurnBegan)
        branch = self.state.branches[event.branch]
        if branch.body_version == self.state.version:
            assert branch.chains == tuple(message.chain[:CHAIN_BYTES] for message in read.messages)
            self.bodies[branch.name] = attrs.evolve(read, recipe=branch.body)
        return event

    def open(self, raw: bytes, settings: ServerSettings, at: int = 1, wanted: Mode | None = None) -> Opening:
        """Begin a turn with these bytes; return its opening."""
        before, known = self.state, len(self.events)
        self.begin(raw=raw, who=self.who)
        read, events = transcript.read(raw).transcript, tuple(self.events[known:])
        states: dict[str, Any] = {"before": before, "session": self.state}
        return Opening(at=at, wanted=wanted, default=Mode.MANAGE, events=events, read=read, settings=settings, **states)

    def finish(self, address: Address) -> tuple[Event, ...]:
        """The reply came."""
        return self.do(
            FinishTurn(
                at=1,
                **attrs.asdict(address),
                status=200,
                reply=b"\0\0\0",
                message_id=None,
                model=None,
                stop_reason=None,
                error_type=None,
                usage={},
            )
        )

    def interrupt(self, address: Address) -> tuple[Event, ...]:
        """The reply did not come."""
        return self.do(InterruptTurn(at=1, **attrs.asdict(address), status=None, reply=None, reason="left", usage={}))

    def forget(self) -> tuple[Event, ...]:
        """The content is erased."""
        happened = self.do(ForgetSession(at=1))
        self.bodies.clear()
        return happened

    def do(self, command: Command) -> tuple[Event, ...]:
        happened = tuple(decide(command, self.state))
        for event in happened:
            self.state = evolve(self.state, event)
            self.events.append(event)
            self._check(event)
        return happened

    def _check(self, event: Event) -> None:
        assert self.state.version == len(self.events)
        if isinstance(event, TurnBegan):
            built = recipe.apply(self.recipes.get(event.base, Recipe()), recipe.decode(event.body))
            self.recipes[self.state.version] = built
            assert (event.base == 0) == (event.base not in self.recipes)
            assert sha256(recipe.assemble(built.pieces, self.contents.__getitem__)).digest() == event.stored_sha256
            assert built.length == event.size
        if isinstance(event, BranchOpened):
            assert sum(isinstance(each, BranchOpened) and each.branch == event.branch for each in self.events) == 1
        if isinstance(event, SessionForgotten):
            assert not any(branch.body_version or branch.body.pieces for branch in self.state.branches.values())
        for branch in self.state.branches.values():
            assert len(branch.counts) == len(branch.attempts)
            assert (branch.counts[-1] if branch.counts and branch.turns > _inherited(branch) else None) in (
                None,
                len(branch.chains),
            )
            if branch.kind is not BranchKind.OPAQUE:
                assert all(a < b for a, b in zip(branch.counts, branch.counts[1:], strict=False))


def _inherited(branch: Branch) -> int:
    return branch.forked_at if branch.inherits else 0


def address(event: TurnBegan) -> Address:
    return Address(event.branch, event.turn, event.attempt)


def place(event: TurnBegan) -> str:
    """The same for people: ``main 2``, ``main 2.3`` for the third attempt."""
    return f"{event.branch} {event.turn}" + (f".{event.attempt}" if event.attempt > 1 else "")


def opened(story: Story, branch: str) -> BranchOpened:
    (event,) = (each for each in story.events if isinstance(each, BranchOpened) and each.branch == branch)
    return event
