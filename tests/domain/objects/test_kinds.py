"""The table of kinds: each has a whole row, and the rows fit together."""

import pytest

from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, Traits, is_its_own_detail, keeps_prompt


def test_each_kind_has_its_row() -> None:
    assert set(KINDS) == set(ObjectKind)


@pytest.mark.parametrize("kind", ObjectKind)
def test_a_kind_is_made_in_one_way(kind: ObjectKind) -> None:
    """Said, settled, fetched, or derived from others: what is settled may be said, too, but not in the same object."""
    traits = KINDS[kind]
    assert traits.is_conversation + traits.is_settled + traits.is_fetched <= 1
    assert traits.is_fetched or not (traits.is_file or traits.is_failure)


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_share_outside_of_0_to_1_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="prior"):
        Traits(prior=value, allowed_loss=0.5)
    with pytest.raises(ValueError, match="allowed_loss"):
        Traits(prior=0.5, allowed_loss=value)


def test_what_was_settled_may_lose_least() -> None:
    def allowed(traits: Traits) -> float:
        return traits.allowed_loss

    settled = [each for each in KINDS.values() if each.is_settled]
    others = [each for each in KINDS.values() if not each.is_settled]
    assert max(map(allowed, settled)) < min(map(allowed, others))


def test_what_follows_from_tags() -> None:
    assert keeps_prompt(("user",))
    assert not keeps_prompt(("edit",))
    assert is_its_own_detail(("edit",))
    assert not is_its_own_detail(("read", "whole"))
