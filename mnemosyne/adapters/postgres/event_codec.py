"""Stored events: a permanent name with a version, and JSON.

Names such as ``session.started.v1`` are data, so a class can be renamed. A changed field needs a new name and an upcast
from the old one::

    codec = EventCodec(
        names={"session.started.v2": SessionStarted},
        upcasts={"session.started.v1": ("session.started.v2", lambda data: {**data, "tenant": "default"})},
    )

The stored JSON is ``{"data": {...}, "correlation": ..., "causation": ...}``. Bytes are base64url without padding, UUIDs
and enums their usual text; a union of classes cannot be stored. Decoding runs the validators of the classes, coerces no
types, and **refuses unknown and missing fields**, those with a default included: they mean damage, or a changed shape
under an old name.
"""

import base64
import enum
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Union
from uuid import UUID

import attrs
import orjson
from cattrs import Converter, transform_error
from cattrs.gen import make_dict_structure_fn_from_attrs
from cattrs.preconf.orjson import make_converter

from mnemosyne.domain.ports import Envelope, UnreadableEvent
from mnemosyne.errors import UnknownEvent

Data = dict[str, Any]
"""The fields of one event as JSON values."""

Upcast = tuple[str, Callable[[Data], Data]]
"""The name that an old event becomes, and the function that turns the old fields into the new ones."""

_NAME = re.compile(r"(?P<kind>[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)\.v(?P<version>[1-9][0-9]*)")


class EventCodec:
    """Converts envelopes to (stored name, JSON bytes) and back. Threads may share one."""

    def __init__(self, names: Mapping[str, type], upcasts: Mapping[str, Upcast] | None = None) -> None:
        """Check the registry; converters of classes are built on first use, or by ``prepare``.

        ``names`` maps each current stored name to its class, ``upcasts`` each old name to its successor.
        Raises ValueError if they are inconsistent.
        """
        self._classes = dict(names)
        self._upcasts = dict(upcasts or {})
        _check_registry(self._classes, self._upcasts)
        self._names = {cls: name for name, cls in self._classes.items()}
        self._converter = _make_converter(explain=False)

    def prepare(self) -> None:
        """Build all converters at start. Raises ValueError for a class that cannot be stored."""
        for cls in self._classes.values():
            self._converter.get_structure_hook(cls)
            self._converter.get_unstructure_hook(cls)

    def names_of(self, classes: Collection[type]) -> list[str]:
        """All stored names of these classes, old ones included."""
        return [name for name in (*self._classes, *self._upcasts) if self._classes[self._current_name(name)] in classes]

    def encode(self, envelope: Envelope[object]) -> tuple[str, bytes]:
        """Return the stored name and the JSON. Raises ValueError for an unregistered event or a value that JSON cannot
        hold.
        """
        cls = type(envelope.event)
        name = self._names.get(cls)
        if name is None:
            raise ValueError(f"{cls.__qualname__} is not a registered event")
        stored = {
            "data": self._unstructure(name, envelope.event),
            "correlation": envelope.correlation_id,
            "causation": envelope.causation_id,
        }
        try:
            return name, orjson.dumps(stored)
        except TypeError as error:  # an integer above 64 bits, or half a surrogate pair
            raise ValueError(f"{name} cannot be stored: {error}") from None

    def decode(self, name: str, state: bytes) -> Envelope[Any]:
        """Decode an envelope, upcast to the current class. Raises UnknownEvent, without content in its message."""
        current = self._current_name(name or "")  # the column allows null
        try:
            stored = orjson.loads(state)
            data, correlation, causation = stored["data"], _text(stored["correlation"]), stored["causation"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise UnknownEvent(f"a stored {name} is not an event with its envelope: the row is damaged") from None
        return Envelope(self._structure(current, self._upcast(name, data)), correlation, causation)

    def decode_anyway(self, name: str, state: bytes) -> Envelope[Any]:
        """The same, but an ``UnreadableEvent`` instead of an error."""
        try:
            return self.decode(name, state)
        except UnknownEvent as error:
            return Envelope(UnreadableEvent(str(error)), "")

    def _unstructure(self, name: str, event: object) -> Any:
        try:
            return self._converter.unstructure(event)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{name} holds a field that its class does not declare so: {type(error).__name__}"
            ) from None

    def _upcast(self, name: str, data: Data) -> Data:
        while name in self._upcasts:
            newer, upcast = self._upcasts[name]
            try:
                data = upcast(data)
            except Exception as error:
                raise UnknownEvent(f"a stored {name} cannot become {newer}: {type(error).__name__}") from None
            name = newer
        return data

    def _structure(self, name: str, data: Data) -> object:
        cls = self._classes[name]
        try:
            return self._converter.structure(data, cls)
        except Exception:
            # The original error quotes stored values; the reason names only fields.
            raise UnknownEvent(
                f"a stored {name} does not have the shape of that name: {self._reason(data, cls)}"
            ) from None

    def _reason(self, data: Data, cls: type) -> str:
        try:
            # This slow converter reports the field.
            _make_converter(explain=True).structure(data, cls)
        except Exception as error:
            reasons = transform_error(error, format_exception=lambda inner, _type: type(inner).__name__)
            return re.sub(r"\['.*?'\]", "[…]", "; ".join(reasons))
        return "it failed once and not again"

    def _current_name(self, name: str) -> str:
        step = name
        while step in self._upcasts:
            step = self._upcasts[step][0]
        if step in self._classes:
            return step
        raise UnknownEvent(self._unknown(name))

    def _unknown(self, name: str) -> str:
        match = _NAME.fullmatch(name)
        if match is None:
            return f"the log holds an event named {name!r}, which is not a name that Mnemosyne writes"
        names = (each.rpartition(".v") for each in (*self._classes, *self._upcasts))
        known = sorted(int(version) for kind, _, version in names if kind == match["kind"])
        upto = f"up to v{known[-1]}" if known else "not at all"
        return (
            f"the log holds {name}: this needs a Mnemosyne that knows {match['kind']} v{match['version']}, "
            f"and this one knows it {upto}; use the newer one"
        )


def _check_registry(classes: Mapping[str, type], upcasts: Mapping[str, Upcast]) -> None:
    for name in (*classes, *upcasts):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a stored name like 'session.started.v1'")
    for name, cls in classes.items():
        if not attrs.has(cls):
            raise ValueError(f"{name} must be an attrs class, not {cls!r}")
    if len(set(classes.values())) != len(classes):
        raise ValueError("two stored names share a class; an old name needs an upcast, not the class")
    if both := set(classes) & set(upcasts):
        raise ValueError(f"{sorted(both)} are both current names and old ones")
    for old in upcasts:
        _check_chain(old, classes, upcasts)


def _check_chain(old: str, classes: Mapping[str, type], upcasts: Mapping[str, Upcast]) -> None:
    seen, step = {old}, upcasts[old][0]
    while step in upcasts:
        if step in seen:
            raise ValueError(f"the upcasts from {old} run in a circle")
        seen.add(step)
        step = upcasts[step][0]
    if step not in classes:
        raise ValueError(f"the upcasts from {old} end at {step}, which is not a current name")


def _make_converter(*, explain: bool) -> Converter:
    converter = make_converter(detailed_validation=explain, forbid_extra_keys=True)
    for primitive in (str, int, bool):
        converter.register_structure_hook(primitive, _exactly(primitive))
    converter.register_structure_hook(float, _structure_float)
    converter.register_unstructure_hook(float, _unstructure_float)
    converter.register_structure_hook(bytes, _structure_bytes)
    converter.register_unstructure_hook(
        bytes, lambda value: base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")
    )
    converter.register_structure_hook(UUID, lambda value, _: UUID(_text(value)))
    converter.register_unstructure_hook(UUID, str)
    converter.register_structure_hook_factory(attrs.has, lambda cls: _structure_all_fields(converter, cls))
    converter.register_unstructure_hook_factory(_is_set, lambda cls: _unstructure_set(converter, cls))
    converter.register_unstructure_hook_factory(_is_union_of_classes, _refuse_union)
    return converter


def _structure_all_fields(converter: Converter, cls: type) -> Callable[[Any, Any], Any]:
    """Structures a class whose every field must be stored, even one with a default."""
    fields = [field.evolve(default=attrs.NOTHING) for field in attrs.fields(attrs.resolve_types(cls))]
    return make_dict_structure_fn_from_attrs(fields, cls, converter)


def _exactly(primitive: type) -> Callable[[Any, Any], Any]:
    def structure(value: Any, cls: Any) -> Any:
        # type(), not isinstance: True is not a number here.
        if type(value) is not primitive:
            raise TypeError(f"{primitive.__name__} needed")
        return value if cls is primitive else cls(value)  # also an IntEnum

    return structure


def _structure_float(value: Any, _: Any) -> float:
    if type(value) not in (float, int):
        raise TypeError("float needed")
    return float(value)


def _unstructure_float(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("JSON holds no NaN and no infinity")  # orjson would write null
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text needed")
    return value


def _structure_bytes(value: Any, _: Any) -> bytes:
    text = _text(value)
    decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != text.encode():
        raise ValueError("not base64url as this codec writes it")
    return decoded


def _is_set(cls: Any) -> bool:
    return (typing.get_origin(cls) or cls) in (set, frozenset)


def _unstructure_set(converter: Converter, cls: Any) -> Callable[[Any], list[Any]]:
    """Sort the members: the order of a set differs between processes."""
    (member,) = typing.get_args(cls)
    hook = converter.get_unstructure_hook(member)

    def sort_key(value: Any) -> Any:
        return value.value if isinstance(value, enum.Enum) else value

    return lambda values: sorted((hook(value) for value in values), key=sort_key)


def _is_union_of_classes(cls: Any) -> bool:
    if typing.get_origin(cls) not in (Union, types.UnionType):
        return False
    members = [member for member in typing.get_args(cls) if member is not types.NoneType]
    return len(members) > 1 and any(map(attrs.has, members))


def _refuse_union(union: Any) -> Callable[[Any], Any]:
    raise ValueError(f"{union!r} is a union of classes, whose members the stored JSON would not tell apart")
