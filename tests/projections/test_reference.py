"""The page on projections names every table with its columns."""

from mnemosyne.projections.reference import page
from tests.projections.support import OTHER, SAMPLE


def test_tables_are_listed_with_their_columns_and_the_key_in_bold() -> None:
    text = page((SAMPLE, OTHER))
    assert text.index("### sample\n") < text.index("### other\n")
    assert "| `sample_words` | **`stream`**, **`word`**, `first`, `last`, `loud`, `after` |" in text
