"""Writes an ONNX file: the few parts of its format that ``minilm_graph`` needs, so that nobody installs the library.

The format is protobuf (proto2), as ``onnx.proto`` describes it: a message is its fields, each a number and a type of
value, then the value; the numbers below are that file's. Fields are written in the order of their numbers.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

FLOAT, INT8, INT32, INT64 = 1, 3, 6, 7
"""Types of numbers (TensorProto.DataType)."""

_TYPES = {"float32": FLOAT, "int8": INT8, "int32": INT32, "int64": INT64}

Attribute = int | float | Sequence[int]

_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7

_VARINT, _BYTES, _FIXED32 = 0, 2, 5


@attrs.frozen
class Port:
    """What enters a graph or leaves it; an axis is a size, or the name of one that is not known."""

    name: str
    type: int
    shape: Sequence[int | str]


def node(
    operator: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    domain: str | None,
    attributes: Mapping[str, Attribute],
) -> bytes:
    """A NodeProto. ``domain`` is that of an operator that is not ONNX's own."""
    parts = [_text(1, name) for name in inputs]
    parts += [_text(2, name) for name in outputs]
    parts.append(_text(4, operator))
    parts += [_message(5, _attribute(name, value)) for name, value in sorted(attributes.items())]
    return b"".join(parts) + (b"" if domain is None else _text(7, domain))


def tensor(name: str, value: NDArray[Any]) -> bytes:
    """A TensorProto. Raises KeyError for numbers of a type that is not in the table above."""
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return b"".join(
        (
            *(_number(1, size) for size in value.shape),
            _number(2, _TYPES[value.dtype.name]),
            _text(8, name),
            _message(9, np.ascontiguousarray(little).tobytes()),
        )
    )


def graph(
    name: str, nodes: Iterable[bytes], constants: Iterable[bytes], inputs: Iterable[Port], outputs: Iterable[Port]
) -> bytes:
    """A GraphProto."""
    return b"".join(
        (
            *(_message(1, each) for each in nodes),
            _text(2, name),
            *(_message(5, each) for each in constants),
            *(_message(11, _port(each)) for each in inputs),
            *(_message(12, _port(each)) for each in outputs),
        )
    )


def model(graph: bytes, producer: str, ir_version: int, opsets: Mapping[str, int]) -> bytes:
    """A ModelProto: a whole file. ``opsets`` are the versions of the operators, by their domain."""
    versions = (_message(8, _text(1, domain) + _number(2, version)) for domain, version in opsets.items())
    return b"".join((_number(1, ir_version), _text(2, producer), _message(7, graph), *versions))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _key(2, _FIXED32) + struct.pack("<f", value) + _number(20, _ATTRIBUTE_FLOAT)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    return _text(1, name) + b"".join(_number(8, each) for each in value) + _number(20, _ATTRIBUTE_INTS)


def _port(port: Port) -> bytes:
    axes = (_number(1, axis) if isinstance(axis, int) else _text(2, axis) for axis in port.shape)
    shape = b"".join(_message(1, axis) for axis in axes)
    return _text(1, port.name) + _message(2, _message(1, _number(1, port.type) + _message(2, shape)))


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _message(field: int, value: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the low ones first; the eighth says that more follow."""
    assert value >= 0, "no number here is negative"
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
