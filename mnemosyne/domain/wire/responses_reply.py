"""Read a reply of the Responses API from its events or from its whole body."""

from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.domain.wire.chat_reply import error_type_of, usage_of, with_tier
from mnemosyne.domain.wire.places import BlockPlaces, in_order, index_of
from mnemosyne.domain.wire.reply import Reply, ReplyReader, text_or_none
from mnemosyne.domain.wire.responses_items import CALLS, items_of

ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
"""Events that clients take as the end of a reply."""

_WHOLE = ("completed", "incomplete")
CALLED = "tool_calls"
"""The recorded stop reason of a completed response that waits for the results of calls, as in Chat Completions."""
_PIECES = {
    "response.output_text.delta": ("content", "text"),
    "response.refusal.delta": ("content", "refusal"),
    "response.reasoning_summary_text.delta": ("summary", "text"),
    "response.reasoning_text.delta": ("content", "text"),
    "response.function_call_arguments.delta": (None, "arguments"),
    "response.custom_tool_call_input.delta": (None, "input"),
}
"""Where a delta's text belongs in an unfinished item: the list of parts (None for the item itself) and the member."""

_Place = tuple[int, str | None, int, str]


_OF_ITEMS = frozenset(
    {"item", "item_id", "output_index", "content_index", "summary_index", "part", "delta", "text", "arguments"}
)
"""Members that show that an event belongs to an output item, even if its server omits the index."""


class ItemPlaces:
    """Finds which output item each event of a stream belongs to."""

    def __init__(self) -> None:
        self._places = BlockPlaces()
        self._last_key: tuple[object, ...] | None = None
        """The key of the previous event, unless it began or ended an item: the next event nearly always has the same.
        """
        self._last: int | None = None

    def take(self, event: Mapping[str, Any]) -> int | None:
        """Return the number of an event's item, counted from 0 as items begin; None if the event belongs to no item."""
        key = (event.get("type"), event.get("output_index"), event.get("item_id"))
        if key == self._last_key and "delta" in event and "item" not in event:
            return self._last
        self._last_key = None
        if _OF_ITEMS.isdisjoint(event):
            return None
        index, item = index_of(event.get("output_index")), event.get("item")
        ids = (item.get("id"), item.get("call_id")) if isinstance(item, dict) else (event.get("item_id"),)
        match event.get("type"):
            case "response.output_item.added":
                return self._places.begin(index, *ids)
            case "response.output_item.done":
                return self._places.end(index, *ids)
            case _:
                place = self._places.find(index, *ids)
                self._last = self._places.begin(index, *ids) if place is None else place
                is_plain = item is None and type(key[1]) is int and isinstance(key[2], str)
                self._last_key = key if is_plain else None
                return self._last

    def in_order(self) -> list[int]:
        return in_order(self._places.indices)


class ResponsesReply(ReplyReader):
    """Collects one reply: the response from its last event, and the items as they are done."""

    def __init__(self) -> None:
        super().__init__(describe)
        self._response: dict[str, Any] = {}
        self._places = ItemPlaces()
        self._items: dict[int, dict[str, Any]] = {}
        self._pieces: dict[_Place, list[str]] = {}
        self._error: object = None

    def take(self, event: dict[str, Any]) -> None:
        """Add one decoded event of the stream."""
        kind, number = text_or_none(event.get("type")), self._places.take(event)
        if isinstance(event.get("response"), dict):
            self._response = event["response"]
        elif kind == "error":
            self._error = event.get("error") or {key: value for key, value in event.items() if key != "type"}
        elif number is None:
            return
        elif kind in ("response.output_item.added", "response.output_item.done") and isinstance(
            event.get("item"), dict
        ):
            self._items[number] = event["item"]
            if kind == "response.output_item.done":
                self._pieces = {place: pieces for place, pieces in self._pieces.items() if place[0] != number}
        elif kind in _PIECES and isinstance(event.get("delta"), str):
            held, name = _PIECES[kind]
            part = _number(event, "summary_index" if held == "summary" else "content_index")
            self._pieces.setdefault((number, held, part, name), []).append(event["delta"])

    def _join_events(self) -> dict[str, Any]:
        output = self._response.get("output")
        items = output if isinstance(output, list) and output else list(self._list_items())
        message = {**self._response, "output": items} if self._response or items else {}
        return {**message, "error": self._error} if self._error is not None else message

    def _is_complete(self, message: Mapping[str, Any]) -> bool:
        return message.get("status") in _WHOLE

    def _list_items(self) -> Iterable[dict[str, Any]]:
        """Yield the items; unfinished ones with the text received so far."""
        filled = {*self._items, *(place[0] for place in self._pieces)}
        for number in filter(filled.__contains__, self._places.in_order()):
            item = dict(self._items.get(number, {}))
            for (where, held, _, name), pieces in sorted(self._pieces.items(), key=lambda entry: entry[0][::2]):
                if where != number:
                    continue
                text = "".join(pieces)
                if held is None:
                    item[name] = text
                else:
                    kind = {"summary": "summary_text"}.get(held, "refusal" if name == "refusal" else "output_text")
                    before = item.get(held)
                    item[held] = [*(before if isinstance(before, list) else ()), {"type": kind, name: text}]
            yield item


def describe(message: Mapping[str, Any], body: bytes, *, complete: bool) -> Reply:
    why = message.get("incomplete_details")
    reason = text_or_none(why.get("reason")) if isinstance(why, dict) else None
    status = text_or_none(message.get("status"))
    if status == "completed" and any(str(each.get("type")) in CALLS for each in items_of(message)):
        status = CALLED
    return Reply(
        body=body,
        complete=complete,
        message_id=text_or_none(message.get("id")),
        model=text_or_none(message.get("model")),
        stop_reason=reason or status,
        usage=with_tier(usage_of(message.get("usage")), message),
        error_type=error_type_of(message.get("error")),
    )


def _number(event: dict[str, Any], name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else 0
