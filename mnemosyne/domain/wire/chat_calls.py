"""The calls of a completion, put together from the pieces in its chunks.

A piece names its call by ``index``, by ``id``, or by neither, and some servers name it wrongly (``places``). A piece
begins another call where it cannot go on with the one that it seems to name: it has another id, or another name, or the
arguments of that call are already whole.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.wire.places import in_order, index_of
from mnemosyne.domain.wire.reply import as_json

_WRITTEN = {"function": "arguments", "custom": "input"}
"""What of a call the model writes, by the call's kind; it comes in pieces."""

_MARK = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


@attrs.define
class JsonText:
    """JSON that comes in pieces of text: whether its first object or array is whole. Each character is read once."""

    begun: bool = False
    _unread: list[str] = attrs.field(factory=list)
    _is_whole: bool = False
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False

    def feed(self, text: str) -> None:
        """Take the next piece; it is read when ``is_whole`` is asked for."""
        self.begun = self.begun or bool(text.strip())
        self._unread.append(text)

    @property
    def is_whole(self) -> bool:
        text, self._unread = "".join(self._unread), []
        if self._is_whole or not text:
            return self._is_whole
        start, self._escaped = int(self._escaped), False
        for found in _MARK.finditer(text, start):
            mark = found.group()
            if mark == '"':
                self._in_string = not self._in_string
            elif mark[0] == "\\":
                self._escaped = self._in_string and len(mark) == 1
            elif not self._in_string:
                self._depth += 1 if mark in "{[" else -1
                self._is_whole = self._is_whole or self._depth == 0
        return self._is_whole


@attrs.define(eq=False)
class Call:
    """One call of a tool and the pieces that fill it."""

    number: int
    """Its place among the calls, from 0, as they began."""
    index: int | None
    id: object = None
    name: str = ""
    written: JsonText = attrs.field(factory=JsonText)
    named_again: bool = False
    """Whether its name came once more when it was whole: as a repetition, or as another call of the same tool."""
    _call: dict[str, Any] = attrs.field(factory=dict)
    _called: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    _pieces: dict[str, list[str]] = attrs.field(factory=dict)

    def add(self, piece: "_Piece") -> None:
        """Go on with a piece."""
        self.named_again = self.named_again or (piece.name == self.name != "" and self.written.is_whole)
        self.id = piece.id if self.id is None else self.id
        self.name = _join_names(self.name, piece.name)
        self.written.feed(piece.written)
        for key, value in piece.raw.items():
            if key in _WRITTEN and isinstance(value, Mapping):
                self._add_called(key, value, piece.written)
            elif key not in ("index", "id") and value:
                self._call[key] = value

    def _add_called(self, kind: str, delta: Mapping[str, Any], written: str) -> None:
        called = self._called.setdefault(kind, {})
        self._pieces.setdefault(kind, []).append(written)
        called |= {key: value for key, value in delta.items() if key != _WRITTEN[kind] and value}

    def append(self, arguments: str) -> bool:
        """Go on with arguments alone; False where it is no call of a function yet."""
        pieces = self._pieces.get("function")
        if pieces is None:
            return False
        self.written.feed(arguments)
        pieces.append(arguments)
        return True

    def begins_another(self, piece: "_Piece") -> bool:
        """Whether a piece that seems to go on with this call begins another."""
        if piece.id is not None and self.id is not None and piece.id != self.id:
            # Some servers make a new id for each piece: then what it brings is the rest of the arguments.
            return bool(piece.name) or not piece.written or self.written.is_whole
        is_named_again = self.named_again or piece.name == self.name
        if is_named_again and piece.written.strip() and self.written.is_whole:
            return True
        if piece.name == self.name or not piece.name or not self.name:
            return False
        is_rest_of_name = not self.written.begun and not piece.written
        return not is_rest_of_name and not (piece.name.startswith(self.name) and not self.written.begun)

    def content(self) -> dict[str, Any]:
        """The call as a completion that is no stream would hold it."""
        named = {} if self.id is None else {"id": self.id}
        called = {
            kind: {**said, **({"name": self.name} if self.name else {}), _WRITTEN[kind]: "".join(self._pieces[kind])}
            for kind, said in self._called.items()
        }
        return {**self._call, **named, **called}


@attrs.frozen
class _Piece:
    raw: Mapping[str, Any]
    index: int | None
    id: object
    name: str
    written: str


def _read(raw: Mapping[str, Any]) -> _Piece:
    kind = next((kind for kind in _WRITTEN if isinstance(raw.get(kind), Mapping)), None)
    called: Mapping[str, Any] = raw[kind] if kind is not None else {}
    name, identity = called.get("name"), raw.get("id")
    written = called.get(_WRITTEN[kind]) if kind is not None else None
    if isinstance(written, Mapping):
        written = as_json(written).decode()  # arguments that are no text yet
    return _Piece(
        raw,
        index_of(raw.get("index")),
        identity if isinstance(identity, str | int | float) and identity != "" else None,
        name if isinstance(name, str) else "",
        written if isinstance(written, str) else "",
    )


def _join_names(begun: str, more: str) -> str:
    """A name that may come in pieces, or be said again."""
    return more if more.startswith(begun) else begun if begun.startswith(more) else begun + more


class Calls:
    """The calls of one choice."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._by_id: dict[tuple[int | None, object], Call] = {}
        self._last_at: dict[int, Call] = {}
        self._last: Call | None = None

    def take(self, deltas: Sequence[object]) -> list[Call | None]:
        """Take the pieces of calls in a delta; the call that each belongs to, None for what is none."""
        going_on = self._go_on(deltas[0]) if len(deltas) == 1 else None
        if going_on is not None:
            return [going_on]
        pieces = [_read(each) if isinstance(each, Mapping) else None for each in deltas]
        bare = sum(1 for each in pieces if each is not None and each.index is None and each.id is None)
        unnamed: list[Call | None] = list(self._calls[-bare:]) if bare > 1 else [self._last]
        unnamed[:0] = [None] * (bare - len(unnamed))
        taken: list[Call | None] = []
        for piece in pieces:
            if piece is None:
                taken.append(None)
                continue
            is_bare = piece.index is None and piece.id is None
            call = unnamed.pop(0) if is_bare else self._find(piece)
            if call is None or call.begins_another(piece):
                again = call.name if call is not None and call.named_again and not piece.name else ""
                call = Call(len(self._calls), piece.index, name=again)
                self._calls.append(call)
            call.add(piece)
            self._touch(call, piece.index)
            taken.append(call)
        return taken

    def _go_on(self, delta: object) -> Call | None:
        """The call of the piece before, where this one is no more than its next arguments: nearly all are."""
        call, named = self._last, {"index", "function"}
        if call is None or call.named_again or not isinstance(delta, dict) or delta.keys() != named:
            return None
        called = delta["function"]
        if type(delta["index"]) is not int or delta["index"] != call.index or not isinstance(called, dict):
            return None
        text = called.get("arguments")
        return call if len(called) == 1 and isinstance(text, str) and call.append(text) else None

    def _find(self, piece: _Piece) -> Call | None:
        named = self._by_id.get((piece.index, piece.id)) if piece.id is not None else None
        if named is not None:
            return named
        return self._last if piece.index is None else self._last_at.get(piece.index)

    def _touch(self, call: Call, index: int | None) -> None:
        self._last = call
        for at in (index, call.index):
            if at is not None:
                self._last_at[at] = call
        if call.id is not None:
            self._by_id[None, call.id] = self._by_id[index, call.id] = call

    def content(self) -> list[dict[str, Any]]:
        """All of them, in order."""
        return [self._calls[place].content() for place in in_order([call.index for call in self._calls])]
