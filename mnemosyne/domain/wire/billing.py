"""The line that Claude Code puts in front of its system prompt for its provider's accounts, anew with each prompt."""

import json

from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.transcript import Transcript

BILLING = "x-anthropic-billing-header:"
"""A first block of the system prompt that begins so is no part of the prompt (seen in Claude Code 2.1.329)."""


FRONT = 200
"""Bytes of a system prompt among which that line's beginning is found."""


def begins_with_billing(read: Transcript) -> bool:
    """Whether the system prompt of a request may begin with that line."""
    starts = (member.value_start for member in read.members if member.key == "system")
    return any(BILLING.encode() in read.raw[start : start + FRONT] for start in starts)


def leave_out_billing(system: bytes) -> bytes:
    """The JSON of a system prompt without that line. Its own provider takes it out; for any other it would be another
    beginning of the prompt each time. Where nothing else is there, it stays.
    """
    blocks = json_spans.elements(system, 0) or ()
    first = system[slice(*blocks[0])] if len(blocks) > 1 else b""
    if BILLING.encode() not in first or not str(json.loads(first).get("text")).startswith(BILLING):
        return system
    return b"[" + system[blocks[1][0] :]
