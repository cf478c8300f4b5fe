"""The graph of the model is pinned: its quality was checked against the float model when it was made."""

from hashlib import sha256

import pytest

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.minilm_graph import build_graph, read_safetensors
from tests.adapters.model_cache import wheel


@pytest.mark.release
def test_the_graph_is_built_byte_for_byte() -> None:
    """Another graph makes other vectors, and needs another name (``model_files.NAME``)."""
    graph = build_graph(read_safetensors(model_files.from_wheel(wheel())["model.safetensors"]))
    assert sha256(graph).hexdigest() == "137b3a9fddcc560743715e85ca5807a4f5265451832473a792ac43695753cd7d"
