"""The graph computes what the published model computes, as far as 8 bits go."""

import math
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
import tokenizers
from numpy.typing import NDArray

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.embedder import MiniLM
from mnemosyne.adapters.embedding.minilm_graph import Weights, build_graph, read_safetensors
from tests.adapters.model_cache import installed_model, wheel

TEXTS = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "def frobnicate(x: int) -> str:\n    return str(x + 0xdeadbeef)  # E1234\n",
    "x",
    "Every error says what, where and what to do. " * 6,
)

Array = NDArray[Any]


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    return model_files.from_file(wheel())


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM(installed_model())


def reference(weights: Weights, ids: list[int]) -> Array:
    """The model by its definition, in double precision."""
    erf = np.vectorize(math.erf)

    def normal(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled: Array = (
            centred / np.sqrt(x.var(-1, keepdims=True) + 1e-12) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        )
        return scaled

    def dense(x: Array, name: str) -> Array:
        return x @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]

    def heads(x: Array) -> Array:
        return x.reshape(len(ids), 12, 32).transpose(1, 0, 2)

    table = "embeddings.{}_embeddings.weight".format
    words, places = weights[table("word")][ids], weights[table("position")][: len(ids)]
    x = normal((words + places + weights[table("token_type")][0]).astype(np.float64), "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(6)):
        query, key, value = (heads(dense(x, f"{layer}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(32))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        out = dense(mixed.transpose(1, 0, 2).reshape(len(ids), 384), f"{layer}.attention.output.dense")
        x = normal(x + out, f"{layer}.attention.output.LayerNorm")
        inner = dense(x, f"{layer}.intermediate.dense")
        active = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        x = normal(x + dense(active, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    mean: Array = x.mean(0)
    direction: Array = mean / np.linalg.norm(mean)
    return direction


def test_the_reference_gives_the_similarities_that_the_model_card_documents(parts: dict[str, bytes]) -> None:
    weights = read_safetensors(parts["model.safetensors"])
    tokenizer = tokenizers.Tokenizer.from_buffer(parts["tokenizer.json"])
    tokenizer.no_padding()
    one, two, three = (reference(weights, tokenizer.encode(text).ids) for text in TEXTS[:3])
    assert [one @ two, one @ three, two @ three] == pytest.approx([0.6660, 0.1046, 0.1411], abs=1e-4)


@pytest.mark.parametrize("text", TEXTS)
def test_vectors_in_8_bits_point_where_the_exact_ones_do(text: str, parts: dict[str, bytes], model: MiniLM) -> None:
    weights = read_safetensors(parts["model.safetensors"])
    tokenizer = tokenizers.Tokenizer.from_buffer(parts["tokenizer.json"])
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    exact = reference(weights, tokenizer.encode(text).ids)
    assert exact @ np.array(model.vector(text)) > 0.97


def test_the_graph_is_the_one_that_vectors_were_made_with(parts: dict[str, bytes]) -> None:
    """Byte for byte: another graph would make other vectors, and needs another name (``model_files.NAME``)."""
    graph = build_graph(read_safetensors(parts["model.safetensors"]))
    assert sha256(graph).hexdigest() == "137b3a9fddcc560743715e85ca5807a4f5265451832473a792ac43695753cd7d"
