"""Parts are the text that they are parts of."""

from mnemosyne.domain.text.parts import SPEAKERS, TextPart, Voice, join


def test_the_parts_of_a_text_come_to_it() -> None:
    parts = (TextPart(Voice.CALL, "command: ls", "Bash"), TextPart(Voice.RESULT, "a\nb", "Bash"))
    assert join(parts) == "command: ls\na\nb"


def test_those_who_speak_are_told_apart() -> None:
    assert set(SPEAKERS) == {Voice.USER, Voice.ASSISTANT}
    assert len(set(SPEAKERS.values())) == 2
