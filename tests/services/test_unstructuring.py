"""Values as JSON, and the keys of their members."""

import json
from fractions import Fraction
from uuid import UUID

import attrs

from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.services.unstructuring import as_json, members


@attrs.frozen
class Held:
    values: object


def test_json_holds_ids_hashes_and_amounts() -> None:
    held = Held({UUID(int=1): (b"\xff", Fraction(1, 2), Fidelity.COMPACT, None, frozenset({1}))})
    assert json.loads(json.dumps(as_json(held))) == {"values": {str(UUID(int=1)): ["ff", 0.5, "L2", None, [1]]}}


@attrs.frozen
class Outer:
    size: int
    inner: Held
    cause: Cause = Cause.PRESSURE


def test_members_are_attributes_under_their_own_or_given_names() -> None:
    assert members(Outer(3, Held({})), "size cause") == {"size": 3, "cause": Cause.PRESSURE.value}
    assert members(Outer(3, Held({})), bytes="size") == {"bytes": 3}
    assert members(Outer(3, Held({1: b"\xff"})), values="inner.values") == {"values": {"1": "ff"}}
    assert members(Outer(3, Held(None)), a="inner.values.size", b="inner.values") == {"a": None, "b": None}
