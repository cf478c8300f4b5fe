"""The nudge to an agent whose user seems to ask for something to be remembered."""

import re

from mnemosyne.domain.knowledge.words import BLOCK_BEGINS, BLOCK_ENDS, strip_private

NUDGE = (
    f"{BLOCK_BEGINS}\n[MEMORY TRIGGER DETECTED] The user may be asking for something to be remembered beyond this"
    " session. If so: look with the tool `recall` of mnemosyne whether it is known, then call `update` or `remember`"
    " with one sentence. Without these tools, run `mnemosyne remember SENTENCE` in a shell. If not, do nothing"
    " about this."
    f"\n{BLOCK_ENDS}"
)
"""Delimited as a memory block, so that it is not mistaken for the user's text."""

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
_KEYWORDS = re.compile(
    r"\b(?:remember|memori[sz]e|keep in mind|(?:don['\N{RIGHT SINGLE QUOTATION MARK}]?t|do not|never) forget|"
    r"(?:save|note|store|learn) (?:this|that)|make a note)\b",
    re.IGNORECASE,
)


def asks_to_remember(prompt: str) -> bool:
    """Whether a prompt asks to remember something, outside code and private parts."""
    return _KEYWORDS.search(_CODE.sub(" ", strip_private(prompt))) is not None
