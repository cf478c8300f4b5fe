"""The model in OpenVINO with bfloat16 products: about four times as fast as numpy on a processor that has them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.likelihood.model import GROUPS, HEADS, LAYERS, SIZE, STEP, Floats, Weights, rotations


class OpenvinoEngine:
    """An engine in OpenVINO. Lengths are filled up to a multiple of ``STEP``, because it prepares for each shape."""

    def __init__(self, weights: Weights, threads: int) -> None:
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "bf16"}
        self._base, self._embeddings = weights.base, weights.embeddings
        self._body: Any = core.compile_model(_body(weights), "CPU", settings)
        self._head: Any = core.compile_model(_head(weights), "CPU", settings)

    def run(self, tokens: Sequence[int], past: Floats) -> tuple[Floats, Floats]:
        count, before = len(tokens), past.shape[3]
        room = -(-count // STEP) * STEP
        rows = np.zeros((room, self._embeddings.shape[1]), np.float32)
        rows[:count] = self._embeddings[list(tokens)]
        cosines, sines = rotations(range(before, before + room), self._base)
        seen = np.arange(before + room)[None] <= np.arange(before, before + room)[:, None]
        mask = np.where(seen, np.float32(0), np.float32(-1e9))
        held = np.ascontiguousarray(past.reshape(2 * LAYERS, GROUPS, before, SIZE))
        done = self._body([rows, held, cosines, sines, mask])
        own = done[1].reshape(LAYERS, 2, GROUPS, room, SIZE)
        return done[0][:count], own[:, :, :, :count]

    def losses(self, hidden: Floats, tokens: Sequence[int]) -> Floats:
        logits = self._head([hidden])
        found: Floats = logits[1] - logits[0][np.arange(len(tokens)), list(tokens)]
        return found


def _body(weights: Weights) -> Any:
    import openvino
    from openvino import opset13 as op

    def constant(value: object) -> Any:
        return op.constant(np.asarray(value, np.float32))

    def product(rows: Any, weight: Floats) -> Any:
        return op.matmul(rows, constant(weight), False, True)

    def normalized(rows: Any, weight: Floats) -> Any:
        mean = op.reduce_mean(op.multiply(rows, rows), op.constant([-1]), True)
        return op.multiply(op.divide(rows, op.sqrt(op.add(mean, constant(weights.epsilon)))), constant(weight))

    def heads(rows: Any, count: int) -> Any:
        return op.transpose(op.reshape(rows, op.constant([-1, count, SIZE]), False), op.constant([1, 0, 2]))

    def rotated(rows: Any) -> Any:
        first, second = op.split(rows, op.constant(2), 2).outputs()
        turned = op.subtract(op.multiply(first, cosines), op.multiply(second, sines))
        rest = op.add(op.multiply(second, cosines), op.multiply(first, sines))
        return op.concat([turned, rest], 2)

    def for_queries(rows: Any) -> Any:
        shape = op.constant([GROUPS, HEADS // GROUPS, 1, 1])
        repeated = op.broadcast(op.unsqueeze(rows, op.constant(1)), shape, broadcast_spec="BIDIRECTIONAL")
        return op.reshape(repeated, op.constant([1, HEADS, -1, SIZE]), False)

    rows = op.parameter([-1, HEADS * SIZE], np.float32)
    past = op.parameter([2 * LAYERS, GROUPS, -1, SIZE], np.float32)
    cosines, sines = (op.parameter([-1, SIZE // 2], np.float32) for _ in range(2))
    mask = op.parameter([-1, -1], np.float32)
    hidden, own = rows, []
    for layer, held in enumerate(zip(*[iter(op.split(past, op.constant(0), 2 * LAYERS).outputs())] * 2, strict=True)):
        asked = normalized(hidden, weights.of(layer, "attn_norm"))
        queries = op.unsqueeze(rotated(heads(product(asked, weights.of(layer, "attn_q")), HEADS)), op.constant(0))
        pair = [
            op.unsqueeze(rotated(heads(product(asked, weights.of(layer, "attn_k")), GROUPS)), op.constant(0)),
            op.unsqueeze(heads(product(asked, weights.of(layer, "attn_v")), GROUPS), op.constant(0)),
        ]
        own += pair
        keys, values = (
            for_queries(op.squeeze(op.concat([before, new], 2), op.constant([0])))
            for before, new in zip(held, pair, strict=True)
        )
        mixed = op.scaled_dot_product_attention(queries, keys, values, mask)
        mixed = op.reshape(op.transpose(mixed, op.constant([0, 2, 1, 3])), op.constant([-1, HEADS * SIZE]), False)
        hidden = op.add(hidden, product(mixed, weights.of(layer, "attn_output")))
        asked = normalized(hidden, weights.of(layer, "ffn_norm"))
        gate = op.swish(product(asked, weights.of(layer, "ffn_gate")))
        widened = op.multiply(gate, product(asked, weights.of(layer, "ffn_up")))
        hidden = op.add(hidden, product(widened, weights.of(layer, "ffn_down")))
    last = normalized(hidden, weights.by_name["output_norm.weight"])
    return openvino.Model([last, op.concat(own, 0)], [rows, past, cosines, sines, mask])


def _head(weights: Weights) -> Any:
    import openvino
    from openvino import opset13 as op

    hidden = op.parameter([-1, HEADS * SIZE], np.float32)
    logits = op.matmul(hidden, op.constant(weights.embeddings), False, True)
    highest = op.reduce_max(logits, op.constant([1]), True)
    total = op.reduce_sum(op.exp(op.subtract(logits, highest)), op.constant([1]), True)
    return openvino.Model([logits, op.squeeze(op.add(op.log(total), highest), op.constant([1]))], [hidden])
