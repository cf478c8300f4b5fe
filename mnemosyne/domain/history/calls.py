"""The tool calls of a conversation in order, each with its result."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import attrs

from mnemosyne.domain.segmentation import outcomes
from mnemosyne.domain.segmentation.exchanges import exchange_of
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.wire.blocks import Block, call_id_of, has_results, is_any_result, is_call


@attrs.frozen(kw_only=True)
class AnsweredCall:
    """A call and its result. ``turn`` is the turn whose request contained the result, ``said`` the result's text.
    ``failed`` is true if the client marked it as an error, ``refused`` if the user denied the call. ``exchange`` is the
    number of messages that the user had typed until then.
    """

    turn: int
    id: str
    tool: str
    given: Mapping[str, Any]
    said: str = attrs.field(repr=False)
    failed: bool = False
    refused: bool = False
    exchange: int = 0


def read_calls(messages: Iterable[SeenMessage], known: Collection[str] = ()) -> Iterator[AnsweredCall]:
    """The answered calls of a history in the order of their results. A repeated id is one call; calls with a ``known``
    id are skipped.
    """
    asked: dict[str, Block] = {}
    seen = set(known)
    exchange = 0
    for message in messages:
        exchange += message.role == "user" and not has_results(message.content)
        for block in message.content:
            call_id = str(call_id_of(block))
            if is_call(block):
                asked[str(block.get("id"))] = block
            elif is_any_result(block) and call_id in asked and call_id not in seen:
                seen.add(call_id)
                yield _read_call(message.turn, call_id, asked.pop(call_id), block, exchange)


def _read_call(turn: int, call_id: str, call: Block, result: Block, exchange: int) -> AnsweredCall:
    found = exchange_of(call, [result])
    return AnsweredCall(
        turn=turn,
        id=call_id,
        tool=found.name,
        given=found.input,
        said=found.answer,
        failed=found.failed,
        refused=outcomes.was_refused_by_user(found.answer),
        exchange=exchange,
    )
