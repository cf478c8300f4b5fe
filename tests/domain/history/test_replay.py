"""Replay reports exactly the differing decisions; client headers round-trip."""

from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.history import replay
from mnemosyne.domain.history.replay import DecisionDifference, ReplayedDecision, find_retired, is_retired
from mnemosyne.domain.objects.events import ObjectSuperseded, Supersession
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.decision_inputs import ServerSettings, record_settings
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne.domain.wire import identity
from mnemosyne.domain.wire.identity import ClientHeaders
from tests.domain.remembered import faulted, made
from tests.domain.session_events import recorded, round_began

words = st.text("abcXYZ019-_", min_size=1)
versions = st.from_regex(r"\A[0-9]\.[0-9]{1,3}(\.[0-9])?\Z")


@st.composite
def clients(draw: st.DrawFn) -> ClientHeaders:
    headers = {"user-agent": draw(st.sampled_from(["", "claude-cli/", "opencode/", "Anthropic/Python ", "curl/"]))}
    headers["user-agent"] += draw(versions | st.just(""))
    names = [name for group in identity.SESSION_HEADERS.values() for name in group]
    names += [identity.SESSION_HEADER, identity.PARENT_SESSION_HEADER, identity.AGENT_HEADER]
    for name in draw(st.sets(st.sampled_from([*names, identity.PARENT_AGENT_HEADER]))):
        headers[name] = draw(words)
    said = draw(st.sampled_from([{}, {"x-api-key": "k"}, {"authorization": "Bearer t"}]))
    beta = draw(st.sampled_from([{}, {"anthropic-beta": "oauth-2025-04-20"}]))
    return identity.read_client_headers((headers | said | beta).items())


@given(clients())
def test_headers_generated_from_a_client_identify_the_same_client(client: ClientHeaders) -> None:
    assert identity.read_client_headers(replay.headers_of(client)) == client


BEGAN = round_began(1, turn=7, epoch=0, base=3, body=b"stored", size=10, sha256=bytes(31) + b"1", kept=1, ends=(3,))
FAULTED = attrs.evolve(faulted("k7m2qpd", 7), reason="to be edited")
MODE = BranchModeSet(at=1, branch="main", mode=Mode.MANAGE, why="it was asked for", tool_budget=None)
(SETTINGS,) = record_settings(ServerSettings(window=9), Mode.MANAGE, None, 1)
assert isinstance(SETTINGS, SettingsTaken)


def decided(*events: Event) -> ReplayedDecision:
    """A decision whose first event is number 4 of the log."""
    return ReplayedDecision(recorded(*events, first=4))


@pytest.mark.parametrize(
    "today",
    [
        attrs.evolve(BEGAN, base=5, body=b"otherwise", stored_sha256=bytes(32)),
        attrs.evolve(FAULTED, latency=1),
        attrs.evolve(SETTINGS, window=10),
    ],
)
def test_storage_durations_and_settings_are_not_compared(today: Event) -> None:
    decision = decided(MODE, next(each for each in (BEGAN, FAULTED, SETTINGS) if type(each) is type(today)))
    assert replay.differences(decision, (today, MODE)) == []


def test_each_different_field_is_reported_with_version_and_turn() -> None:
    today = (attrs.evolve(BEGAN, size=11, sha256=bytes(32)), MODE)
    assert replay.differences(decided(MODE, BEGAN), today) == [
        DecisionDifference(5, "main 7", "RoundBegan", "size", "10", "11"),
        DecisionDifference(5, "main 7", "RoundBegan", "sha256", BEGAN.sha256.hex(), bytes(32).hex()),
    ]


def test_a_body_with_a_withheld_credential_is_compared_by_its_stored_hash() -> None:
    withheld = attrs.evolve(BEGAN, stored_sha256=bytes(32))
    assert replay.differences(decided(withheld), (attrs.evolve(BEGAN, sha256=bytes(32)),)) == []
    (found,) = replay.differences(decided(withheld), (BEGAN,))
    assert (found.field, found.recorded, found.today) == ("sha256", bytes(32).hex(), BEGAN.sha256.hex())


def test_new_and_missing_decisions_are_reported_with_their_reasons() -> None:
    other = attrs.evolve(FAULTED, object="b3n8xwz", reason="")
    assert replay.differences(decided(FAULTED), (other, MODE)) == [
        DecisionDifference(4, "main 7", "ObjectFaulted", None, "decided: to be edited", "not decided"),
        DecisionDifference(4, "main 7", "ObjectFaulted", None, "not decided", "decided"),
        DecisionDifference(4, "main 7", "BranchModeSet", None, "not decided", "decided: it was asked for"),
    ]


def test_a_decision_without_a_turn_has_none() -> None:
    assert decided(BEGAN, MODE).turn is None
    assert decided(MODE, BEGAN).turn == "main 7"


def test_values_are_rendered_for_people() -> None:
    told = [replay.render(each) for each in (b"\x01", (b"\x01", b"\x02"), (), Mode.MANAGE, 7)]
    assert told == ["01", "2 hashes, the last 02", "()", "manage", "7"]


@pytest.mark.parametrize(
    ("causes", "together"),
    [
        (("Finish", "Finish"), True),
        (("Refused", "Refused"), True),
        (("Finish", "FinishTurn"), True),
        (("Finish", "AnswerCalls"), False),
        (("Refused", "FinishTurn"), False),
        (("BeginTurn", "Begin"), True),
        (("Finish", "Begin"), False),
        (("Zip", "Finish"), False),
    ],
)
def test_the_end_of_a_round_causes_only_the_end_of_its_turn(causes: tuple[str, str], together: bool) -> None:
    told = [
        Recorded(UUID(int=1), number, number, Envelope(FAULTED, "one", cause))
        for number, cause in enumerate(causes, start=1)
    ]
    assert [len(each.events) for each in replay.decisions(told)] == ([2] if together else [1, 1])


def test_only_claims_and_their_supersessions_are_retired() -> None:
    claim, other = made("c", 1, role=Role.CLAIM, places=()), made("o", 1)
    revised = [
        ObjectSuperseded(at=1, object="x", branch="main", by=by, how=Supersession.REVISED) for by in ("c", "o", None)
    ]
    retired = find_retired([claim, other, *revised])
    assert retired == {"c"}
    assert [is_retired(each, retired) for each in (claim, other, *revised)] == [True, False, True, False, False]
