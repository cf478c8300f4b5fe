r"""A language model of random weights, 2 MB, for a real local server. It needs the package ``gguf``:

python tiny_model.py OUT.gguf [WORD] < TEXT

Its vocabulary comes from the text, so that a token has about the length of a real model's. WORD is one more word,
with which it begins wherever it may.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, LAYERS, INNER = 64, 4, 2, 128
CONTEXT = 131_072
"""Tokens that it was trained with, as it says."""

WORDS = 3000
"""Pieces of words that it knows at most, besides single bytes."""

CERTAIN = 8.0
"""A weight beside which the random ones are small."""

SPACE = "\u2581"

TEMPLATE = """\
{%- set rest = messages[1:] if messages[0].role == 'system' else messages -%}
{%- set turn = namespace(users=true, open=0) -%}
{%- for message in rest -%}
  {%- if message.role not in ('user', 'assistant', 'tool') -%}
    {{- raise_exception('Only user, assistant and tool roles are supported here, not ' ~ message.role) -}}
  {%- endif -%}
  {%- if message.role == 'tool' -%}
    {%- if turn.open == 0 -%}{{- raise_exception('A result without a call') -}}{%- endif -%}
    {%- set turn.open = turn.open - 1 -%}
  {%- else -%}
    {%- if turn.open -%}{{- raise_exception('Not the same number of function calls and responses') -}}{%- endif -%}
    {%- if message.tool_calls -%}
      {%- set turn.open = message.tool_calls | length -%}
    {%- elif (message.role == 'user') != turn.users -%}
      {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') -}}
    {%- else -%}
      {%- set turn.users = not turn.users -%}
    {%- endif -%}
  {%- endif -%}
{%- endfor -%}
{{- bos_token -}}
{%- if messages[0].role == 'system' -%}[SYSTEM]{{- messages[0].content -}}{%- endif -%}
{%- if tools -%}[TOOLS]{{- tools | tojson -}}{%- endif -%}
{%- for message in rest -%}
  {%- if message.role == 'user' -%}
    [USER]{{- message.content -}}
  {%- elif message.role == 'tool' -%}
    [RESULT]{{- message.content -}}
  {%- else -%}
    [MODEL]{{- message.content or '' -}}
    {%- for call in message.tool_calls or () -%}[CALL]{{- call.function.name -}}{{- call.function.arguments -}}
    {%- endfor -%}
    {{- eos_token -}}
  {%- endif -%}
{%- endfor -%}
[MODEL]"""
"""As strict as real ones are: turns alternate where calls and results are left out, and each call has its result."""


def list_pieces(text: str) -> list[str]:
    """The pieces of the words of a text, including prefixes, so that each word can be assembled from them."""
    found: dict[str, int] = {}
    for word in re.findall(r" ?[A-Za-z_]{2,}| ?[0-9]{2,}|[^\sA-Za-z0-9]{2,}", text):
        whole = word.replace(" ", SPACE)
        for end in range(2, len(whole) + 1):
            found[whole[:end]] = found.get(whole[:end], 0) + 1
    return sorted(found, key=lambda each: (-found[each], each))[:WORDS]


def write(place: Path, pieces: Sequence[str], favourite: str | None = None) -> None:
    """Write the model's file."""
    kinds = gguf.TokenType
    single = [chr(each) for each in range(33, 127)] + [SPACE]
    pieces = [*pieces, *([favourite] if favourite else [])]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{each:02X}>" for each in range(256)), *single, *pieces]
    types = [
        kinds.UNKNOWN,
        kinds.CONTROL,
        kinds.CONTROL,
        *[kinds.BYTE] * 256,
        *[kinds.NORMAL] * len([*single, *pieces]),
    ]
    scores = [0.0] * (259 + len(single)) + [float(len(piece)) for piece in pieces]
    writer = gguf.GGUFWriter(str(place), "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(1)

    def add(name: str, *shape: int, spread: float = 0.05) -> None:
        weights = (random.standard_normal(shape) * spread).astype(np.float32)
        if favourite and name.endswith(("attn_output.weight", "ffn_down.weight")):
            weights[0] = 0.0  # so the first number between the layers is the same for every input
        if favourite and name == "token_embd.weight":
            weights[:, 0] = [CERTAIN if token.endswith("]") else -CERTAIN for token in tokens]  # as its prompts end
        writer.add_tensor(name, weights)

    add("token_embd.weight", len(tokens), WIDTH, spread=1.0)
    output = random.standard_normal((len(tokens), WIDTH)).astype(np.float32)
    output[: 259 + len(single)] = 0.0  # it produces whole words, and never ends by itself
    if favourite:
        output[-1] = [CERTAIN * CERTAIN, *[0.0] * (WIDTH - 1)]
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, dtype=np.float32))
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, dtype=np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_gate.weight", INNER, WIDTH)
        add(f"blk.{layer}.ffn_up.weight", INNER, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), list_pieces(sys.stdin.read()), *sys.argv[2:])
