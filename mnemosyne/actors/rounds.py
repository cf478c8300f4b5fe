"""A managed turn under way: the bodies of its rounds, and what is recorded of them."""

from collections.abc import Sequence, Set

import attrs

from mnemosyne.actors.answering import Answers
from mnemosyne.actors.appending import Contents
from mnemosyne.actors.round_messages import RoundEnd
from mnemosyne.actors.wires import Wire, blocks_of
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.round_events import Answered, Mode, RoundFinished
from mnemosyne.domain.session.state import Address
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.upstream_history import Round
from mnemosyne.domain.wire import stored_reply
from mnemosyne.domain.wire.transcript import Transcript


@attrs.define
class TurnUnderWay:
    """``read`` is the client's request, ``wire`` what was sent for it so far."""

    read: Transcript
    wire: Wire
    mode: Mode
    hour: bool
    tool_budget: int | None
    round: int = 1

    def body(self, messages: Sequence[bytes]) -> bytes:
        """The client's request with these messages, and with our tools if it is managed."""
        tools = memory_tools.TOOLS_JSON if self.mode is Mode.MANAGE else ()
        return upstream_history.body(
            self.read, self.wire.history, tools, messages, hour=self.hour, tool_budget=self.tool_budget
        )

    def finished(
        self, address: Address, end: RoundEnd, answers: Answers, known: Set[bytes], at: int
    ) -> tuple[RoundFinished, Contents]:
        """The event that its round finished, and the contents that are not ``known``; the wire history has the round
        from here on.
        """
        reply, contents = stored_reply.store(end.reply.body, known)
        answered: list[Answered] = []
        for call, result in answers.results.items():
            stored, more = stored_reply.store(result, known)
            answered.append(Answered(call=sanitize.text(call), result=stored))
            contents += more
        event = RoundFinished(
            at=at,
            branch=address.branch,
            turn=address.turn,
            attempt=address.attempt,
            round=self.round,
            reply=reply,
            model=sanitize.optional_text(end.reply.model),
            stop_reason=sanitize.optional_text(end.reply.stop_reason),
            usage=sanitize.facts(end.reply.usage),
            answers=tuple(answered),
        )
        round_ = Round(blocks_of(end.reply.body), answers.results)
        self.wire.history = self.wire.history.replied(address.attempt, round_)
        return event, contents
