"""What was stored once is readable for ever, and explained to people."""

import re
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import attrs
import pytest

from mnemosyne.app.storage import ALL_NAMES, event_codec
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.objects.events import (
    Admission,
    BlockPlace,
    FaultKind,
    Link,
    LinkRelation,
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectFaulted,
    ObjectForgotten,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
    ObjectUnpinned,
    Supersession,
    TurnAssessed,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.session.events import (
    EVENT_UPCASTS,
    BranchKind,
    BranchOpened,
    CheckpointNamed,
    Event,
    EventLost,
    GapRecorded,
    SessionForgotten,
    SessionImported,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
    TurnRelation,
)
from mnemosyne.domain.session.input_events import (
    Awaited,
    FoundPassage,
    GroundedSentence,
    GroundsNoted,
    HelperAsked,
    IndexFound,
    SettingsTaken,
)
from mnemosyne.domain.session.ledger_events import Held, TurnAccounted
from mnemosyne.domain.session.retired import Brought, BroughtJudged, GoalChanged, MemoryBrought, Why
from mnemosyne.domain.session.round_events import (
    Answered,
    BranchModeSet,
    EpochBegan,
    FallbackSent,
    KnowledgeTold,
    ManagingSwitched,
    Mode,
    RoundBegan,
    RoundFinished,
    WindowFilled,
    WindowStated,
)
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.normal_form import Echo
from tests.adapters.golden import check_golden
from tests.adapters.postgres.knowledge_samples import KNOWLEDGE_SAMPLES

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
AT = 1_790_000_000_000_000

ASSESSED = TurnAssessed(
    at=AT + 1,
    branch="fork-1",
    turn=4,
    model="claude-opus-5-5",
    open_from=7,
    typed=(0, 6),
    content=(120_000, 350),
    head=(41_000, 700),
    tokens=61_234,
    usable=98_000,
    zone="caution",
)

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
        kind=BranchKind.FORK,
        lane="agent:a1",
        parent="agent-1",
        forked_at=3,
        inherits=True,
        kept=6,
        agent_id="a1",
    ),
    "session.turn_began.v2": TurnBegan(
        at=AT + 1,
        branch="fork-1",
        turn=4,
        attempt=1,
        relation=TurnRelation.CONTINUES,
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
        speaker=ClientHeaders(
            client="claude-code",
            version="2.1.329",
            external_id="0b9f5a3e-session",
            parent_external_id=None,
            agent_id="a1",
            parent_agent_id=None,
        ),
    ),
    "session.turn_finished.v2": TurnFinished(
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
    "session.turn_interrupted.v2": TurnInterrupted(
        at=AT + 2,
        branch="main",
        turn=1,
        attempt=2,
        status=None,
        reply=None,
        reason="the client left",
        usage={},
    ),
    "session.turn_assessed.v1": ASSESSED,
    "session.turn_assessed.v2": ASSESSED,
    "session.branch_mode_set.v2": BranchModeSet(
        at=AT, branch="main", mode=Mode.MANAGE, why="it was asked for", tool_budget=4_000
    ),
    "session.epoch_began.v1": EpochBegan(
        at=AT,
        branch="main",
        turn=41,
        epoch=2,
        messages=81,
        reason="keeping it has cost more than the rewrite does",
        freed=38_000,
        price=57_500,
        payback=16,
        hour=False,
    ),
    "session.window_filled.v1": WindowFilled(
        at=AT,
        branch="main",
        turn=12,
        window=45_000,
        tokens=57_300,
        fixed=3_600,
        new=23_900,
        why="the window overflows, but a rewrite would free only 1710 tokens",
    ),
    "session.window_stated.v1": WindowStated(
        at=AT, branch="main", turn=12, attempt=1, model="claude-opus-5-5", window=200_000, tokens=204_317
    ),
    "session.round_began.v1": RoundBegan(
        at=AT,
        branch="main",
        turn=2,
        attempt=1,
        round=2,
        epoch=1,
        base=7,
        body=bytes.fromhex("0a0000"),
        size=10,
        sha256=bytes(32),
        stored_sha256=None,
        kept=1,
        ends=(3, 4),
    ),
    "session.round_finished.v2": RoundFinished(
        at=AT,
        branch="main",
        turn=2,
        attempt=1,
        round=1,
        reply=bytes.fromhex("0a0000"),
        model="claude-opus-5-5",
        stop_reason="tool_use",
        usage={"input_tokens": 3, "output_tokens": 42},
        answers=(Answered(call="toolu_1", result=bytes.fromhex("050000")),),
        faults=0,
        tokens=0,
    ),
    "session.fallback_sent.v1": FallbackSent(
        at=AT,
        branch="main",
        turn=2,
        attempt=1,
        base=17,
        body=bytes.fromhex("0a0000"),
        size=10,
        sha256=bytes(32),
        stored_sha256=None,
        why="its session did not answer in time",
    ),
    "session.knowledge_told.v1": KnowledgeTold(
        at=AT + 2,
        branch="main",
        turn=1,
        message=0,
        text="[MEMORY]\nnotes\n[/MEMORY]",
        entries=("k0123abcd9",),
        tokens=12,
    ),
    "session.managing_switched.v1": ManagingSwitched(at=AT, on=False, why="mnemosyne off"),
    "session.imported.v1": SessionImported(at=AT, session=UUID(int=7)),
    "session.event_lost.v1": EventLost(at=AT),
    "session.checkpoint_named.v1": CheckpointNamed(at=AT, name="before-the-rewrite", branch="fork-1", turn=4),
    "session.turn_accounted.v1": TurnAccounted(
        at=AT + 3,
        began=AT + 1,
        branch="fork-1",
        turn=4,
        attempt=1,
        mode=Mode.MANAGE,
        model="claude-opus-5-5",
        rounds=2,
        shadow=Tokens(input=3, output=420, read=90_000, write_5m=2_100),
        expected=Tokens(input=6, output=500, read=61_000, write_5m=2_100, write_1h=0),
        actual=Tokens(input=6, output=500, read=60_000, write_5m=3_100),
        assumed=False,
        estimated=60_900,
        counted=61_553,
        since=0,
        compacted=False,
        shadow_entries=(Held(digest=bytes(range(32)), hour=False, expires=AT + 300_000_001, readable_at=AT + 3),),
        wire_entries=(Held(digest=bytes(range(32, 64)), hour=True, expires=AT + 3_600_000_001, readable_at=AT + 2),),
        deviates=False,
    ),
    "session.settings_taken.v7": SettingsTaken(
        at=AT,
        mode=Mode.MANAGE,
        window=None,
        tool_budget=None,
        strict=True,
        tariff="api",
        models=b"",
        tell_repeats=False,
        manages_small=True,
        scaled=False,
        parts=False,
        counted=False,
    ),
    "session.grounds_noted.v1": GroundsNoted(
        at=AT,
        branch="main",
        turn=41,
        attempt=1,
        round=2,
        wanted=Mode.MANAGE,
        late=(Awaited.RESTORES,),
        late_calls=("toolu_1",),
        unread_calls=("toolu_2",),
        found=(
            IndexFound(
                question=bytes(range(8)), passages=(FoundPassage(object="k7m2qpd", start=0, end=1_200),), missing=2
            ),
            IndexFound(question=bytes(8), passages=None, missing=0),
        ),
    ),
    "session.helper_asked.v1": HelperAsked(
        at=AT,
        branch="main",
        turn=41,
        attempt=1,
        round=2,
        call="toolu_1",
        question="why is the pool limited?",
        helper="openai:small",
        sentences=(GroundedSentence(text="The pool holds 20 connections.", object="k7m2qpd", start=30, end=61),),
        dropped=1,
        why=None,
        nanodollars=1_250_000,
    ),
    "session.goal_changed.v1": GoalChanged(at=AT, branch="main", turn=41, message=82),
    "session.memory_brought.v1": MemoryBrought(
        at=AT,
        branch="main",
        turn=41,
        message=82,
        epoch=2,
        why=Why.RECALL,
        objects=(Brought(object="k7m2qpd", tokens=310, words=("DAYS", "src/dates.py"), enough=1),),
        tokens=402,
        prompt=81_000,
    ),
    "session.brought_judged.v1": BroughtJudged(at=AT, branch="main", turn=41, used=("k7m2qpd",)),
    "session.gap_recorded.v1": GapRecorded(at=AT, since=AT - 5_000_000, turns=2, reason="the database is away"),
    "session.forgotten.v1": SessionForgotten(at=AT),
    "object.created.v2": ObjectCreated(
        at=AT + 1,
        object="k7m2qpd",
        branch="main",
        turn=4,
        kind=ObjectKind.FILE_CONTEXT,
        role=Role.TRANSCRIPT,
        source_tool="Read",
        source_key="/project/dates.py",
        tags=("read",),
        first_turn=3,
        last_turn=4,
        places=(BlockPlace(5, 1), BlockPlace(6, 0)),
        content=b"\x00\x00\x01" + bytes(32) + b"\x02\x40",
        size=9_120,
        tokens=2_710,
        stub="dates.py: read, 310 lines",
        stub_tokens=9,
        line="Read src/auth.py",
        key_entities=("dates.py", "parse"),
        links=(Link(LinkRelation.REFERENCES, "b3n8xwz"),),
        admission=Admission(type_prior=0.5, novelty=1.0, utility=0.25, recency=1.0, score=0.625, admitted=True),
    ),
    "object.summarized.v2": ObjectSummarized(
        at=AT + 2,
        object="k7m2qpd",
        fidelity=Fidelity.DETAILED,
        text=bytes(range(32)),
        size=2_700,
        tokens=810,
        helper="extractive",
        losses=Losses(
            dropped=("bodies of functions",),
            can_answer=("which functions there are",),
            fault_when=("a body is to be edited",),
            key_entities=("dates.py",),
            lost={"identifier": 14, "number": 3},
            sample=("DAYS", "1900"),
        ),
        nanodollars=0,
    ),
    "object.degraded.v1": ObjectDegraded(
        at=AT + 3,
        object="k7m2qpd",
        branch="main",
        turn=30,
        before=Fidelity.FULL,
        after=Fidelity.DETAILED,
        cause=Cause.PRESSURE,
    ),
    "object.restored.v1": ObjectRestored(
        at=AT + 4,
        object="k7m2qpd",
        branch="main",
        turn=33,
        before=Fidelity.DETAILED,
        after=Fidelity.FULL,
        cause=Cause.FAULT,
    ),
    "object.faulted.v1": ObjectFaulted(
        at=AT + 4,
        object="k7m2qpd",
        branch="main",
        turn=33,
        kind=FaultKind.EXPLICIT,
        reason="its bodies are to be edited",
        distance=3,
        tokens=2_710,
        avoided_tokens=0,
        latency=1_250,
    ),
    "object.pinned.v1": ObjectPinned(at=AT + 5, object="k7m2qpd", reason="the specification", until_turn=60),
    "object.unpinned.v1": ObjectUnpinned(at=AT + 6, object="k7m2qpd", reason="done"),
    "object.released.v1": ObjectReleased(
        at=AT + 6, object="k7m2qpd", branch="main", turn=34, reason="the edit is made"
    ),
    "object.requested.v1": ObjectRequested(
        at=AT + 6, object="k7m2qpd", branch="main", turn=35, after=Fidelity.FULL, reason="on the page"
    ),
    "object.superseded.v1": ObjectSuperseded(
        at=AT + 7, object="k7m2qpd", branch="main", by="x4c9rtf", how=Supersession.REREAD
    ),
    "object.forgotten.v1": ObjectForgotten(at=AT + 8, object="k7m2qpd", reason="asked for"),
}


def test_every_stored_event_means_what_it_meant_and_is_written_as_it_was() -> None:
    samples = {**SAMPLES, **KNOWLEDGE_SAMPLES, **{old: SAMPLES[new] for old, (new, _) in EVENT_UPCASTS.items()}}
    envelopes = {name: Envelope(event, "correlation", "BeginTurn") for name, event in samples.items()}
    assert samples.keys() == ALL_NAMES.keys() | EVENT_UPCASTS.keys()
    check_golden(event_codec(), GOLDEN, envelopes, EVENT_UPCASTS)


def test_a_mode_that_was_stored_before_tools_were_paged_pages_none() -> None:
    stored = b'{"data":{"at":1,"branch":"main","mode":"manage","why":"w"},"correlation":"c","causation":"BeginTurn"}'
    event = event_codec().decode("session.branch_mode_set.v1", stored).event
    assert event == BranchModeSet(at=1, branch="main", mode=Mode.MANAGE, why="w", tool_budget=None)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_every_stored_event_and_each_of_its_fields_is_documented(name: str) -> None:
    sections = re.split(r"^## `(.+)`$", (ROOT / "docs/events.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    documented = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert documented.keys() == ALL_NAMES.keys()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", documented[name], re.MULTILINE)
    assert [field for field, _ in rows] == list(attrs.fields_dict(ALL_NAMES[name]))
