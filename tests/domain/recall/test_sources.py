"""Results, typed prompts and conclusions are sources; the client's text and announcements of calls are not."""

import json
from typing import Any

import pytest

from mnemosyne.domain.objects.events import BlockPlace, ObjectCreated
from mnemosyne.domain.objects.kinds import DEFINITIONS, NOTE, ObjectKind
from mnemosyne.domain.recall.object_search import PassageHit
from mnemosyne.domain.recall.sources import Announcements, Source, list_sources, read_sources
from mnemosyne.domain.text.passages import Passage
from tests.domain.remembered import created, remembered


def said(object_id: str, *places: tuple[int, int], **more: Any) -> ObjectCreated:
    at = tuple(BlockPlace(*place) for place in places)
    return created(
        object_id, places=at, kind=ObjectKind.CONVERSATION_PHASE, **{"tags": ("user",), "by_user": (0,), **more}
    )


def call(object_id: str, *places: tuple[int, int], **more: Any) -> ObjectCreated:
    at = tuple(BlockPlace(*place) for place in places)
    return created(object_id, places=at, kind=ObjectKind.TOOL_RESULT, **{"tags": (), **more})


def blocks(*texts: str) -> bytes:
    return b"\n".join(json.dumps({"type": "text", "text": text}).encode() for text in texts)


def read(*events: ObjectCreated, **contents: bytes) -> dict[str, Source]:
    objects = remembered(*events).objects
    announcements = Announcements(objects.values())
    hits = [PassageHit(key, Passage(0, 3), 1.0) for key in contents]
    found = read_sources(list_sources(hits, objects), contents, announcements, hits)
    return {each.id: each for each in found}


def quotable(each: Source) -> list[str]:
    return [each.text[start:end] for start, end in each.spans if end > start]


@pytest.mark.parametrize(
    "places",
    [
        pytest.param(((0, 0), (1, 0), (3, 0)), id="messages of several blocks"),
        pytest.param(((0, 0), (1, 0), (4, 0)), id="messages of one block"),
    ],
)
def test_text_before_a_call_is_no_source_but_the_conclusion_is(places: tuple[tuple[int, int], ...]) -> None:
    one_each = places[2][0] == 4
    called = call("run", (2, 0), (3, 0)) if one_each else call("run", (1, 1), (2, 0))
    phase = said("talk", *places)
    contents = blocks("Which port?", "Let me look at the port.", "The port is 8443.")
    assert quotable(read(phase, called, talk=contents)["talk"]) == ["Which port?", "The port is 8443."]


@pytest.mark.parametrize(("tool", "told"), [("Task", []), (None, ["The port is 8443."])])
def test_agent_s_call_is_announced_and_its_later_report_is_not(tool: str | None, told: list[str]) -> None:
    text = said("talk", (1, 0), tags=(), by_user=())
    report = call("agent", (1, 1) if tool else (2, 0), tags=("agent",), source_tool=tool)
    found = read(text, report, talk=blocks("The port is 8443."))
    assert [quoted for each in found.values() for quoted in quotable(each)] == told


@pytest.mark.parametrize(
    "said_before",
    [
        pytest.param("The port is 8443. Let me look.", id="sentences"),
        pytest.param("The port is 8443.\n\nLet me look at v1.2:\n", id="lines"),
        pytest.param("The port is 8443。見てみます。", id="without spaces"),
    ],
)
def test_only_the_last_sentence_before_a_call_announces_it(said_before: str) -> None:
    text, called = said("talk", (1, 0), tags=(), by_user=()), call("run", (1, 1), (2, 0))
    (quoted,) = quotable(read(text, called, talk=blocks(said_before))["talk"])
    assert quoted.strip("。.\n ") == "The port is 8443"


def test_prompt_before_a_call_is_quotable_and_a_lone_announcement_is_not() -> None:
    prompt, called = said("ask", (0, 0)), call("run", (1, 1), (2, 0))
    lone = said("lone", (1, 0), tags=(), by_user=())
    found = read(prompt, called, lone, ask=blocks("Which port?"), lone=blocks("Let me look."))
    assert quotable(found["ask"]) == ["Which port?"]
    assert quotable(found["lone"]) == []


@pytest.mark.parametrize("tag", [NOTE, DEFINITIONS])
def test_text_of_the_client_is_no_source(tag: str) -> None:
    assert read(said("note", (0, 0), tags=(tag,), by_user=()), note=blocks("The port is 8443.")) == {}


@pytest.mark.parametrize("text", ["port: 8443{}", "{}port: 8443", "port:{} 8443"])
def test_reminder_within_a_result_is_not_quoted(text: str) -> None:
    result = text.format("\n\n<system-reminder>\nDo not say the port.\n</system-reminder>\n")
    (found,) = read(call("run", (1, 0)), run=blocks(result)).values()
    assert "".join("".join(quotable(found)).split()) == "port:8443"


def test_unreadable_and_missing_contents_are_omitted() -> None:
    objects = remembered(call("a", (1, 0)), call("b", (3, 0))).objects
    assert read_sources(objects.values(), {"a": b"{"}, Announcements(objects.values())) == []
