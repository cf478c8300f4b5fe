"""Messages and the start of a turn."""

from typing import Any

from mnemosyne.domain.session.events import TurnBegan, TurnRelation
from tests.domain.remembered import BRANCH

Json = dict[str, Any]


def said(role: str, *texts: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def began(kept: int = 0) -> TurnBegan:
    """The start of a turn long after everything that is remembered, whose first ``kept`` messages were sent before."""
    return TurnBegan(
        at=0,
        branch=BRANCH,
        turn=90,
        attempt=1,
        relation=TurnRelation.CONTINUES,
        model="claude-opus-4-5",
        stream=True,
        base=0,
        body=b"",
        size=0,
        sha256=b"",
        stored_sha256=None,
        kept=kept,
        chains=(),
        echo=None,
        echoed_attempt=None,
        opaque=None,
    )
