"""How near entries are in meaning to a question: their vectors, made when they are first asked for, and kept."""

from array import array
from collections.abc import Sequence
from operator import mul
from pathlib import Path

import trio

from mnemosyne.adapters.embedding.embedder import HashedLexical, open_embedder
from mnemosyne.bounded import Lru
from mnemosyne.domain.knowledge.recalling import Nearness
from mnemosyne.domain.recall.retrieval import Embedder

HELD = 10_000
"""Texts whose vectors are kept, 1.5 kB each."""


class EntryMeaning:
    """See ``services.knowledge.Meaning``. The model of a data directory is opened with the first question; where there
    is none, meaning says nothing.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._embedder: Embedder | None = None
        self._tried = False
        self._held: Lru[str, array[float]] = Lru(HELD)

    async def nearness(self, question: str, texts: Sequence[str]) -> Nearness | None:
        """The dot product of each text's vector with the question's; None without a model."""
        if not self._tried:
            opened = await trio.to_thread.run_sync(open_embedder, self._data_dir)
            self._embedder = None if isinstance(opened, HashedLexical) else opened
            self._tried = True
        if self._embedder is None:
            return None
        new = [text for text in dict.fromkeys((question, *texts)) if self._held.get(text) is None]
        made = dict(zip(new, await self._embedder.embed(new), strict=True))
        for text, vector in made.items():
            self._held.put(text, vector)

        def find(text: str) -> "array[float]":
            held = made.get(text) or self._held.get(text)
            assert held is not None
            return held

        asked = find(question)
        return Nearness([sum(map(mul, asked, find(text))) for text in texts], self._embedder.calibration)
