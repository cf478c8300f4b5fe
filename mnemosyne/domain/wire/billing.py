"""The billing line that Claude Code puts in front of its system prompt. It changes with each prompt."""

import json

from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.transcript import Transcript

BILLING = "x-anthropic-billing-header:"
"""How the first block of a system prompt begins if it is billing data and not part of the prompt (Claude Code 2.1.329).
"""


FRONT = 200
"""How many bytes at the start of a system prompt are searched for the billing line."""


def begins_with_billing(read: Transcript) -> bool:
    """Return whether the system prompt of a request may begin with the billing line."""
    start = read.member_range("system")[0]
    return start > 0 and BILLING.encode() in read.raw[start : start + FRONT]


def drop_billing_line(system: bytes) -> bytes:
    """Return the JSON of a system prompt without the billing line, so that the beginning of the prompt stays the same.
    Anthropic's API removes the line itself; other providers do not. A prompt that holds nothing else is returned
    unchanged.
    """
    blocks = json_spans.elements(system, 0) or ()
    first = system[slice(*blocks[0])] if len(blocks) > 1 else b""
    if BILLING.encode() not in first or not str(json.loads(first).get("text")).startswith(BILLING):
        return system
    return b"[" + system[blocks[1][0] :]
