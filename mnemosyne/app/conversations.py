"""Searching a conversation that is in a file: with the model if it is installed, and without the log."""

import os
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from mnemosyne.adapters.embedding.conversation_index import index_conversation
from mnemosyne.adapters.embedding.embedder import HashedLexical, open_embedder
from mnemosyne.domain.recall.retrieval import Embedder, Hit
from mnemosyne.services.conversation_files import ConversationLine, SearchQuery

MOST_THREADS = 4


def open_model(data_dir: Path) -> Embedder | None:
    """The model that compares meaning; None without one: hashed words know nothing that words do not."""
    opened = open_embedder(data_dir, threads=min(os.cpu_count() or 1, MOST_THREADS))
    return None if isinstance(opened, HashedLexical) else opened


async def search_conversation(
    lines: Sequence[ConversationLine],
    queries: Sequence[SearchQuery],
    model: Embedder | None,
    limit: int,
    bars: Callable[[str], AbstractContextManager[Callable[[int, int], None]]],
) -> list[list[Hit[Hashable]]]:
    """For each query the best messages, the best first."""
    with bars("reading") as progress:
        index = await index_conversation(lines, model, progress)
    with bars("searching") as progress:
        return await index.search([query.text for query in queries], limit, progress)
