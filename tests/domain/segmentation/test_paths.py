"""The same file has the same key, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.segmentation.paths import LONGEST, is_path, normal


@pytest.mark.parametrize(
    ("path", "folder", "key"),
    [
        ("./src/../src/a.py", "", "src/a.py"),
        ("a.py", "app", "app/a.py"),
        ("/abs/a.py", "app", "/abs/a.py"),
        ('"a b.py" ', "", "a b.py"),
        ("src\\a.py", "", "src/a.py"),
        ("//a", "", "/a"),
        ("", "app", ""),
    ],
)
def test_a_path_is_normalized(path: str, folder: str, key: str) -> None:
    assert normal(path, folder) == key


@given(st.text(alphabet="ab./\\", max_size=20))
def test_a_normalized_path_is_unchanged(path: str) -> None:
    assert normal(normal(path)) == normal(path)


@pytest.mark.parametrize("text", ["", " ", "a\nb", "x" * (LONGEST + 1), None, 7])
def test_texts_that_cannot_be_paths(text: object) -> None:
    assert not is_path(text)
