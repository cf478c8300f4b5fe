"""Quotes fit their room, extend to surrounding lines, and repeat nothing."""

from mnemosyne.domain.recall.choosing import ChosenLines, SearchedText
from mnemosyne.domain.text.parts import PartRole, TextPart


def text(object_id: str, said: str) -> SearchedText:
    return SearchedText(id=object_id, name="", parts=(TextPart(PartRole.RESULT, said),))


PAGE = text("page", "one\ntwo\n# three\nfour\nfive\n")


def chosen(most: int, *lines: str, said: SearchedText = PAGE) -> list[str]:
    """The quotes after these lines were taken, with room for so many characters."""
    found = ChosenLines(most, len)
    for line in lines:
        start = said.text.index(line)
        found.take(said, (start, start + len(line)))
    return [quote.text for quote, _ in found.quotes()]


def test_surrounding_lines_are_quoted_as_far_as_there_is_room() -> None:
    assert chosen(3, "two") == ["two"]
    assert chosen(len("two\n# three"), "two") == ["two\n# three"]
    assert chosen(1_000, "two") == [PAGE.text.strip()]


def test_heading_is_quoted_with_the_lines_below_it() -> None:
    assert chosen(len("# three\nfour\nfive"), "# three") == ["# three\nfour\nfive"]


def test_headings_get_their_first_line_before_other_quotes_grow() -> None:
    page = text("page", "# one\n\nThe first.\n# two\n\nThe second.\n")
    assert chosen(len("# one\n\nThe first.# two"), "# one", "# two", said=page) == ["# one\n\nThe first.", "# two"]


def test_line_numbers_below_a_heading_do_not_count_as_text() -> None:
    page = text("page", "1\t# one\n2\t\n3\tThe first.\n")
    assert chosen(1_000, "1\t# one", said=page) == ["1\t# one\n2\t\n3\tThe first."]
    assert chosen(len("1\t# one\n2"), "1\t# one", said=page) == ["1\t# one\n2"]


def test_adjacent_lines_become_one_quote() -> None:
    assert chosen(len("one\ntwo") + len("five"), "one", "two", "five") == ["one\ntwo", "five"]


def test_line_is_cut_to_the_room_or_dropped_if_too_little_remains() -> None:
    said = text("long", "word " * 40)
    (cut,) = chosen(60, said.text, said=said)
    assert said.text.startswith(cut)
    assert chosen(10, said.text, said=said) == []


def test_the_same_line_of_another_object_is_not_quoted_again() -> None:
    found = ChosenLines(100, len)
    for object_id in ("new", "old"):
        found.take(text(object_id, "port: 8443"), (0, 10))
    assert [quote.object_id for quote, _ in found.quotes()] == ["new"]
