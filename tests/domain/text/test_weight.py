import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.text.weight import weight

# What a cut can split: 20 letters of one case, a hump, a word, a number, punctuation or a gap.
MOST_OF_A_CUT = 8000 + 8000


@given(st.text(), st.text())
def test_the_weights_of_two_parts_add_up_except_for_the_cut(left: str, right: str) -> None:
    assert abs(weight(left + right) - weight(left) - weight(right)) <= MOST_OF_A_CUT


@given(st.text(st.characters(codec=None)))
def test_every_text_has_a_weight_even_if_it_is_not_valid_unicode(text: str) -> None:
    assert weight(text) >= 0
    assert weight("") == 0


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog. ", 3.8, 5),
        ('{"path":"src/main.py","line":14,"ok":true},', 2, 3.5),
        ("    if (user.isActive()) { return getUserName(id); }\n", 2.4, 3.8),
        ("58eeb1816c3d1a79c650f2a4", 1.3, 2.2),
        ("Q6ALMMgwlbCPeJ7tJEY2/x9+Zk0d", 1.1, 2),
        ("数据库连接失败", 0.7, 1.2),
        ("qwrtzplkjhgfdsyxcvbnmqwrtzplkjhgfdsyxcvbnm", 1.5, 3),
    ],
)
def test_dense_text_has_fewer_characters_per_token_than_prose(text: str, least: float, most: float) -> None:
    assert least <= 20 * len(text) * 1000 / weight(text * 20) <= most


def test_a_very_long_text_is_weighed_by_samples() -> None:
    part = "".join(f"def add_{number}(first: int, second: int) -> int:\n" for number in range(1_000))
    whole = weight(part) * 100
    assert len(part) * 100 > 4_000_000
    assert abs(weight(part * 100) - whole) < whole // 50
    assert abs(weight("数" * 3_000_000) - 100 * weight("数" * 30_000)) < 10_000
