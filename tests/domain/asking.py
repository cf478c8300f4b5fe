"""Requests whose last message memory may have something for."""

import json
from typing import Any

from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.prefetch_steps import Asking
from mnemosyne.domain.session.events import BranchKind, TurnBegan, TurnRelation
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.messages import MESSAGES
from tests.domain.remembered import BRANCH

Json = dict[str, Any]


def said(role: str, *texts: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def asking(messages: list[Json], memory: Memory, kept: int = 0) -> Asking:
    """The request of a turn long after everything that is remembered, of whose messages the first ``kept`` are old."""
    body = json.dumps({"model": "claude-opus-4-5", "max_tokens": 9, "messages": messages}).encode()
    read = transcript.read(body).transcript
    began = TurnBegan(
        at=0,
        branch=BRANCH,
        turn=90,
        attempt=1,
        relation=TurnRelation.CONTINUES,
        model="claude-opus-4-5",
        stream=True,
        base=0,
        body=b"",
        size=len(body),
        sha256=b"",
        stored_sha256=None,
        kept=kept,
        chains=(),
        echo=None,
        echoed_attempt=None,
        opaque=None,
    )
    branch = Branch(
        name=BRANCH, kind=BranchKind.MAIN, lane="main", parent=None, forked_at=0, inherits=False, agent_id=None
    )
    return Asking(
        at=0,
        began=began,
        read=read,
        history=upstream_history.first(
            [read.message_bytes(number) for number in range(len(read.messages))], dialect=MESSAGES
        ),
        state=Session(memory=memory, branches={BRANCH: branch}),
    )
