"""A turn whose rounds are ours, as far as it has got: all that its next round is made of."""

from collections.abc import Mapping

import attrs

from mnemosyne.actors.bodies import Prior, round_of
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import epochs, upstream_history
from mnemosyne.domain.window.refusals import Refusal
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.transcript import Transcript

MOST_ROUNDS = 12
"""Rounds of one turn. A model that still calls memory tools alone in the last of them will not stop by itself."""


@attrs.frozen(kw_only=True)
class ManagedTurn:
    """A turn whose rounds are ours. ``read`` is the client's request, ``history`` what is sent for it, ``round`` the
    number of the one that is to be sent or was sent last. ``prior`` is what was sent before it; None if nothing was.
    ``by_prefix`` says that the provider knows a prompt by how it begins, and by no marker. ``happens`` is what happens
    as the next round leaves, and ``contents`` what these events name.
    """

    read: Transcript = attrs.field(repr=False)
    history: UpstreamHistory = attrs.field(repr=False)
    mode: Mode
    hour: bool
    tool_budget: int | None
    by_prefix: bool
    prior: Prior | None
    round: int = 1
    happens: tuple[Event, ...] = ()
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)

    def body(self, attempt: int) -> bytes:
        """The client's request with the messages of this round, and with our tools if it is managed."""
        tools = memory_tools.tools_json(self.read.dialect) if self.mode is Mode.MANAGE else ()
        messages = self.history.next_round(attempt, memory_tools.NAMES)
        return upstream_history.body(
            self.read,
            self.history,
            tools,
            messages,
            hour=self.hour,
            tool_budget=self.tool_budget,
            by_prefix=self.by_prefix,
        )

    def add_reply(self, attempt: int, reply: bytes, results: Mapping[str, bytes]) -> "ManagedTurn":
        """The turn once a round of an attempt has its reply, and the hidden calls in that their results."""
        return attrs.evolve(self, history=self.history.add_round(attempt, round_of(reply, self.read.dialect, results)))

    def results(self, attempt: int) -> Mapping[str, bytes]:
        """What the hidden calls of an attempt's last round got: the JSON of each result by the id of its call."""
        return self.history.replies[attempt][-1].results

    def may_lack(self, refused: Refusal) -> bool:
        """Whether what the provider refused is in this round, the first of its attempt, and can be left out. What is
        too long needs a plan instead.
        """
        match refused:
            case Refusal.TOOLS:
                return self.round == 1
            case Refusal.THINKING:
                return self.round == 1 and upstream_history.holds_thinking(self.history)
            case Refusal.LENGTH:
                return False

    def without(self, refused: Refusal) -> "ManagedTurn":
        """The turn with another round: of the same words, in which all thinking is left out; or of the client's own, as
        in a branch that is managed no longer.
        """
        if refused is Refusal.THINKING:
            return attrs.evolve(self.next, history=upstream_history.strip(self.history))
        client = [self.read.message_bytes(number) for number in range(len(self.read.messages))]
        keeps_thinking = not epochs.may_drop_thinking(self.read)
        history = upstream_history.first(
            client, epoch=self.history.epoch + 1, keep_thinking=keeps_thinking, dialect=self.read.dialect
        )
        return attrs.evolve(self.next, history=history, mode=Mode.BYPASS, hour=False, tool_budget=None)

    @property
    def next(self) -> "ManagedTurn":
        """The turn with another round."""
        return attrs.evolve(self, round=self.round + 1, happens=(), contents=())
