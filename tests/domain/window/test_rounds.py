"""Which branches are managed, who decides it and when, and which history they continue."""

from fractions import Fraction
from typing import Any

import attrs
import pytest

from mnemosyne.domain.session.decide import SetMode
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.ledger import LEAST
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools.memory_tools import QUERY
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.rounds import (
    ITS_CLIENT_PAGES,
    SETTINGS,
    TOO_LATE,
    TURNED_OFF,
    Opening,
    choose_mode,
    find_tariff,
    mode_without_us,
    without_thinking,
)
from mnemosyne.domain.wire.identity import RequestKind, RequestOrigin
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.transcript import Transcript, read
from mnemosyne.upstreams import NamedUpstream
from tests.domain.recorded import dumps
from tests.domain.stories import Story, origin
from tests.not_none import not_none

PAGING = attrs.evolve(SETTINGS, tool_budget=500)
TOOL = {"name": "Bash", "input_schema": {"type": "object"}}
PROMPT: dict[str, Any] = {"role": "user", "content": "fix it"}
SAID = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "ok"}],
}
ANSWERED = {"role": "user", "content": "go on"}


def body(*messages: dict[str, Any], **members: Any) -> bytes:
    return dumps({"model": "claude-opus-4-5", "tools": [TOOL], "messages": list(messages), **members})


def opening(story: Story, raw: bytes, wanted: Mode | None = None, who: RequestOrigin | None = None) -> Opening:
    story.who = who
    return story.open(raw, SETTINGS, wanted=wanted)


def managed() -> Story:
    """A session whose first request is managed."""
    story = Story()
    _, command = choose_mode(opening(story, body(PROMPT)))
    assert command is not None
    story.do(command)
    return story


@pytest.mark.parametrize(
    ("wanted", "mode"), [(None, Mode.MANAGE), (Mode.MANAGE, Mode.MANAGE), (Mode.OBSERVE, Mode.OBSERVE)]
)
def test_first_request_decides_by_the_wanted_mode_or_the_default(wanted: Mode | None, mode: Mode) -> None:
    assert choose_mode(attrs.evolve(opening(Story(), body(PROMPT), wanted), settings=PAGING))[0] is mode


def test_deviating_bill_ends_managing_only_under_a_billed_tariff() -> None:
    """With a dedicated server, uncached input would have been uncached without the proxy too."""
    story = managed()
    goes_on = opening(story, body(PROMPT, SAID, ANSWERED))
    recent = ((Fraction(100), Fraction(300)),) * LEAST
    dear = attrs.evolve(goes_on.session, ledger=attrs.evolve(goes_on.session.ledger, recent=recent))
    billed = attrs.evolve(goes_on, session=dear)
    assert choose_mode(billed)[0] is Mode.BYPASS
    assert choose_mode(attrs.evolve(billed, settings=attrs.evolve(SETTINGS, tariff="local")))[0] is Mode.MANAGE


def test_tariff_depends_on_the_provider_of_the_request() -> None:
    """With a paid and a local provider, the local one serves the models configured for it, at its own tariff."""
    own = NamedUpstream("own", "http://192.168.1.7:8080", models=("qwen*",))
    told = NamedUpstream("told", "https://models.example", models=("llama*",), tariff="openai-before-5.6")
    settings = attrs.evolve(SETTINGS, host="api.anthropic.com", others=(own, told))

    def tariff(conversation: str, model: str | None, settings: ServerSettings = settings) -> str:
        return find_tariff(None, read(body(PROMPT, model=model), conversation=conversation).transcript, settings).name

    assert tariff("chat/main", "qwen3") == "local"
    assert tariff("chat/main", "llama4") == "openai-before-5.6"
    assert tariff("chat/main", "mistral") == "api"
    assert tariff("main", "qwen3") == "api"  # in this dialect the upstream serves it
    named = attrs.evolve(settings, tariff="subscription")
    assert [tariff("chat/main", each, named) for each in ("qwen3", "llama4")] == ["subscription", "openai-before-5.6"]
    alone = attrs.evolve(settings, others=(own,))
    assert [tariff(conversation, None, alone) for conversation in ("chat/main", "main")] == [
        "local",
        "api",
    ]  # as routing decides


def test_tool_budget_is_set_only_with_managing() -> None:
    _, command = choose_mode(attrs.evolve(opening(Story(), body(PROMPT)), settings=PAGING))
    assert command is not None
    assert (command.mode, command.tool_budget) == (Mode.MANAGE, 500)


def test_tools_of_a_client_that_loads_them_itself_are_not_paged() -> None:
    deferring = body(PROMPT, tools=[TOOL, {**TOOL, "name": "Other", "defer_loading": True}])
    _, command = choose_mode(attrs.evolve(opening(Story(), deferring), settings=PAGING))
    assert command is not None
    assert (command.mode, command.tool_budget) == (Mode.MANAGE, None)
    assert ITS_CLIENT_PAGES in command.why
    _, unasked = choose_mode(opening(Story(), deferring))
    assert unasked is not None
    assert ITS_CLIENT_PAGES not in unasked.why


@pytest.mark.parametrize(
    ("raw", "who", "why"),
    [
        (body(PROMPT, tools=[]), None, "no tools"),
        (body(PROMPT, tools=[{**TOOL, "name": QUERY}]), None, "a tool of its own"),
        (body(PROMPT, SAID, ANSWERED), None, "began without us"),
        (body(PROMPT), origin(kind=RequestKind.SIDE), "not a conversation"),
        (b"{", None, "not a conversation"),
    ],
)
def test_unmanageable_branch_is_observed_with_a_reason(raw: bytes, who: RequestOrigin | None, why: str) -> None:
    mode, command = choose_mode(opening(Story(), raw, who=who))
    assert mode is Mode.OBSERVE
    assert command is not None
    assert why in command.why


def test_first_request_records_that_managing_is_off() -> None:
    first = opening(Story(), body(PROMPT))
    for off in (
        attrs.evolve(first, wanted=Mode.BYPASS),
        attrs.evolve(first, session=attrs.evolve(first.session, switched=False)),
    ):
        mode, command = choose_mode(attrs.evolve(off, settings=PAGING))
        assert command is not None
        assert (mode, command.mode, command.why) == (Mode.OBSERVE, Mode.OBSERVE, TURNED_OFF)
    side = opening(Story(), body(PROMPT), Mode.BYPASS, origin(kind=RequestKind.SIDE))
    _, command = choose_mode(side)
    assert command is not None
    assert "not a conversation" in command.why


def test_managed_branch_stays_managed_until_another_mode_is_requested() -> None:
    story = managed()
    second = opening(story, body(PROMPT, SAID, ANSWERED))
    assert choose_mode(second) == (Mode.MANAGE, None)
    mode, command = choose_mode(attrs.evolve(second, wanted=Mode.OBSERVE))
    assert (mode, command is not None) == (Mode.BYPASS, True)
    off = attrs.evolve(second, session=attrs.evolve(second.session, switched=False))
    assert choose_mode(off)[0] is Mode.BYPASS


def test_first_request_sent_as_passthrough_is_never_managed() -> None:
    first = opening(Story(), body(PROMPT))
    command = mode_without_us(first)
    assert isinstance(command, SetMode)
    assert (command.mode, command.why) == (Mode.OBSERVE, TOO_LATE)
    assert mode_without_us(opening(managed(), body(PROMPT, SAID, ANSWERED))) is None


def test_opening_knows_its_branch_and_whether_it_continues() -> None:
    story = managed()
    second = opening(story, body(PROMPT, SAID, ANSWERED))
    assert (second.branch.kind, second.opened, second.begins_branch, second.is_last) == (
        BranchKind.MAIN,
        None,
        False,
        True,
    )
    assert second.goes_on_from == second.began.branch == "main"


def test_fallback_request_drops_thinking_signed_for_another_history() -> None:
    def asked(*messages: dict[str, Any], **members: Any) -> Transcript:
        return read(body(*messages, **members)).transcript

    assert b"thinking" not in not_none(without_thinking(asked(PROMPT, SAID, ANSWERED)))
    assert without_thinking(asked(PROMPT)) is None
    tool = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    manual = {"type": "enabled", "budget_tokens": 1_024}
    assert without_thinking(asked(PROMPT, SAID, tool, thinking=manual)) is None
    assert upstream_history.holds_thinking(upstream_history.verbatim([dumps(SAID)], MESSAGES))
