"""Embedders: each text has one vector of length 1."""

import json
import math
import sys
from array import array
from pathlib import Path

import pytest
import tokenizers
import trio

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.embedder import LONGEST_WORD, MOST_PIECES, EntryMeaning, LocalModel, MiniLM
from mnemosyne.adapters.embedding.model_files import ModelFiles
from mnemosyne.domain.knowledge.block import MOST_RELEVANT, compose
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.recalling import EntryIndex
from mnemosyne.domain.text.passages import passages
from tests.adapters.model_cache import FOLDER, installed_model
from tests.domain.knowledge.support import FIRST, HERE, KnowledgePlace
from tests.domain.recorded import sessions
from tests.not_none import not_none

ODD = [
    "",
    " \n ",
    "x",
    "[SEP] [PAD]",
    "修复认证中间件 Привет 한국어 ไทย",
    "a" * 5_000_000,
    "\ud800",
    "words and more " * 2_000,
]


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    return installed_model()


@pytest.fixture(scope="module")
def model(files: ModelFiles) -> MiniLM:
    return MiniLM(files, threads=2)


STORED = [
    ("The weather is lovely today.", [101, 1996, 4633, 2003, 8403, 2651, 1012, 102], [0.0238, 0.1343, 0.1532, 0.0656]),
    (
        "def frobnicate(x: int) -> str:  # E1234",
        [
            *(101, 13366, 10424, 16429, 12782, 2618, 1006, 1060, 1024, 20014, 1007, 1011, 1028),
            *(2358, 2099, 1024, 1001, 1041, 12521, 22022, 102),
        ],
        [0.0066, 0.0598, -0.0238, 0.0014],
    ),
    (
        "Straße İstanbul café 修复 [SEP] a\ud800b",
        [101, 2358, 27807, 9960, 7668, 100, 100, 1031, 19802, 1033, 1037, 1029, 1038, 102],
        [0.0511, 0.0109, -0.0247, 0.0515],
    ),
]
"""Texts with their word pieces and the first values of their vectors, of version int8-1 of the model."""


def dot(one: "array[float]", other: "array[float]") -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_every_text_has_a_vector_of_length_one(model: MiniLM) -> None:
    vectors = await model.embed(ODD)
    assert [len(vector) for vector in vectors] == [model.dimension] * len(ODD)
    for vector in vectors:
        assert math.hypot(*vector) == pytest.approx(1, abs=1e-3)


async def test_the_vector_of_a_text_does_not_depend_on_the_batch(model: MiniLM) -> None:
    texts = [f"text number {number} " * (number + 1) for number in range(30)]
    together = await model.embed(texts)
    assert together == [(await model.embed([text]))[0] for text in texts]


@pytest.mark.parametrize(("text", "pieces", "start"), STORED)
def test_vectors_match_those_that_earlier_releases_stored(
    model: MiniLM, text: str, pieces: list[int], start: list[float]
) -> None:
    """Other vectors need another name (``model_files.NAME``), so that the index is built again."""
    assert model.word_pieces(text) == pieces
    assert model.vector(text)[:4].tolist() == pytest.approx(start, abs=0.002)


@pytest.mark.parametrize(
    "text", ["a" * (LONGEST_WORD + 1), "x" * 200_000, "ab " * 2_000, "[SEP] [UNK]", "a\ud800b", "\0\x7f\u00ad"]
)
def test_at_most_256_word_pieces_are_read_and_none_is_special(model: MiniLM, text: str) -> None:
    pieces = model.word_pieces(text)
    assert 2 <= len(pieces) <= MOST_PIECES
    assert (pieces[0], pieces[-1]) == (101, 102)
    assert not {101, 102} & set(pieces[1:-1])


async def test_a_related_text_is_nearer(model: MiniLM) -> None:
    query, related, other = await model.embed(
        ["fix the token refresh in auth", "auth refreshes the token twice", "a lovely sunny day in Paris"]
    )
    assert dot(query, related) > dot(query, other) + 0.2


async def test_a_cancelled_caller_does_not_wait_for_the_rest(model: MiniLM) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await model.embed(["a text"] * 100_000)
    assert scope.cancelled_caught
    assert len(await model.embed(["and then it works"])) == 1


async def test_a_missing_runtime_or_a_damaged_model_leaves_words_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = model_files.put_in_place(tmp_path, {"model.onnx": b"graph", "tokenizer.json": b"{}"})
    (folder / "model.onnx").write_bytes(b"gra")
    model = LocalModel(tmp_path)
    assert [await model.get(), await model.get()] == [None, None]
    assert caplog.text.count("model install") == 1
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert await LocalModel(tmp_path).get() is None
    assert "mnemosyne-proxy[embedding]" in caplog.text


@pytest.mark.release
def test_passages_of_recorded_sessions_fit_into_the_model(files: ModelFiles) -> None:
    tokenizer = tokenizers.Tokenizer.from_buffer(files.tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = [str(message["content"]) for session in sessions(every=120) for message in session["messages"]]
    cut = [text[part.start : part.end] for text in texts for part in passages(text)]
    sizes = [len(encoded.ids) for encoded in tokenizer.encode_batch(cut)]
    assert sum(size > MOST_PIECES for size in sizes) <= len(sizes) / 1000
    assert max(sizes) <= MOST_PIECES * 1.1


TEXTS = ["We install packages with pnpm", "The parser reads dates", "Answers are to be short"]


async def test_a_model_is_used_as_soon_as_it_is_installed(tmp_path: Path, files: ModelFiles) -> None:
    local = LocalModel(tmp_path)
    meaning = EntryMeaning(local)
    assert await meaning.nearness("which package manager?", TEXTS) is None
    model_files.put_in_place(
        tmp_path, {model_files.GRAPH_FILE: files.graph, model_files.TOKENIZER_FILE: files.tokenizer}
    )
    first = not_none(await meaning.nearness("how do I add a dependency?", TEXTS))
    assert first.values[0] == max(first.values)
    again = not_none(await meaning.nearness("how do I add a dependency?", TEXTS[::-1]))
    assert list(again.values) == list(first.values)[::-1]
    assert await LocalModel(tmp_path, is_wanted=False).get() is None


@pytest.mark.usefixtures("files")
async def test_a_first_prompt_finds_notes_that_say_the_same_in_other_words() -> None:
    """``notes.json`` was written before the code: 24 notes of one project, for each a prompt that needs it and shares
    hardly a word with it, and 12 prompts that need none.
    """
    sample = json.loads(Path(__file__).with_name("notes.json").read_text(encoding="utf-8"))
    place, meaning = KnowledgePlace(), EntryMeaning(LocalModel(FOLDER))
    for each in sample["pairs"]:
        place.remember(each["note"], kind=EntryKind.FACT)
    known = [(HERE, place.known)]
    index = EntryIndex(known)

    async def list_inserted(prompt: str, comparing: EntryMeaning | None) -> str:
        among = index.shortlist(prompt, FIRST)
        near = comparing and await comparing.nearness(prompt, [each.entry.content for each in among])
        block = compose(known, index.recall(prompt, FIRST, MOST_RELEVANT, among, near or None), FIRST, str)
        return block.text if block is not None else ""

    async def count_own(comparing: EntryMeaning | None) -> int:
        return sum([each["note"] in await list_inserted(each["prompt"], comparing) for each in sample["pairs"]])

    assert await count_own(None) == 0
    assert await count_own(meaning) >= 12  # 14 where this was written
    assert [await list_inserted(each, meaning) for each in sample["foreign"]] == [""] * 12
