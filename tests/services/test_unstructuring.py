"""Values as JSON: what programs get of a value, and under which keys."""

import json
from fractions import Fraction
from uuid import UUID

import attrs

from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.services.unstructuring import as_json, members


@attrs.frozen
class Told:
    values: object


def test_json_holds_ids_hashes_and_amounts() -> None:
    told = Told({UUID(int=1): (b"\xff", Fraction(1, 2), Fidelity.COMPACT, None, frozenset({1}))})
    assert json.loads(json.dumps(as_json(told))) == {"values": {str(UUID(int=1)): ["ff", 0.5, "L2", None, [1]]}}


@attrs.frozen
class Outer:
    size: int
    inner: Told
    cause: Cause = Cause.PRESSURE


def test_members_take_the_names_of_their_attributes() -> None:
    assert members(Outer(3, Told({})), "size cause") == {"size": 3, "cause": Cause.PRESSURE.value}


def test_a_renamed_member_has_its_key_from_the_caller() -> None:
    assert members(Outer(3, Told({})), bytes="size") == {"bytes": 3}


def test_a_dot_reaches_an_attribute_of_an_attribute() -> None:
    assert members(Outer(3, Told({1: b"\xff"})), values="inner.values") == {"values": {"1": "ff"}}


def test_what_is_behind_the_dot_of_nothing_is_nothing() -> None:
    assert members(Outer(3, Told(None)), a="inner.values.size", b="inner.values") == {"a": None, "b": None}
