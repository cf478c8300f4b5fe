"""Which provider errors state a model's context window."""

from typing import Any

import pytest

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.too_long import TooLong

OPENAI = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens."


@pytest.mark.parametrize(
    ("dialect", "message", "expected"),
    [
        (MESSAGES, "prompt is too long: 234567 tokens > 200000 maximum", TooLong(200_000, 234_567)),
        (MESSAGES, "messages.1: prompt is too long: 9 tokens > 8 maximum", None),
        (MESSAGES, "prompt is too long: 9 tokens > 0 maximum", None),
        (MESSAGES, "prompt is too long", None),
        (MESSAGES, OPENAI, None),
        (CHAT, OPENAI, TooLong(128_000)),
        (RESPONSES, OPENAI, TooLong(128_000)),
        (CHAT, f"Your file says: {OPENAI}", None),
        (CHAT, "prompt is too long: 234567 tokens > 200000 maximum", None),
        (RESPONSES, "Your input exceeds the context window of this model.", None),
    ],
)
def test_a_window_is_read_from_the_providers_own_error_message(
    dialect: Dialect, message: str, expected: TooLong | None
) -> None:
    assert dialect.read_too_long({"message": message, "code": "context_length_exceeded"}) == expected


LLAMA = {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}


@pytest.mark.parametrize("dialect", [MESSAGES, CHAT, RESPONSES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"n_prompt_tokens": 9_000, "n_ctx": 8_192}, TooLong(8_192, 9_000)),
        ({"n_ctx": 8_192}, TooLong(8_192)),
        ({"n_prompt_tokens": 9_000}, None),
        ({"n_ctx": 0}, None),
        ({"n_ctx": True}, None),
        ({"n_ctx": "8192"}, None),
        ({"n_ctx": 8_192, "type": "invalid_request_error"}, None),
    ],
)
def test_llama_cpps_window_is_read_in_every_dialect(
    dialect: Dialect, members: dict[str, Any], expected: TooLong | None
) -> None:
    assert dialect.read_too_long(LLAMA | members) == expected


@pytest.mark.parametrize("dialect", [MESSAGES, CHAT, RESPONSES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("error", [{}, {"message": None}, {"message": 7}, {"message": ["prompt is too long"]}])
def test_an_error_without_a_message_states_nothing(dialect: Dialect, error: dict[str, Any]) -> None:
    assert dialect.read_too_long(error) is None
