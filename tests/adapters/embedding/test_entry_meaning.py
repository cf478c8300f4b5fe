"""Entries are compared by what they mean where the model is installed, and by words alone where it is not."""

from pathlib import Path

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.embedder import EntryMeaning
from tests.adapters.model_cache import installed_model

TEXTS = ["We install packages with pnpm", "The parser reads dates", "Answers are to be short"]


async def test_without_a_model_meaning_says_nothing(tmp_path: Path) -> None:
    assert await EntryMeaning(tmp_path).nearness("which package manager?", TEXTS) is None


async def test_with_the_model_the_nearest_is_what_is_meant_and_a_text_is_embedded_once(tmp_path: Path) -> None:
    files = installed_model()
    model_files.put_in_place(
        tmp_path, {model_files.GRAPH_FILE: files.graph, model_files.TOKENIZER_FILE: files.tokenizer}
    )
    meaning = EntryMeaning(tmp_path)
    first = await meaning.nearness("how do I add a dependency?", TEXTS)
    assert first is not None
    assert first.values[0] == max(first.values)
    again = await meaning.nearness("how do I add a dependency?", TEXTS[::-1])
    assert again is not None
    assert list(again.values) == list(first.values)[::-1]
