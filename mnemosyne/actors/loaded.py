"""A loaded session: the state that decisions use, folded from its events, and the bodies for comparison with the next
request, a cache of the log. It does not append events.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import takewhile

import attrs

from mnemosyne.actors.bodies import Bodies, Histories, Replies
from mnemosyne.actors.known_credentials import KnownCredentials
from mnemosyne.actors.messages import ArrivedRequest, Identity, Recognized
from mnemosyne.actors.threads import is_much, run_in_thread
from mnemosyne.domain.history import loading, time_travel
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.ports import ContentStore, Recorded, StreamReader
from mnemosyne.domain.session import sanitize, succession
from mnemosyne.domain.session.decide import CHAIN_BYTES, BeginTurn, Gap, nearest_branch
from mnemosyne.domain.session.events import Event, SessionForgotten, TurnBegan, TurnRelation
from mnemosyne.domain.session.state import Branch, Session, evolve, evolve_all
from mnemosyne.domain.session.tool_uses import read_uses
from mnemosyne.domain.wire import normal_form, recipe, transcript
from mnemosyne.domain.wire.dialects import dialect_of, is_side, side_of
from mnemosyne.domain.wire.identity import ClientHeaders, RequestKind, RequestOrigin
from mnemosyne.domain.wire.normal_form import Echo
from mnemosyne.domain.wire.transcript import Transcript, TranscriptReading

MANY = 256
"""Number of events above which folding them is slow: each event of an object copies the table of all objects."""

MANY_PLACES = 4096
"""Number of blocks of one message above which folding a single event is slow: each block that belongs to an object is
checked.
"""


class Loaded:
    """One session, folded from its events so far."""

    def __init__(
        self,
        identity: Identity,
        contents: ContentStore,
        event_log: StreamReader[Event],
        new_salt: Callable[[], bytes],
        known_credentials: KnownCredentials | None = None,
    ) -> None:
        self.state = Session()
        self.bodies = Bodies(identity.stream, contents, event_log)
        self.histories = Histories(self.bodies)
        self.identity = identity
        self._new_salt = new_salt
        self._known_credentials = known_credentials or KnownCredentials()
        self._replies = Replies(self.bodies)
        self._seen_from = self.state
        self._foreseen: tuple[Event, ...] = ()
        """The events that the last ``preview`` applied to that state."""
        self._foreseen_states = [(0, self.state)]
        """How many of those events were applied, and the state after them: one for each call, not one for each event,
        since a turn may create thousands of objects and every state holds a table of all of them."""

    @property
    def known(self) -> set[bytes]:
        """Digests of the contents that are stored, or will be before the next queued append."""
        return self.bodies.known

    def list_held(self) -> list[bytes]:
        """The bodies in memory."""
        return [*self.bodies.list_held(), *self.histories.list_held()]

    def load(self, recorded: Sequence[Recorded[Event]]) -> None:
        """Load all recorded events. Raises LogFailed if they are inconsistent."""
        for each in recorded:
            self._learn(each.envelope.event)
        folded = loading.fold(recorded, self.state)
        self.state = loading.with_bodies(folded, str(self.identity.stream), recorded)

    def apart(self) -> "Loaded":
        """A copy of the session in which to try a message. Changes to it leave this one unchanged."""
        other = copy(self)
        other.bodies = self.bodies.apart()
        other.histories, other._replies = Histories(other.bodies), Replies(other.bodies)
        other._drop_pending()
        return other

    def preview(self, events: Sequence[Event]) -> Session:
        """The state after decided events that are not applied yet. Applying them later reuses this result."""
        if self._seen_from is not self.state:
            self._drop_pending()
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(events, self._foreseen, strict=False)))
        states = [kept for kept in self._foreseen_states if kept[0] <= shared]
        count, state = states[-1]
        state = evolve_all(state, events[count:])
        self._foreseen, self._foreseen_states = tuple(events), [*states, (len(events), state)]
        return state

    def _drop_pending(self) -> None:
        self._seen_from, self._foreseen, self._foreseen_states = self.state, (), [(0, self.state)]

    def note(self, event: Event) -> None:
        """Apply an event to the state."""
        self.state = evolve(self.state, event)
        self._learn(event)

    async def note_all(self, events: Sequence[Event]) -> None:
        """Apply several events to the state, in a thread if they are many."""
        is_long = len(events) >= MANY or _count_places(self.state, events) >= MANY_PLACES
        self.state = await run_in_thread(lambda: self.preview(events), in_thread=is_long)
        self._drop_pending()
        for event in events:
            self._learn(event)

    def _learn(self, event: Event) -> None:
        """Record which contents exist after this event."""
        match event:
            case SessionForgotten():
                self.bodies.forget()
                self.histories.forget()
            case _:
                self.known.update(time_travel.digests_of(event))

    def hold(self, began: TurnBegan, read: Transcript, credential: bytes | None) -> None:
        """Keep the body of the turn that has just begun, and the credential that it was sent with. A client that
        repeats an earlier turn is not known by that.
        """
        if began.relation is not TurnRelation.REPEATS:
            self._known_credentials.note(self.identity.stream, began.branch, credential)
        branch = self.state.branches[began.branch]
        if began.turn == branch.turns:  # false for a repeated earlier turn
            self.bodies.hold(branch, read)

    async def read_turn(self, request: ArrivedRequest, gap: Gap | None = None) -> tuple[BeginTurn, TranscriptReading]:
        """The command for a request, and the reading of its body."""
        client_headers = request.client_headers
        conversation = await self._find_conversation(request)
        related = [
            branch
            for branch in self.state.branches.values()
            if branch.conversation in (conversation, side_of(conversation))
        ]
        base, previous = await self.bodies.nearest(related, request.raw)
        known, replies = self.known, self.bodies.replies

        alone = (
            await request.read() if previous is None and not replies and conversation == request.conversation else None
        )

        def read() -> tuple[TranscriptReading, RequestOrigin]:
            if alone is None:
                found = transcript.read(request.raw, previous, conversation=conversation, known=known, replies=replies)
            else:
                found = alone.without(known)
            return found, request.identify(found.transcript)

        reading, origin = await run_in_thread(read, in_thread=is_much(request.raw, previous))
        chains = self._chains(reading.transcript, base, previous)
        return await self._command(request, client_headers, origin, reading, chains, base, gap), reading

    async def _find_conversation(self, request: ArrivedRequest) -> str:
        """The conversation of a request: its agent's own, or the parent's if the agent is a fork. Clients name no
        parent, so a fork is recognized by its first request, which contains its parent's history: the model's replies
        in it distinguish two agents that began with the same prompt.
        """
        own, branches = request.conversation, self.state.branches.values()
        known = next((branch.conversation for branch in branches if branch.header_conversation == own), None)
        if known is not None or request.client_headers.agent_id is None or b'"assistant"' not in request.raw:
            return known or own
        read = (await request.read()).transcript
        spoken = [
            branch
            for branch in branches
            if not is_side(branch.conversation)
            and dialect_of(branch.conversation) is request.dialect
            and not self._known_credentials.is_stranger(self.identity.stream, branch.name, request.credential)
        ]
        chains = {
            conversation: _shorten(read.chains_in(conversation))
            for conversation in {branch.conversation for branch in spoken}
        }
        shared = {branch.name: branch.count_shared(chains[branch.conversation]) for branch in spoken}
        for branch in sorted(spoken, key=lambda each: (shared[each.name], each.body_version), reverse=True):
            if await self._shares_reply(branch, shared[branch.name], read):
                return branch.conversation
        return own

    async def _shares_reply(self, branch: Branch, shared: int, read: Transcript) -> bool:
        """Whether a history that shares ``shared`` messages with a branch contains a reply of the model from there."""
        if not shared or shared > branch.counts[0]:
            return shared > 0  # anything longer than its first request includes the first reply
        if shared == len(branch.chains):
            return self._is_running(branch) or await self._replies.are_words_shown(branch, read)
        last = await self.bodies.find_last(branch)
        shown = transcript.content_of(last, shared) if last is not None else []
        return normal_form.share_words(transcript.content_of(read, shared), shown)

    async def recognize(self, request: ArrivedRequest) -> Recognized:
        """How closely a request matches this session. Many conversations begin with the same user messages; a shared
        reply of the model distinguishes them.
        """
        command, reading = await self.read_turn(request)
        nearest = nearest_branch(self.state, command.origin.conversation, command.chains, command.client_headers)
        if nearest is None:
            return Recognized()
        branch, shared = nearest
        is_at_end = shared == len(branch.chains)
        is_exact = is_at_end and (await self._replies.find_echo(branch, reading.transcript))[1] is not None
        is_shown = is_exact or (is_at_end and await self._replies.are_words_shown(branch, reading.transcript))
        if len(command.chains) == shared:
            goes_on = is_at_end and not (self._is_running(branch) or await self._replies.are_whole(branch))
        else:
            goes_on = is_shown or (is_at_end and not branch.replies)
        return Recognized(
            is_ours=is_shown
            or shared > branch.counts[0],  # anything longer than its first request includes the first reply
            is_exact=is_exact,
            goes_on=goes_on,
            is_same_caller=request.credential is None
            or self._known_credentials.is_known(self.identity.stream, branch.name, request.credential),
            shared=shared,
            awaits_reply=len(command.chains) > shared and is_at_end and self._is_running(branch),
        )

    def _is_running(self, branch: Branch) -> bool:
        """Whether an attempt at the last turn of a branch is still running."""
        return any((each.branch, each.turn) == (branch.name, branch.turns) for each in self.state.running)

    def _chains(self, read: Transcript, base: str | None, previous: Transcript | None) -> tuple[bytes, ...]:
        """The chain hashes of the messages, reusing those shared with the last body of ``base``."""
        shared = read.count_shared(previous) if previous is not None else 0
        known = self.state.branches[base].chains[:shared] if base is not None else ()
        return known + _shorten(each.chain for each in read.messages[len(known) :])

    async def _command(
        self,
        request: ArrivedRequest,
        client_headers: ClientHeaders,
        origin: RequestOrigin,
        reading: TranscriptReading,
        chains: tuple[bytes, ...],
        base: str | None,
        gap: Gap | None,
    ) -> BeginTurn:
        read = reading.transcript
        client_headers = _storable(client_headers)
        echo, echoed_attempt = await self._echo(origin.conversation, chains, client_headers, read)
        return BeginTurn(
            at=request.at,
            tenant=self.identity.tenant,
            external_id=self.identity.external_id,
            salt=self.state.salt or self._new_salt(),
            client_headers=client_headers,
            origin=origin,
            chains=chains,
            base=base,
            body=recipe.encode(reading.change),
            size=len(request.raw),
            sha256=read.sha256,
            stored_sha256=read.stored_sha256 if read.stored_sha256 != read.sha256 else None,
            model=sanitize.optional_text(read.fields.model),
            stream=read.fields.stream,
            echo=echo,
            echoed_attempt=echoed_attempt,
            opaque=read.opaque,
            gap=gap,
            known=await self._find_known(request.credential, origin, read),
            submitted=request.find_submitted(read) if origin.may_be_of_user else None,
            uses=read_uses(request.headers),
        )

    async def _find_known(
        self, credential: bytes | None, origin: RequestOrigin, read: Transcript
    ) -> frozenset[str] | None:
        """The branches that a client which begins with a summary is known to know: those where it used the same
        credential, and those whose recorded summary its request contains.
        """
        if credential is None or origin.kind is not RequestKind.SUCCESSOR:
            return None
        branches = self.state.branches
        known = {name for name in branches if self._known_credentials.is_known(self.identity.stream, name, credential)}
        for each in branches.values():
            parent = branches.get(each.parent or "")
            if parent is not None and parent.name not in known and succession.sums_up(each, parent):
                replies = [await self._replies.text_of(reply, read.dialect) for reply in each.replies.values()]
                if any(succession.carries(read, text) for text in replies):
                    known.add(parent.name)
        return frozenset(known)

    async def _echo(
        self, conversation: str, chains: tuple[bytes, ...], client_headers: ClientHeaders, read: Transcript
    ) -> tuple[Echo | None, int | None]:
        nearest = nearest_branch(self.state, conversation, chains, client_headers)
        if nearest is None or not len(nearest[0].chains) == nearest[1] < len(chains):
            return None, None  # the request does not continue that branch
        return await self._replies.find_echo(nearest[0], read)


def _shorten(chains: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(chain[:CHAIN_BYTES] for chain in chains)


def _storable(client_headers: ClientHeaders) -> ClientHeaders:
    return attrs.evolve(
        client_headers,
        external_id=sanitize.optional_text(client_headers.external_id),
        parent_external_id=sanitize.optional_text(client_headers.parent_external_id),
        agent_id=sanitize.optional_text(client_headers.agent_id),
        parent_agent_id=sanitize.optional_text(client_headers.parent_agent_id),
        betas=client_headers.betas and tuple(map(sanitize.text, client_headers.betas)),
    )


def _count_places(session: Session, events: Sequence[Event]) -> int:
    """An upper bound on the number of blocks that these events make the fold check for membership in an object."""
    held = max((len(shown.known.owned) for shown in session.memory.branches.values()), default=0)
    return held + sum(len(event.places) for event in events if isinstance(event, ObjectCreated))
