"""``mnemosyne objects``, ``object`` and ``explain`` show the state of memory as it is in the log."""

import re
from functools import reduce
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.cli.explain import _paragraphs, snapshot_as_json
from mnemosyne.cli.objects import (
    _HEADERS,
    _print_links,
    _print_object,
    _print_renditions,
    _row,
    _source_line,
    print_topics,
    topics_as_json,
)
from mnemosyne.cli.windows import WIDTH, bar, decision_as_json, decision_text, source_text, window_line
from mnemosyne.domain.cost.tokens import Features, MeasuredPrompt
from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectCreated, ObjectEvent
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window.planning import NoRewrite
from mnemosyne.figures import count_text
from mnemosyne.http.inspector.happenings import describe_object
from mnemosyne.services.memories import FoundObject
from mnemosyne.services.windows import Listing
from tests.cli.logs import OBJECT
from tests.cli.running import run, run_json
from tests.domain.remembered import made, remembered, summarized
from tests.domain.talks import on_topics
from tests.replay.recordings import played, session, streams
from tests.replay.session_tapes import tape_of


@pytest.fixture(scope="module")
def snapshots() -> list[MemorySnapshot]:
    """A session at each of its turns."""
    log, _ = played(tape_of(session(turns=8)))
    (stream,) = streams(log)
    events = trio.run(log.read, stream)
    return [snapshot(events, "main", turn) for turn in range(1, 9)]


def test_every_object_has_a_row_with_a_cell_for_each_column(snapshots: list[MemorySnapshot]) -> None:
    last = snapshots[-1]
    held = last.standings()
    listing = Listing(stream=UUID(int=1), window=last.assessed, counted=None, standings=held, is_managed=True)
    rows = [_row(listing, standing) for standing in listing.standings]
    assert {row[0] for row in rows} == last.memory.objects.keys()
    assert all(len(row) == len(_HEADERS) for row in rows)


def test_explain_describes_every_event_of_the_turn(snapshots: list[MemorySnapshot]) -> None:
    shown = next(each for each in snapshots[1:] if any(isinstance(event, ObjectCreated) for event in each.happened))
    paragraphs = list(_paragraphs(shown, NoRewrite("nothing is old enough")))
    text = "\n".join("\n".join((sentence, *lines)) for sentence, lines in paragraphs)
    for event in shown.happened:
        what, why = describe_object(event, sized=False)
        assert any(event.object in line and why in line and what in line for _, lines in paragraphs for line in lines)
    assert f"zone {shown.assessed.zone}" in text
    assert "With managing on, the next request would not compact the context: nothing is old enough." in text
    assert all(kept.id in text for kept, _ in shown.list_kept())
    output = snapshot_as_json(shown, None)
    assert output["kept"] == [{"object": kept.id, "why": why} for kept, why in shown.list_kept()]
    assert output["window"]["history_tokens"] + output["window"]["fixed_tokens"] == shown.assessed.tokens


def object_of(object_id: str, *events: ObjectEvent) -> FoundObject:
    """An object of a session with these events."""
    memory = reduce(evolve, events, Memory())
    return FoundObject(UUID(int=1), [], Session(memory=memory), memory.objects[object_id])


def test_link_is_shown_from_both_ends(capsys: pytest.CaptureFixture[str]) -> None:
    link = Link(LinkRelation.PARENT_OF, "a")
    events = (made("a", 0), made("d", role=Role.DERIVED, links=(link,)))
    _print_links(object_of("a", *events))
    _print_links(object_of("d", *events))
    assert [line.split(":")[0] for line in capsys.readouterr().out.split("\n") if line] == ["part of d", "parent of a"]


def test_an_extract_that_does_not_exist_yet_is_shown_with_its_target_size(capsys: pytest.CaptureFixture[str]) -> None:
    shown = object_of("a", made("a", 0, size=40_000, tokens=10_000))
    _print_object((shown, {}))
    target = count_text(shown.object.tokens_at(Fidelity.DETAILED))
    assert re.search(rf"^L1 +~{re.escape(target)} ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("key", "text"), [("Bash python3 a.py", "from Bash python3 a.py, "), ("/a.py", "from Bash /a.py, ")]
)
def test_tool_is_named_once(key: str, text: str) -> None:
    event = attrs.evolve(made("a", 0), source_tool="Bash", source_key=key)
    assert _source_line(object_of("a", event).object).startswith(text)


def test_long_source_without_a_tool_is_the_beginning_of_the_stub() -> None:
    event = attrs.evolve(made("a", 0), source_tool=None, source_key="/notes.md", stub="Wrote /notes.md; " + "x" * 90)
    assert source_text(object_of("a", event).object) == f"Wrote /notes.md; {'x' * 22}…"


def test_window_is_full_by_as_much_as_its_contents_on_the_page(snapshots: list[MemorySnapshot]) -> None:
    view = attrs.evolve(snapshots[0].assessed, tokens=50_000, head=(0, 20_000), usable=80_000, zone="normal")
    assert " 50 % of 100.0k usable tokens, zone normal" in window_line(view)
    assert "(history 30.0k, system prompt and tools 20.0k)" in window_line(view)


@pytest.mark.parametrize(
    ("rewritten", "text"), [(True, "minus the tokens freed by the compaction, plus"), (False, "43.1k tokens, plus")]
)
def test_estimate_after_a_compaction_is_marked(rewritten: bool, text: str, snapshots: list[MemorySnapshot]) -> None:
    shown = attrs.evolve(snapshots[5], anchor=MeasuredPrompt(43_100, Features()), since_rewritten=rewritten)
    lines = " ".join(line for _, lines in _paragraphs(shown, None) for line in lines)
    assert "from the provider's last count of 43.1k tokens" in lines
    assert text in lines


@pytest.mark.release
def test_topics_have_a_row_for_each_episode(capsys: pytest.CaptureFixture[str]) -> None:
    log, _ = played(tape_of(on_topics("parser", "billing", "parser", "search")))
    (stream,) = streams(log)
    found = stream, snapshot(trio.run(log.read, stream), "main")
    print_topics(found)
    rows = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()[2:6]]
    output = topics_as_json(found)
    assert [row[0] for row in rows] == [episode["id"] or "(ongoing)" for episode in output["episodes"]]
    assert [row[3] for row in rows] == [rows[0][0], "-", rows[0][0], "-"]
    assert output["themes"] == [[rows[0][0], rows[2][0]]]


@pytest.mark.parametrize(
    ("mode", "text"),
    [(Mode.MANAGE, "managed: w"), (Mode.OBSERVE, "observed: w"), (Mode.BYPASS, "managed no longer: w")],
)
def test_mode_is_shown_with_its_recorded_reason(mode: Mode, text: str) -> None:
    decision = BranchModeSet(at=1, branch="main", mode=mode, why="w")
    assert decision_text(decision) == text
    assert decision_as_json(decision) == {"mode": mode.value, "mode_why": "w"}


def test_bar_has_a_constant_width() -> None:
    assert {len(bar(part, 100)) for part in (0, 1, 50, 100, 900)} == {WIDTH}
    assert bar(5, 0) == bar(100, 100)


def test_observed_session_shows_what_the_planner_would_do(conversation: str) -> None:
    planned = run_json("explain", conversation)["planned"]
    assert planned["epoch"]["reason"] == "the provider's cache has forgotten the session"
    assert planned["objects"]
    would = {f"would→{change['after']}" for change in planned["objects"]}
    listed = run_json("objects", conversation)
    assert listed["planned"].keys() == planned.keys()
    assert {flag for row in listed["objects"] for flag in row["flags"] if flag.startswith("would")} == would
    sentence = "With managing on, the next request would evict or shorten "
    assert sentence in run("objects", conversation).stdout
    explained = run("explain", conversation).stdout
    assert sentence in explained
    assert "This conversation was observed: managing was not requested.\n" in explained
    for change in planned["objects"][:8]:
        assert f"{change['object']} " in explained


def test_pin_holds_until_it_is_removed_and_each_change_is_recorded_once(own_conversation: str) -> None:
    assert run("pin", OBJECT, "--reason", "it is the plan").stdout == f"{OBJECT} is pinned.\n"
    assert run("pin", OBJECT, "--reason", "it is the plan").stdout == f"{OBJECT} is pinned (no change).\n"
    assert "it is the plan" in run("object", OBJECT).stdout
    assert run("unpin", OBJECT).stdout == f"{OBJECT} is not pinned.\n"
    assert run("unpin", OBJECT).stdout == f"{OBJECT} is not pinned (no change).\n"
    pinned = run_json("pin", OBJECT, "--turns", "3")
    assert (pinned["what"], pinned["id"]) == ("pinned", OBJECT)
    assert [run_json("unpin", OBJECT)["what"] for _ in range(2)] == ["unpinned", "unchanged"]
    assert "--turns" in run("pin", OBJECT, "--turns", "0", code=2).stderr


@pytest.mark.usefixtures("read_files")
@pytest.mark.parametrize("command", ["pin", "unpin", "object"])
def test_object_of_another_session_is_reported_with_that_session(command: str) -> None:
    mine, other = run_json("objects", "mine"), run_json("objects", "other")
    (parser,) = [each["id"] for each in mine["objects"] if (each["source_key"] or "").endswith("parser.py")]
    assert run(command, parser, "--session", "other", code=1).stderr == (
        f"Error: Session {other['session']} has no object {parser!r}; it belongs to session {mine['session']}.\n"
    )


def test_a_short_form_that_keeps_every_specific_is_not_said_to_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    known = remembered(made("abc2345", 1), summarized("abc2345", Fidelity.DETAILED, 3))
    _print_renditions(known.objects["abc2345"])
    original, short, _ = capsys.readouterr().out.strip().splitlines()[1:4]
    assert original.endswith("nothing")
    assert short.endswith("no specifics")
