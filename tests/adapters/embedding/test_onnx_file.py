"""What is written is an ONNX file: its reader finds every part of it."""

from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import pytest
from numpy.typing import NDArray

from mnemosyne.adapters.embedding import onnx_file
from mnemosyne.adapters.embedding.onnx_file import Port

AT_ONE = {"epsilon": 1e-5, "axis": 1}


def test_a_graph_of_every_part_computes_what_it_says() -> None:
    """Constants of one and two axes, settings of each type, an operator of another domain, an axis without a size."""
    constants: dict[str, NDArray[Any]] = {
        "matrix": np.array([[1, 2], [3, 4], [5, 6]], np.float32),
        "bias": np.array([10, -20], np.float32),
        "start": np.array([1], np.int64),
        "end": np.array([300], np.int64),
    }
    nodes = [
        onnx_file.node("Cast", ["x"], ["real"], None, {"to": onnx_file.FLOAT}),
        onnx_file.node("MatMul", ["real", "matrix"], ["product"], None, {}),
        onnx_file.node("BiasGelu", ["product", "bias"], ["active"], "com.microsoft", {}),
        onnx_file.node(
            "LayerNormalization", ["active", "bias", "bias"], ["normal"], None, {"epsilon": 1e-5, "axis": 1}
        ),
        onnx_file.node("Slice", ["normal", "start", "end"], ["rest"], None, {}),
        onnx_file.node("ReduceMean", ["rest"], ["y"], None, {"axes": [0, 1], "keepdims": 0}),
    ]
    graph = onnx_file.graph(
        "a graph",
        nodes,
        [onnx_file.tensor(name, value) for name, value in constants.items()],
        [Port("x", onnx_file.INT32, ["batch", 3])],
        [Port("y", onnx_file.FLOAT, [])],
    )
    data = onnx_file.model(graph, "a test", 8, {"": 17, "com.microsoft": 1})
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.array([[9, 9, 9], [1, 0, 0], [0, 1, 2]], np.int32)})
    # GELU leaves what is large, and nothing of what is far below zero; normalised, two numbers are 1 and -1.
    assert found == pytest.approx(((10 * 1 + 10) + (-20 * -1 - 20)) / 2)
    assert session.get_inputs()[0].shape == ["batch", 3]


def test_a_length_takes_as_many_bytes_as_it_needs() -> None:
    sizes = [len(onnx_file.model(b"x" * size, "", 0, {})) - size for size in (127, 128, 16_383, 16_384)]
    assert [size - sizes[0] for size in sizes] == [0, 1, 1, 2]
