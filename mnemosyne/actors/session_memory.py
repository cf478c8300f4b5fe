"""What an actor knows of its session: the state that decides, and the bytes to compare the next request with.

It turns what arrived into the command to decide on, and it changes by events alone; who appends them is not its matter.
"""

from collections.abc import Callable, Sequence

import attrs

from mnemosyne.actors.bodies import Bodies, Replies
from mnemosyne.actors.messages import Begin, Identity
from mnemosyne.domain.cost.tokens import Features
from mnemosyne.domain.history import loading
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.ports import ContentStore, Recorded
from mnemosyne.domain.segmentation.ingest import Remember, head_of, remember_of
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import CHAIN_BYTES, BeginTurn, nearest_branch
from mnemosyne.domain.session.events import Event, SessionForgotten, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.window.planning import WINDOW
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.identity import SIDE, Speaker, identify, speaker
from mnemosyne.domain.wire.normal_form import Echo
from mnemosyne.domain.wire.transcript import Reading, Transcript

HEADS_HELD = 6
"""Of how many system prompts with their tools the size is kept: a session's agents have few between them."""


class SessionMemory:
    """One session as its events so far tell it."""

    def __init__(
        self, identity: Identity, contents: ContentStore, new_salt: Callable[[], bytes], window: int = WINDOW
    ) -> None:
        self.state = Session()
        self._identity = identity
        self._new_salt = new_salt
        self._window = window
        self._bodies = Bodies(identity.stream, contents)
        self._replies = Replies(self._bodies)
        self._heads: dict[tuple[bytes | None, bytes | None, int | None], Features] = {}

    @property
    def known(self) -> set[bytes]:
        """The digests of the contents that are stored, or will be before whatever is queued next."""
        return self._bodies.known

    @property
    def bodies(self) -> Bodies:
        """The bodies and contents of the session."""
        return self._bodies

    def load(self, recorded: Sequence[Recorded]) -> None:
        """Begin with everything that is on record. Raises LogFailed if the events do not add up."""
        for each in recorded:
            event: Event = each.envelope.event  # type: ignore[assignment]  # the codec of the log knows no others
            self.state = evolve(self.state, loading.without_body(event))
            self._remember(event)
        self.state = loading.with_bodies(self.state, str(self._identity.stream), recorded)

    def note(self, event: Event) -> None:
        """Let an event change the state, and remember what it shows of the bytes."""
        self.state = evolve(self.state, event)
        self._remember(event)

    def _remember(self, event: Event) -> None:
        match event:
            case TurnBegan():
                self._bodies.known.update(recipe.decode(event.body).digests)
                if event.attempt == 1:
                    self._replies.expect(event.branch)
            case TurnFinished() | TurnInterrupted():
                if event.reply is not None:
                    self._bodies.known.update(recipe.decode(event.reply).digests)
                if event.turn == self.state.branches[event.branch].turns:
                    self._replies.note(event)
            case ObjectSummarized():
                self._bodies.known.add(event.text)
            case SessionForgotten():
                self._bodies.forget()
                self._replies.forget()

    def hold(self, began: TurnBegan, read: Transcript) -> None:
        """Keep the body of the turn that has just begun."""
        branch = self.state.branches[began.branch]
        if branch.body_version == self.state.version:  # not so for an earlier turn that is repeated
            self._bodies.hold(branch, read)

    def hold_reply(self, reply: bytes, body: bytes) -> None:
        """Keep the bytes of the newest reply: the next request most likely shows it."""
        self._replies.hold(reply, body)

    def remember_turn(self, began: TurnBegan, read: Transcript) -> Remember | None:
        """The command to remember the turn that has just begun; None where there is nothing to remember. It may take
        its time with a long history, and touches nothing that changes.
        """
        branch = self.state.branches[began.branch]
        shown = self.state.memory.shown(branch.name)
        return remember_of(began, read, branch, shown, self._head_of(read, branch.tool_budget), self._window)

    def _head_of(self, read: Transcript, tool_budget: int | None) -> Features:
        """The features of system prompt and tools, which hardly ever change."""
        key = read.fields.system_digest, read.fields.tools_digest, tool_budget
        if key not in self._heads:
            self._heads = {**dict(list(self._heads.items())[-HEADS_HELD:]), key: head_of(read, tool_budget)}
        return self._heads[key]

    async def begin_turn(self, message: Begin) -> tuple[BeginTurn, Reading]:
        """The command that a request is, and the reading of its body."""
        heard = speaker(message.headers)
        related = [branch for branch in self.state.branches.values() if branch.lane in (heard.lane, SIDE)]
        base, previous = await self._bodies.nearest(related, message.raw)
        reading = transcript.read(message.raw, previous, lane=heard.lane, known=self._bodies.known)
        chains = self._chains(reading.transcript, base, previous)
        return await self._command(message, heard, reading, chains, base), reading

    def _chains(self, read: Transcript, base: str | None, previous: Transcript | None) -> tuple[bytes, ...]:
        """The chain hashes of the messages, without a look at each of those that the last body of ``base`` has too."""
        shared = read.shared_with(previous) if previous is not None else 0
        known = self.state.branches[base].chains[:shared] if base is not None else ()
        return known + tuple(each.chain[:CHAIN_BYTES] for each in read.messages[len(known) :])

    async def _command(
        self, message: Begin, heard: Speaker, reading: Reading, chains: tuple[bytes, ...], base: str | None
    ) -> BeginTurn:
        read = reading.transcript
        caller = identify(message.headers, read)
        echo, echoed_attempt = await self._echo(caller.lane, chains, read)
        return BeginTurn(
            at=message.at,
            tenant=self._identity.tenant,
            external_id=self._identity.external_id,
            salt=self.state.salt or self._new_salt(),
            speaker=_storable(heard),
            caller=caller,
            chains=chains,
            base=base,
            body=recipe.encode(reading.change),
            size=len(message.raw),
            sha256=read.sha256,
            stored_sha256=read.stored_sha256 if read.stored_sha256 != read.sha256 else None,
            model=sanitize.optional_text(read.fields.model),
            stream=read.fields.stream,
            echo=echo,
            echoed_attempt=echoed_attempt,
            opaque=read.opaque,
            gap=message.gap,
        )

    async def _echo(self, lane: str, chains: tuple[bytes, ...], read: Transcript) -> tuple[Echo | None, int | None]:
        nearest = nearest_branch(self.state, lane, chains)
        if nearest is None or not len(nearest[0].chains) == nearest[1] < len(chains):
            return None, None  # it does not go on from there
        return await self._replies.echoed(nearest[0], read)


def _storable(heard: Speaker) -> Speaker:
    return attrs.evolve(
        heard,
        external_id=sanitize.optional_text(heard.external_id),
        parent_external_id=sanitize.optional_text(heard.parent_external_id),
        agent_id=sanitize.optional_text(heard.agent_id),
        parent_agent_id=sanitize.optional_text(heard.parent_agent_id),
    )
