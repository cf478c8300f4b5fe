"""SmolLM2 with 135 million parameters: its tokens, its weights, and the likelihood of tokens.

``Engine`` computes the last hidden states in float32: with NumPy, or on a GPU with CuPy, whose arrays NumPy's functions
take as well. A score costs 0.21 billion multiplications a token, so sequences of one group share the cached keys and
values of their common beginning.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

LAYERS, HEADS, GROUPS, SIZE = 30, 9, 3, 64
"""Layers, heads of queries, heads of keys and values, and the size of a head."""


@attrs.frozen(eq=False)
class Weights:
    """The weights by their names in the file, as float32 with one row for each output."""

    by_name: Mapping[str, Floats]
    base: float
    epsilon: float

    def of(self, layer: int, name: str) -> Floats:
        return self.by_name[f"blk.{layer}.{name}.weight"]

    @property
    def embeddings(self) -> Floats:
        return self.by_name["token_embd.weight"]


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]:
        """The tokens of a text. Marks of a chat such as ``<|im_start|>`` are one token."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""


def open_model(path: Path) -> tuple[Weights, Tokenizer]:
    """Read a GGUF file. Needs the packages ``gguf`` and ``tokenizers``."""
    import gguf

    reader = gguf.GGUFReader(path)
    value = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
    tensors = {each.name: gguf.dequantize(each.data, each.tensor_type) for each in reader.tensors}
    for name in tensors:
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            tensors[name] = _halves(tensors[name])
    words = {name: reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type")}
    weights = Weights(tensors, value["llama.rope.freq_base"], value["llama.attention.layer_norm_rms_epsilon"])
    return weights, _Bpe(words["tokens"], words["merges"], words["token_type"])


def _halves(rows: Floats) -> Floats:
    """The rows of each head with its even dimensions before the odd ones: rotation then pairs halves."""
    return np.ascontiguousarray(rows.reshape(-1, SIZE // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape))


class _Bpe:
    """The byte-level tokenizer of the file; single digits are tokens."""

    def __init__(self, tokens: Sequence[str], merges: Sequence[str], types: Sequence[int]) -> None:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

        numbers = {token: number for number, token in enumerate(tokens)}
        pairs = [(first, second) for first, _, second in (merge.partition(" ") for merge in merges)]
        self._inner: Any = Tokenizer(models.BPE(vocab=numbers, merges=pairs))
        digits, words = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._inner.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
        self._inner.decoder = decoders.ByteLevel()
        control = 3
        special = [token for token, kind in zip(tokens, types, strict=True) if kind == control]
        self._inner.add_special_tokens([AddedToken(each, normalized=False) for each in special])

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._inner.decode(list(tokens), skip_special_tokens=False))


class Engine:
    """Computes hidden states with ``numpy`` or ``cupy``. ``past`` has shape (LAYERS, 2, GROUPS, tokens, SIZE)."""

    def __init__(self, weights: Weights, arrays: Any = np) -> None:
        held = {name: arrays.asarray(each) for name, each in weights.by_name.items()}
        self._arrays, self._weights = arrays, attrs.evolve(weights, by_name=held)

    def run(self, tokens: Sequence[int], past: Floats) -> tuple[Floats, Floats]:
        """The normalized last hidden states of tokens that follow ``past``, and their own keys and values."""
        weights, epsilon = self._weights, self._weights.epsilon
        count, before = len(tokens), past.shape[3]
        cosines, sines = map(self._arrays.asarray, rotations(range(before, before + count), weights.base))
        turns, past = (cosines, sines), self._arrays.asarray(past)
        hidden = weights.embeddings[list(tokens)]
        own = self._arrays.empty((LAYERS, 2, GROUPS, count, SIZE), np.float32)
        seen = self._arrays.arange(before + count)[None] <= self._arrays.arange(before, before + count)[:, None]
        for layer in range(LAYERS):
            rows = _normalized(hidden, weights.of(layer, "attn_norm"), epsilon)
            queries, keys, values = (
                (rows @ weights.of(layer, name).T).reshape(count, -1, SIZE).swapaxes(0, 1)
                for name in ("attn_q", "attn_k", "attn_v")
            )
            own[layer, 0], own[layer, 1] = _rotate(keys, turns), values
            keys, values = (np.concatenate((past[layer, side], own[layer, side]), 1) for side in range(2))
            grouped = _rotate(queries, turns).reshape(GROUPS, -1, SIZE)
            scores = (grouped @ keys.swapaxes(1, 2)).reshape(GROUPS, HEADS // GROUPS, count, -1) / np.float32(8)
            scores = np.where(seen, scores, np.float32(-1e9))
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            mixed = (scores.reshape(GROUPS, -1, before + count) @ values).reshape(HEADS, count, SIZE)
            hidden = hidden + mixed.swapaxes(0, 1).reshape(count, -1) @ weights.of(layer, "attn_output").T
            rows = _normalized(hidden, weights.of(layer, "ffn_norm"), epsilon)
            gate = rows @ weights.of(layer, "ffn_gate").T
            gate = gate / (1 + np.exp(-gate)) * (rows @ weights.of(layer, "ffn_up").T)
            hidden = hidden + gate @ weights.of(layer, "ffn_down").T
        return _normalized(hidden, weights.by_name["output_norm.weight"], epsilon), own

    def losses(self, hidden: Floats, tokens: Sequence[int]) -> Floats:
        """The negative log-likelihood in nats of the token after each hidden state."""
        logits = hidden @ self._weights.embeddings.T
        highest = logits.max(-1, keepdims=True)
        totals = np.log(np.exp(logits - highest).sum(-1)) + highest[:, 0]
        found = totals - logits[self._arrays.arange(len(tokens)), self._arrays.asarray(tokens)]
        return np.asarray(found.tolist(), np.float32)


def rotations(positions: Sequence[int], base: float) -> tuple[Floats, Floats]:
    """The cosines and sines of positions, for each half of a head."""
    angles = np.outer(positions, base ** (-np.arange(0, SIZE, 2) / SIZE))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotate(heads: Floats, turns: tuple[Floats, Floats]) -> Floats:
    cosines, sines = turns
    first, second = heads[..., : SIZE // 2], heads[..., SIZE // 2 :]
    return np.concatenate((first * cosines - second * sines, second * cosines + first * sines), -1)


def _normalized(rows: Floats, weight: Floats, epsilon: float) -> Floats:
    scaled: Floats = rows / np.sqrt((rows * rows).mean(-1, keepdims=True) + np.float32(epsilon)) * weight
    return scaled


@attrs.frozen
class Scored:
    """A sequence whose tokens from number ``first`` on (at least 1) are scored."""

    tokens: Sequence[int]
    first: int


NOTHING_PAST: Floats = np.empty((LAYERS, 2, GROUPS, 0, SIZE), np.float32)


def score(engine: Engine, sequences: Sequence[Scored]) -> list[Floats]:
    """The negative log-likelihood in nats of each scored token. Later sequences share the beginning of the first."""
    held: Sequence[int] = ()
    past = NOTHING_PAST
    found = []
    for number, each in enumerate(sequences):
        shared = min(_count_common(held, each.tokens), each.first - 1)
        hidden, own = engine.run(each.tokens[shared:], past[:, :, :, :shared])
        if number == 0:
            held, past = each.tokens, own
        found.append(engine.losses(hidden[each.first - 1 - shared : -1], each.tokens[each.first :]))
    return found


def _count_common(first: Sequence[int], second: Sequence[int]) -> int:
    return next(
        (number for number, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]),
        min(len(first), len(second)),
    )
