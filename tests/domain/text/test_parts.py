"""The parts of a text join to the text."""

from mnemosyne.domain.text.parts import SPEAKERS, TextPart, Voice, join


def test_the_parts_of_a_text_join_to_it() -> None:
    parts = (TextPart(Voice.CALL, "command: ls", "Bash"), TextPart(Voice.RESULT, "a\nb", "Bash"))
    assert join(parts) == "command: ls\na\nb"


def test_authors_have_different_labels() -> None:
    assert set(SPEAKERS) == {Voice.USER, Voice.ASSISTANT}
    assert len(set(SPEAKERS.values())) == 2
