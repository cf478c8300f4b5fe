"""The ONNX graph of all-MiniLM-L6-v2 in 8-bit integers, built from the published float weights.

The model is a BERT encoder (Devlin et al. 2019) of 6 layers; a text's vector is the mean of the last states of its word
pieces, scaled to length 1, according to its model card. Matrices become 8-bit integers with a scale for each column,
word vectors with one for each row; inputs of a product are quantised at run time. Operators of the domain
``com.microsoft`` are onnxruntime's own (ContribOperators.md).

The input is ``input_ids`` (batch, length), int32; the output ``vectors`` (batch, 384), float32. There is no mask: texts
are embedded one at a time, because a batch is not faster and would change the vectors.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

LAYERS, HEADS, DIMENSION = 6, 12, 384
EPSILON = 1e-12
"""Added to the variance in BERT's layer normalisation."""

LARGEST = 63
"""Weights use 7 bits: without VNNI instructions, onnxruntime adds two products of 8 bits in a 16-bit register, which
would overflow (``reduce_range`` in its quantisation guide). This costs 0.001 of cosine."""

_OPSET = 17
_IR_VERSION = 8
"""Supported by every onnxruntime of recent years."""

Weights = Mapping[str, NDArray[np.float32]]


def read_safetensors(data: bytes) -> dict[str, NDArray[np.float32]]:
    """The float tensors of a safetensors file, by name; views of ``data``.

    The format: 8 bytes little-endian length of a JSON header, the header, the tensors' bytes.
    """
    (length,) = struct.unpack_from("<Q", data)
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            start, end = entry["data_offsets"]
            flat = np.frombuffer(data, "<f4", (end - start) // 4, 8 + length + start)
            found[name] = flat.reshape(entry["shape"])
    return found


def build_graph(weights: Weights) -> bytes:
    """The bytes of the ONNX file, which depend only on the weights."""
    graph = _Graph(weights)
    states = graph.add_embedding()
    for layer in range(LAYERS):
        states = graph.add_layer(states, f"encoder.layer.{layer}")
    graph.add_pooling(states)
    return graph.finish()


class _Graph:
    """A graph under construction; methods return the name of their output."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = {}

    def add_embedding(self) -> str:
        """Add the sum of word, position and segment vectors, normalised. There is only one segment."""
        words, scales = _quantise(self._weights["embeddings.word_embeddings.weight"], axis=1)
        rows = self._node("Gather", self._constant("words", words), "input_ids")
        scale = self._node("Gather", self._constant("word_scales", scales[:, None]), "input_ids")
        vectors = self._node("Mul", self._node("Cast", rows, to=TensorProto.FLOAT), scale)
        segment = self._weights["embeddings.token_type_embeddings.weight"][0]
        positions = self._constant("positions", self._weights["embeddings.position_embeddings.weight"] + segment)
        length = self._node("Shape", "input_ids", start=1, end=2)
        zero = self._constant("zero", np.array([0], np.int64))
        placed = self._node("Add", vectors, self._node("Slice", positions, zero, length))
        gamma, beta = self._normalisation("embeddings.LayerNorm")
        return self._node("LayerNormalization", placed, gamma, beta, epsilon=EPSILON)

    def add_layer(self, states: str, layer: str) -> str:
        """Add a layer: attention, then two dense ones, each added to its input and normalised."""
        attended = self._attention(states, f"{layer}.attention.self")
        states = self._add_and_normalise(attended, states, f"{layer}.attention.output")
        inner = self._product(states, f"{layer}.intermediate.dense")
        active = self._node("BiasGelu", inner, self._float(f"{layer}.intermediate.dense.bias"), domain="com.microsoft")
        return self._add_and_normalise(active, states, f"{layer}.output")

    def add_pooling(self, states: str) -> None:
        """Add the mean over the word pieces, scaled to length 1."""
        mean = self._node("ReduceMean", states, axes=[1], keepdims=0)
        self._node("LpNormalization", mean, axis=1, p=2, output="vectors")

    def finish(self) -> bytes:
        """Serialise the model."""
        inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "length"])]
        outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", DIMENSION])]
        graph = helper.make_graph(self._nodes, "all-MiniLM-L6-v2", inputs, outputs, list(self._constants.values()))
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, producer_name="mnemosyne", ir_version=_IR_VERSION, opset_imports=opsets)
        written: bytes = model.SerializeToString(deterministic=True)
        return written

    def _attention(self, states: str, name: str) -> str:
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        matrix = np.concatenate([self._weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self._weights[f"{part}.bias"] for part in parts])
        packed, scales = _quantise(matrix, axis=0)
        scaled = self._nodes_of("DynamicQuantizeLinear", states, outputs=3)
        return self._node(
            "QAttention",
            scaled[0],
            self._constant(f"{name}.weight", packed),
            self._constant(f"{name}.bias", bias),
            scaled[1],
            self._constant(f"{name}.scale", scales),
            "",  # no mask: nothing is padded
            scaled[2],
            self._constant(f"{name}.zero_point", np.zeros_like(scales, np.int8)),
            num_heads=HEADS,
            domain="com.microsoft",
        )

    def _add_and_normalise(self, states: str, before: str, name: str) -> str:
        gamma, beta = self._normalisation(f"{name}.LayerNorm")
        inputs = [self._product(states, f"{name}.dense"), before, gamma, beta, self._float(f"{name}.dense.bias")]
        return self._node("SkipLayerNormalization", *inputs, epsilon=EPSILON, domain="com.microsoft")

    def _product(self, states: str, name: str) -> str:
        packed, scales = _quantise(self._weights[f"{name}.weight"].T, axis=0)
        matrix, scale = self._constant(f"{name}.weight", packed), self._constant(f"{name}.scale", scales)
        return self._node("DynamicQuantizeMatMul", states, matrix, scale, domain="com.microsoft")

    def _normalisation(self, name: str) -> tuple[str, str]:
        return self._float(f"{name}.weight"), self._float(f"{name}.bias")

    def _float(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def _node(self, operator: str, *inputs: str, output: str | None = None, **settings: Any) -> str:
        return self._nodes_of(operator, *inputs, names=[output] if output else None, **settings)[0]

    def _nodes_of(
        self,
        operator: str,
        *inputs: str,
        outputs: int = 1,
        names: list[str] | None = None,
        domain: str | None = None,
        **attributes: Any,
    ) -> list[str]:
        names = names or [f"{operator}_{len(self._nodes)}_{index}" for index in range(outputs)]
        self._nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names


def _quantise(matrix: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The matrix in integers from -LARGEST to LARGEST, and the scales over ``axis``."""
    scales = np.abs(matrix).max(axis=axis) / np.float32(LARGEST)
    integers = np.rint(matrix / np.expand_dims(scales, axis)).astype(np.int8)
    return integers, scales.astype(np.float32)
