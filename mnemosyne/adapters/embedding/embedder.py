"""The embedding model all-MiniLM-L6-v2. The only import of onnxruntime and tokenizers, which the extra ``[embedding]``
installs.

Embedding takes up to 17 ms a text (256 word pieces on one core), so it runs in its own threads, in small batches: a
cancelled caller waits for one batch only.
"""

import logging
from array import array
from collections.abc import Iterator, Sequence
from operator import mul
from pathlib import Path

import trio

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.model_files import ModelFiles
from mnemosyne.bounded import Lru
from mnemosyne.domain.knowledge.recalling import Nearness
from mnemosyne.domain.recall.retrieval import Calibration
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
    calibration = Calibration(nearness=16.0, coverage=10.8, base=-10.2, near=0.5)
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
        """The vectors of all texts in order, from as many threads as the limiter allows."""
        found: list[Vectors] = []

        async def run(place: int, batch: Sequence[str]) -> None:
            found[place] = await trio.to_thread.run_sync(
                lambda: [self.vector(text) for text in batch], limiter=self._limiter
            )

        async with trio.open_nursery() as nursery:
            for batch in _batches(texts, self.texts_at_once * _PASSAGE_CHARACTERS):
                found.append([])
                nursery.start_soon(run, len(found) - 1, batch)
        return [one for some in found for one in some]

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


class LocalModel:
    """The model of a data directory, opened when it is first needed: it may be installed later."""

    def __init__(self, data_dir: Path, *, is_wanted: bool = True, threads: int = 1) -> None:
        self._data_dir = data_dir
        self._is_wanted = is_wanted
        self._threads = threads
        self._opened: MiniLM | None = None
        self._tried: int | None = None
        self._opening = trio.Lock()

    async def get(self) -> MiniLM | None:
        """The model; None if it is not wanted, not installed yet, or damaged."""
        async with self._opening:
            if self._opened is None and self._is_wanted:
                installed_at = model_files.find_time(self._data_dir)
                if installed_at not in (None, self._tried):
                    self._opened = await trio.to_thread.run_sync(self._open)
                    self._tried = installed_at
            return self._opened

    def _open(self) -> MiniLM | None:
        try:
            files = model_files.find_installed(self._data_dir)
            return MiniLM(files, threads=self._threads) if files else None
        except BadConfiguration as error:
            log.warning("%s Until then, search uses words only.", error)
            return None


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
    """See ``services.knowledge.Meaning``."""

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self._held: Lru[str, array[float]] = Lru(HELD_TEXTS)

    async def nearness(self, question: str, texts: Sequence[str]) -> Nearness | None:
        """The dot product of each text's vector with the question's; None without a model."""
        model = await self._model.get()
        if model is None:
            return None
        new = [text for text in dict.fromkeys((question, *texts)) if self._held.get(text) is None]
        made = dict(zip(new, await model.embed(new), strict=True))
        for text, vector in made.items():
            self._held.put(text, vector)

        def find(text: str) -> "array[float]":
            held = made.get(text) or self._held.get(text)
            assert held is not None
            return held

        asked = find(question)
        return Nearness([sum(map(mul, asked, find(text))) for text in texts], model.calibration)
