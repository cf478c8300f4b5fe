"""Items of a conversation share the price of their turn, and are cached where the provider read that far."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from mnemosyne.domain.history.context_view import ContextBlock
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.services.context_map import MapObject, Span
from mnemosyne.services.conversation_view import ConversationItem, ConversationTurn, list_changes, price_items
from mnemosyne.services.turn_prices import prices_of
from tests.not_none import not_none
from tests.services.test_turn_prices import row


def item(kind: str, turn: int, tokens: int) -> ConversationItem:
    """An item of a turn, without its price."""
    role = "assistant" if kind in ("reply", "call") else "user"
    block = ContextBlock(
        section="messages",
        role=role,
        kind="text",
        size=1,
        tokens=tokens,
        marker=None,
        preview="",
        digest=b"",
        span=(0, 1),
    )
    return ConversationItem(number=0, turn=turn, kind=kind, tool=None, block=block, address="block/0")


def turn(number: int, tokens: int, read: int, **counts: Any) -> ConversationTurn:
    """A turn with a prompt of this size, of which ``read`` came from the cache."""
    price = prices_of([row(number, read=read, **counts)])["main", number, 1]
    return ConversationTurn(began_at=0, tokens=tokens, read=read, price=price, compacted=False, branches={})


def test_replies_share_the_price_of_the_output_and_new_items_cost_the_average_of_what_was_not_cached() -> None:
    turns: Mapping[int, ConversationTurn] = {1: turn(1, 1_000, 0, write_5m=1_000, output=100)}
    prompt, reply, call = price_items([item("prompt", 1, 40), item("reply", 1, 30), item("call", 1, 10)], turns, {})
    price = not_none(turns[1].price)
    assert prompt.nanodollars == pytest.approx(price.parts["write_5m"] * 40 / 1_000)
    assert reply.nanodollars == pytest.approx(price.parts["output"] * 0.75)
    assert call.nanodollars == pytest.approx(price.parts["output"] * 0.25)
    assert (prompt.cached, reply.cached) == (False, None)


def test_item_is_cached_if_the_provider_read_the_prompt_up_to_its_end() -> None:
    turns = {2: turn(2, 1_000, 900, input=100)}
    items = [item("result", 2, 50), item("result", 2, 100)]
    assert [each.cached for each in price_items(items, turns, {})] == [True, False]


def test_item_of_a_turn_without_usage_or_price_has_neither_state_nor_price() -> None:
    known = turn(1, 1_000, 0, input=1_000)
    for one in (attrs.evolve(known, tokens=None, read=None), attrs.evolve(known, price=None)):
        assert price_items([item("prompt", 1, 40)], {1: one}, {})[0].nanodollars is None


def test_change_of_an_object_is_a_change_of_its_fidelity_and_not_of_its_place() -> None:
    known = MapObject(id="one", kind="file_context", turn=1, tokens=9, version=1)
    levels = [Fidelity.EVICTED, Fidelity.EVICTED, Fidelity.FULL, Fidelity.FULL, Fidelity.STUB]
    spans = [
        Span(object=known, first=turn, last=turn, fidelity=fidelity, tokens=9, place=(turn, 0))
        for turn, fidelity in enumerate(levels, 1)
    ]
    assert [span.first for span in list_changes(spans)["one"]] == [1, 3, 5]
    assert list_changes([attrs.evolve(spans[2], first=1)]) == {}
