"""Bodies survive cutting, joining, changing and encoding their recipes without losing a byte."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import BodyChange, Piece, Recipe, Withheld

CONTENTS = [b"", b"a", b"hello world", bytes(range(256)) * 3]
STORE = {sha256(content).digest(): content for content in CONTENTS}


@st.composite
def some_pieces(draw: st.DrawFn) -> list[Piece | Withheld]:
    """Draw pieces of the stored contents, including empty ones and adjacent ones that continue each other."""
    drawn: list[Piece | Withheld] = []
    for _ in range(draw(st.integers(0, 6))):
        content = draw(st.sampled_from(CONTENTS))
        start = draw(st.integers(0, len(content)))
        middle = draw(st.integers(start, len(content)))
        end = draw(st.integers(middle, len(content)))
        digest = sha256(content).digest()
        drawn += [Piece(digest, start, middle - start), Piece(digest, middle, end - middle)]
        if draw(st.booleans()):
            drawn.append(Withheld(draw(st.integers(0, 5))))
    return drawn


def bytes_of(pieces: recipe.Pieces | list[Piece | Withheld]) -> bytes:
    return recipe.assemble(pieces, STORE.__getitem__)


@given(some_pieces())
def test_a_recipe_keeps_the_bytes_and_joins_adjacent_pieces(pieces: list[Piece | Withheld]) -> None:
    made = recipe.recipe_of(pieces)
    assert bytes_of(made.pieces) == bytes_of(pieces)
    assert made.length == len(bytes_of(pieces))
    assert recipe.recipe_of(made.pieces) == made
    assert all(piece.length for piece in made.pieces)


@given(some_pieces(), st.data())
def test_between_is_a_slice(pieces: list[Piece | Withheld], data: st.DataObject) -> None:
    made = recipe.recipe_of(pieces)
    start = data.draw(st.integers(0, made.length))
    end = data.draw(st.integers(0, made.length))
    assert bytes_of(made.between(start, end)) == bytes_of(made.pieces)[start:end]


@given(some_pieces(), some_pieces(), st.data())
def test_a_change_puts_pieces_between_the_head_and_tail_of_its_base(
    base: list[Piece | Withheld], new: list[Piece | Withheld], data: st.DataObject
) -> None:
    made = recipe.recipe_of(base)
    head = data.draw(st.integers(0, made.length))
    tail = data.draw(st.integers(0, made.length - head))
    change = recipe.change_of(head, new, tail)
    changed = recipe.apply(made, change)
    before = bytes_of(made.pieces)
    assert bytes_of(changed.pieces) == before[:head] + bytes_of(new) + before[len(before) - tail :]
    assert recipe.recipe_of(changed.pieces) == changed, "joined and measured as if made at once"
    assert recipe.decode(recipe.encode(change)) == change
    assert bytes_of(change.pieces()) == bytes_of(new)


@given(st.integers(0, 200_000), st.integers(0, 200_000), st.booleans())
def test_common_prefixes_and_suffixes_of_any_length_are_found(left: int, right: int, different: bool) -> None:
    a = b"x" * left + (b"1" if different else b"") + b"y" * right
    b = b"x" * left + (b"2" if different else b"") + b"y" * right
    assert recipe.common_prefix(a, b) == (left if different else left + right)
    assert recipe.common_suffix(a, b, min(len(a), len(b))) == (right if different else left + right)


def test_a_withheld_piece_is_rendered_as_stars() -> None:
    assert recipe.assemble([Withheld(3)], STORE.__getitem__) == b"***"


def test_a_content_used_completely_costs_its_digest_and_a_few_bytes() -> None:
    change = recipe.change_of(1_000_000, [Piece(b"d" * 32, 0, 5_000)], 40_000)
    assert change.spans == ((0, 5_000),)
    assert len(recipe.encode(change)) <= 32 + 10


def test_a_change_refuses_a_base_that_is_too_short() -> None:
    with pytest.raises(ValueError, match="keeps 3 \\+ 0 bytes of a body of 0"):
        recipe.apply(Recipe(), BodyChange(head=3))


@given(st.binary(max_size=60))
def test_decoding_any_bytes_gives_a_change_or_a_value_error(data: bytes) -> None:
    try:
        change = recipe.decode(data)
    except ValueError:
        return
    assert recipe.decode(recipe.encode(change)) == change


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x00\x00\x02" + b"d" * 32, b"\x00\x00\x00\x02\x01"])
def test_decoding_half_a_change_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="change of a body"):
        recipe.decode(data)
