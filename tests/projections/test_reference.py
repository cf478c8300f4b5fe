"""The page on projections names every table with its columns, and every query."""

import attrs

from mnemosyne.projections.projection import Query
from mnemosyne.projections.reference import page
from tests.projections.support import OTHER, SAMPLE


def test_tables_are_listed_with_their_columns_and_the_key_in_bold() -> None:
    text = page((SAMPLE, OTHER))
    assert text.index("### sample\n") < text.index("### other\n")
    assert "| `sample_words` | **`stream`**, **`word`**, `first`, `last`, `loud`, `after` |" in text


def test_a_query_follows_its_question() -> None:
    asked = attrs.evolve(SAMPLE, queries=(Query("words", "Which words?", "select word from sample_words"),))
    assert "**Which words?**\n\n```sql\nselect word from sample_words\n```\n" in page((asked,))
