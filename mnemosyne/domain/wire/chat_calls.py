"""Assemble the tool calls of a completion from the pieces in its chunks.

A piece identifies its call by ``index``, by ``id``, or not at all, and some servers do it wrongly (``places``). A piece
begins a new call when it cannot continue the one that it appears to belong to: it has a different id or a different
name, or the arguments of that call are already complete.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.wire.places import in_order, index_of
from mnemosyne.domain.wire.reply import as_json

_WRITTEN = {"function": "arguments", "custom": "input"}
"""The member that the model writes, by kind of call. It arrives in pieces."""

_MARK = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)


@attrs.define
class JsonText:
    """JSON text that arrives in pieces. Tracks whether its first object or array is complete, reading each character
    once.
    """

    begun: bool = False
    _unread: list[str] = attrs.field(factory=list)
    _is_whole: bool = False
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False

    def feed(self, text: str) -> None:
        """Add the next piece; it is read when ``is_whole`` is queried."""
        self.begun = self.begun or bool(text.strip())
        self._unread.append(text)

    @property
    def is_whole(self) -> bool:
        text, self._unread = "".join(self._unread), []
        if self._is_whole or not text:
            return self._is_whole
        start, self._escaped = int(self._escaped), False
        for match in _MARK.finditer(text, start):
            mark = match.group()
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
    """One tool call and the pieces that form it."""

    number: int
    """Its number in the order in which calls began, from 0."""
    index: int | None
    id: object = None
    name: str = ""
    written: JsonText = attrs.field(factory=JsonText)
    named_again: bool = False
    """Whether its name arrived again after the call was complete: either repeated, or as another call of the same tool.
    """
    _call: dict[str, Any] = attrs.field(factory=dict)
    _called: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    _pieces: dict[str, list[str]] = attrs.field(factory=dict)

    def add(self, piece: "_Piece") -> None:
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
        """Add arguments only. Return False if this is not a function call yet."""
        pieces = self._pieces.get("function")
        if pieces is None:
            return False
        self.written.feed(arguments)
        pieces.append(arguments)
        return True

    def begins_another(self, piece: "_Piece") -> bool:
        """Return whether a piece that appears to continue this call begins another one."""
        if piece.id is not None and self.id is not None and piece.id != self.id:
            # Some servers make a new id for each piece, which then holds the rest of the arguments.
            return bool(piece.name) or not piece.written or self.written.is_whole
        is_named_again = self.named_again or piece.name == self.name
        if is_named_again and piece.written.strip() and self.written.is_whole:
            return True
        if piece.name == self.name or not piece.name or not self.name:
            return False
        is_rest_of_name = not self.written.begun and not piece.written
        return not is_rest_of_name and not (piece.name.startswith(self.name) and not self.written.begun)

    def content(self) -> dict[str, Any]:
        """Return the call as a reply that is not streamed would contain it."""
        named = {} if self.id is None else {"id": self.id}
        called = {
            kind: {**members, **({"name": self.name} if self.name else {}), _WRITTEN[kind]: "".join(self._pieces[kind])}
            for kind, members in self._called.items()
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
        written = as_json(written).decode()  # arguments that are not text yet
    return _Piece(
        raw,
        index_of(raw.get("index")),
        identity if isinstance(identity, str | int | float) and identity != "" else None,
        name if isinstance(name, str) else "",
        written if isinstance(written, str) else "",
    )


def _join_names(begun: str, more: str) -> str:
    """Join a name that may arrive in pieces or be repeated."""
    return more if more.startswith(begun) else begun if begun.startswith(more) else begun + more


class Calls:
    """The tool calls of one choice."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._by_id: dict[tuple[int | None, object], Call] = {}
        self._last_at: dict[int, Call] = {}
        self._last: Call | None = None

    def take(self, deltas: Sequence[object]) -> list[Call | None]:
        """Add the pieces in a delta. Return the call that each belongs to; None for an item that is not a piece."""
        continued = self._continue(deltas[0]) if len(deltas) == 1 else None
        if continued is not None:
            return [continued]
        pieces = [_read(delta) if isinstance(delta, Mapping) else None for delta in deltas]
        bare = sum(1 for piece in pieces if piece is not None and piece.index is None and piece.id is None)
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

    def _continue(self, delta: object) -> Call | None:
        """Add arguments to the previous piece's call and return it; None if the delta is anything else. Most pieces are
        such.
        """
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
        return [self._calls[place].content() for place in in_order([call.index for call in self._calls])]
