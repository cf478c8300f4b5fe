"""What was stored once is readable for ever, and explained to people."""

import re
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from mnemosyne.domain.identity import Speaker
from mnemosyne.domain.normal_form import Echo
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.session import (
    EVENT_NAMES,
    BranchOpened,
    Event,
    GapRecorded,
    Kind,
    Relation,
    SessionForgotten,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.storage import event_codec
from tests.adapters.golden import check_golden

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
AT = 1_790_000_000_000_000

SAMPLES: Mapping[str, Event] = {
    "session.started.v1": SessionStarted(
        at=AT,
        tenant="default",
        external_id="0b9f5a3e-session",
        client="claude-code",
        client_version="2.1.329",
        salt=bytes(range(16)),
    ),
    "session.branch_opened.v1": BranchOpened(
        at=AT,
        branch="fork-1",
        kind=Kind.FORK,
        lane="agent:a1",
        parent="agent-1",
        forked_at=3,
        inherits=True,
        kept=6,
        agent_id="a1",
    ),
    "session.turn_began.v1": TurnBegan(
        at=AT + 1,
        branch="fork-1",
        turn=4,
        attempt=1,
        relation=Relation.CONTINUES,
        model="claude-opus-5-5",
        stream=True,
        base=17,
        body=b"\x80\x01\x20\x01" + bytes(32) + b"\x02\x40",
        size=224,
        sha256=bytes(range(32)),
        stored_sha256=bytes(range(32, 64)),
        kept=6,
        chains=(b"\xff" * 16, b"\x01" * 16),
        echo=Echo.TRIMMED,
        echoed_attempt=2,
        opaque=None,
        speaker=Speaker(
            client="claude-code",
            version="2.1.329",
            external_id="0b9f5a3e-session",
            parent_external_id=None,
            agent_id="a1",
            parent_agent_id=None,
        ),
    ),
    "session.turn_finished.v1": TurnFinished(
        at=AT + 2,
        branch="fork-1",
        turn=4,
        attempt=1,
        status=200,
        reply=b"\x00\x00\x01" + bytes(32) + b"\x02\x40",
        message_id="msg_01",
        model="claude-opus-5-5",
        stop_reason="tool_use",
        error_type=None,
        usage={"input_tokens": 3, "output_tokens": 42, "cache_creation": {"ephemeral_5m_input_tokens": 7}},
    ),
    "session.turn_interrupted.v1": TurnInterrupted(
        at=AT + 2,
        branch="main",
        turn=1,
        attempt=2,
        status=None,
        reply=None,
        reason="the client left",
        usage={},
    ),
    "session.gap_recorded.v1": GapRecorded(at=AT, since=AT - 5_000_000, turns=2, reason="the database is away"),
    "session.forgotten.v1": SessionForgotten(at=AT),
}


def test_every_stored_event_means_what_it_meant_and_is_written_as_it_was() -> None:
    envelopes = {name: Envelope(event, "correlation", "BeginTurn") for name, event in SAMPLES.items()}
    check_golden(event_codec(), GOLDEN, envelopes)


@pytest.mark.parametrize("name", EVENT_NAMES)
def test_every_stored_event_and_each_of_its_fields_is_documented(name: str) -> None:
    sections = re.split(r"^## `(.+)`$", (ROOT / "docs/events.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    documented = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert documented.keys() == EVENT_NAMES.keys()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", documented[name], re.MULTILINE)
    assert [field for field, _ in rows] == list(attrs.fields_dict(EVENT_NAMES[name]))
