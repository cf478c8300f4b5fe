"""The table of kinds: every kind has a complete and consistent row."""

import pytest

from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, Traits, is_its_own_detail, keeps_prompt


def test_every_kind_has_a_row() -> None:
    assert set(KINDS) == set(ObjectKind)


@pytest.mark.parametrize("kind", ObjectKind)
def test_kind_has_only_one_origin(kind: ObjectKind) -> None:
    """Conversation, settled, fetched, or derived: settled content may be prose too, but not in the same object."""
    traits = KINDS[kind]
    assert traits.is_conversation + traits.is_settled + traits.is_fetched <= 1
    assert traits.is_fetched or not (traits.is_file or traits.is_failure)


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_share_outside_0_to_1_is_rejected(value: float) -> None:
    with pytest.raises(ValueError, match="prior"):
        Traits(prior=value, allowed_loss=0.5)
    with pytest.raises(ValueError, match="allowed_loss"):
        Traits(prior=0.5, allowed_loss=value)


def test_tags_determine_operator_text_prompts_and_changes() -> None:
    assert keeps_prompt(("user",))
    assert not keeps_prompt(("edit",))
    assert is_its_own_detail(("edit",))
    assert not is_its_own_detail(("read", "whole"))
