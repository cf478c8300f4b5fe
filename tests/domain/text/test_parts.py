"""The parts of a text join to the text."""

from mnemosyne.domain.text.parts import ROLE_LABELS, PartRole, TextPart, join


def test_the_parts_of_a_text_join_to_it() -> None:
    parts = (TextPart(PartRole.CALL, "command: ls", "Bash"), TextPart(PartRole.RESULT, "a\nb", "Bash"))
    assert join(parts) == "command: ls\na\nb"


def test_authors_have_different_labels() -> None:
    assert set(ROLE_LABELS) == {PartRole.USER, PartRole.ASSISTANT}
    assert len(set(ROLE_LABELS.values())) == 2
