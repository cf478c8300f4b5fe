"""A turn whose rounds the proxy composes, in its current state: everything that its next round is made of."""

from collections.abc import Iterable, Mapping

import attrs

from mnemosyne.actors.bodies import Prior, round_of
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import epochs, upstream_history
from mnemosyne.domain.window.refusals import Refusal, refusal_of
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.transcript import Transcript

MOST_ROUNDS = 12
"""Maximum number of rounds per turn. A model that still calls only memory tools in the last one will not stop on its
own.
"""


@attrs.frozen(kw_only=True)
class ManagedTurn:
    """A turn whose rounds the proxy composes. ``read`` is the client's request, ``history`` the messages sent for it,
    ``round`` the number of the round that is sent next or was sent last, and ``refused`` the number of earlier rounds
    that the provider refused. ``prior`` is the state sent before this turn; None if there is none. ``by_prefix`` says
    that the provider caches by prefix and not by markers. ``happens`` are the events to record when the next round is
    sent, and ``contents`` are theirs. ``compared_with`` is the reply whose request the provider compares with the first
    round, empty if there is none; None if it is not asked. ``moves``: the memory tools behind the cached head were
    refused, so they stay at the head if this round is accepted.
    """

    read: Transcript = attrs.field(repr=False)
    history: UpstreamHistory = attrs.field(repr=False)
    mode: Mode = Mode.MANAGE
    hour: bool = False
    tool_budget: int | None = None
    by_prefix: bool
    prior: Prior | None = None
    compared_with: str | None = None
    round: int = 1
    refused: int = 0
    moves: bool = False
    happens: tuple[Event, ...] = ()
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)

    def body(self, attempt: int) -> bytes:
        """The client's request with the messages of this round. If the turn is managed and its history does not add
        the memory tools, they follow the client's own.
        """
        at_head = self.mode is Mode.MANAGE and not upstream_history.offers(self.history)
        tools = memory_tools.tools_json(self.read.dialect) if at_head else ()
        messages = self.history.next_round(attempt, memory_tools.NAMES)
        return upstream_history.body(
            self.read,
            self.history,
            tools,
            messages,
            hour=self.hour,
            tool_budget=self.tool_budget,
            by_prefix=self.by_prefix,
            compared_with=self._find_compared(attempt),
        )

    def _find_compared(self, attempt: int) -> str | None:
        """The reply with whose request the provider compares this round: the previous round's, if it has one."""
        if self.compared_with is None:
            return None
        return find_last_reply(self.history.replies.get(attempt, ())) or self.compared_with

    def add_reply(self, attempt: int, reply: bytes, results: Mapping[str, bytes]) -> "ManagedTurn":
        """The turn after a round of an attempt got its reply and the results of the reply's hidden calls."""
        return attrs.evolve(self, history=self.history.add_round(attempt, round_of(reply, self.read.dialect, results)))

    def results(self, attempt: int) -> Mapping[str, bytes]:
        """The results of the hidden calls in an attempt's last round: each as JSON, by the id of its call."""
        return self.history.replies[attempt][-1].results

    def find_refusal(self, error: bytes, status: int = 400) -> Refusal | None:
        """The cause of an error for this round; None if no other request can replace it."""
        offer = upstream_history.find_offer(self.history)
        joins = offer is not None and (self.prior is None or not upstream_history.offers(self.prior.history))
        return refusal_of(error, self.read.tools, self.read.dialect, offer, status=status, joins=joins)

    def may_lack(self, refused: Refusal) -> bool:
        """Whether all earlier rounds of its attempt were refused, and this one holds the refused part. A prompt that is
        too long needs a new plan instead.
        """
        if not self.is_first:
            return False
        match refused:
            case Refusal.TOOLS:
                return self.refused == 0 or self.mode is Mode.MANAGE
            case Refusal.THINKING:
                return upstream_history.holds_thinking(self.history)
            case Refusal.TOOLS_BEHIND:
                return upstream_history.offers(self.history)
            case Refusal.VERDICT:
                return self.compared_with is not None
            case Refusal.LENGTH:
                return False

    def without(self, refused: Refusal) -> "ManagedTurn":
        """The turn with another round: the same request without the question for a verdict, with the memory tools at
        its head, the same messages without thinking, or the client's own request, as in a branch that is no longer
        managed.
        """
        turn = attrs.evolve(self.next, refused=self.refused + 1)
        if refused is Refusal.TOOLS_BEHIND:
            return attrs.evolve(turn, history=upstream_history.without_tools(self.history), compared_with=None)
        if refused is Refusal.VERDICT:
            return attrs.evolve(turn, compared_with=None)
        if refused is Refusal.THINKING:
            return attrs.evolve(turn, history=upstream_history.strip(self.history))
        keeps_thinking = not epochs.may_drop_thinking(self.read)
        history = upstream_history.begin(self.read, epoch=self.history.epoch + 1, keep_thinking=keeps_thinking)
        return attrs.evolve(turn, history=history, mode=Mode.BYPASS, hour=False, tool_budget=None, compared_with=None)

    @property
    def is_first(self) -> bool:
        """Whether the provider accepted no earlier round of its attempt."""
        return self.round == 1 + self.refused

    @property
    def next(self) -> "ManagedTurn":
        return attrs.evolve(self, round=self.round + 1, happens=(), contents=())


def find_last_reply(rounds: Iterable[Round]) -> str:
    """The provider's id of the last of these replies; empty if none has an id."""
    ids = [id_ for each in rounds if isinstance(id_ := each.native.get("id"), str)]
    return ids[-1] if ids else ""


def find_compared(read: Transcript, prior: Prior | None) -> str | None:
    """``ManagedTurn.compared_with`` for a request that continues ``prior``, if its provider is asked: the last reply,
    or the one that the last request named if that got no reply.
    """
    named = ""
    if prior is not None:
        replies = prior.history.replies
        last = find_last_reply(round_ for attempt in sorted(replies) for round_ in replies[attempt])
        named = last or find_named(prior) or ""
    comparison = read.dialect.comparison
    return named if comparison is not None and (named or comparison.asks_first) else None


def find_named(prior: Prior) -> str | None:
    """The reply that the last request named for a comparison, empty for none; None if it did not ask for one."""
    comparison = prior.sent.dialect.comparison
    return comparison.find_named(prior.sent.member) if comparison is not None else None
