"""Lazily decoded events for projections, which read few fields.

Decoding whole events would dominate the time of a projection. A view is an instance of a subclass of the event's class
that decodes a field on access; other fields are not validated (``mnemosyne verify`` does that).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin, overload

import attrs

from mnemosyne.adapters.postgres.event_codec import Data, EventCodec

_AS_JSON = (str, int, bool, str | None, int | None, bool | None)
"""Types that JSON stores unchanged."""


class EventViews(EventCodec):
    """A codec that decodes events to views: with it, a ``PostgresEventLog`` is followed by projections."""

    def __init__(self, names: Mapping[str, type], *args: Any) -> None:
        super().__init__(names, *args)
        self._makers: dict[str, Callable[[Data], object]] = {}

    def _structure(self, name: str, data: Data) -> object:
        make = self._makers.get(name)
        if make is None:
            make = self._makers[name] = self._maker(self._classes[name])
        return make(data)

    def _maker(self, cls: type) -> Callable[[Data], object]:
        """A function that makes a view of this class."""
        members: dict[str, Any] = {"__slots__": ("_data",), "__doc__": cls.__doc__, "__module__": cls.__module__}
        for field in attrs.fields(cls):
            members[field.name] = property(self._reader(field.name, field.type))
        view: Any = type(cls.__name__, (cls,), members)
        new, put = object.__new__, view._data.__set__  # the class itself is frozen

        def make(data: Data) -> object:
            event = new(view)
            put(event, data)
            return event

        return make

    def _reader(self, name: str, kind: Any) -> Callable[[Any], Any]:
        if kind in _AS_JSON or get_origin(kind) is Mapping:
            return lambda event: event._data[name]
        if (members := _enum_members(kind)) is not None:
            return lambda event: members[event._data[name]]
        if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
            (member, _) = get_args(kind)
            hook = self._converter.get_structure_hook(member)
            return lambda event: _Decoded(event._data[name], lambda value: hook(value, member))
        hook = self._converter.get_structure_hook(kind)
        return lambda event: hook(event._data[name], kind)


def _enum_members(kind: Any) -> dict[Any, Enum | None] | None:
    """The members of an (optional) enum by value; None for another type."""
    *rest, last = get_args(kind) or (kind,)
    enums = [each for each in (*rest, last) if isinstance(each, type) and issubclass(each, Enum)]
    others = [each for each in (*rest, last) if each not in enums]
    if len(enums) != 1 or others not in ([], [NoneType]):
        return None
    members: dict[Any, Enum | None] = {member.value: member for member in enums[0]}
    return members | {None: None} if others else members


class _Decoded(Sequence[Any]):
    """A sequence whose values are decoded on access."""

    def __init__(self, values: list[Any], decode: Callable[[Any], Any]) -> None:
        self._values = values
        self._decode = decode

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return tuple(map(self._decode, self._values[index]))
        return self._decode(self._values[index])
