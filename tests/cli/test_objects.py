"""What people read of memory, in sentences and tables, is what the log says."""

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
from click.testing import CliRunner

from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.storage import event_codec
from mnemosyne.cli import main
from mnemosyne.cli.explain import _as_json, _paragraphs
from mnemosyne.cli.objects import (
    _HEADERS,
    TOPIC_HEADERS,
    _print_links,
    _row,
    _source_line,
    topic_rows,
    topics_as_json,
)
from mnemosyne.cli.windows import WIDTH, bar, decision_as_json, decision_text
from mnemosyne.domain.cost.tokens import Features, MeasuredPrompt
from mnemosyne.domain.history import memory_travel
from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectCreated, ObjectEvent
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.segmentation.episodes import topics_of
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window.planning import NoRewrite
from mnemosyne.http.inspector.happenings import describe_object
from mnemosyne.replay.session_tapes import tape_of
from mnemosyne.services import windows
from mnemosyne.services.memories import FoundObject
from mnemosyne.services.windows import Listing
from tests.domain.memory_objects import made
from tests.domain.talks import on_topics
from tests.golden.sessions import LOGS, append_all, appends
from tests.projections.support import POSTGRES, open_world
from tests.replay.recordings import played, session, streams


def at(turn: int) -> MemorySnapshot:
    log, _ = played(tape_of(session(turns=8)))
    (stream,) = streams(log)
    return snapshot(trio.run(log.read, stream), "main", turn)


def test_every_object_has_a_row_of_one_cell_for_each_column() -> None:
    found = at(8)
    listing = Listing(stream=UUID(int=1), window=found.window, standings=found.standings(), is_managed=True)
    rows = [_row(listing, each) for each in listing.standings]
    assert {row[0] for row in rows} == found.memory.objects.keys()
    assert all(len(row) == len(_HEADERS) for row in rows)


def test_explain_tells_each_event_of_the_turn_in_the_words_of_the_other_lists() -> None:
    found = next(
        each for each in map(at, range(2, 9)) if any(isinstance(event, ObjectCreated) for event in each.happened)
    )
    paragraphs = list(_paragraphs(found, NoRewrite("nothing is old enough")))
    told = "\n".join("\n".join((sentence, *lines)) for sentence, lines in paragraphs)
    for event in found.happened:
        what, why = describe_object(event, sized=False)
        assert any(event.object in line and why in line and what in line for _, lines in paragraphs for line in lines)
    assert f"zone {found.assessed.zone}" in told
    assert "With managing on, the next request would not compact the context: nothing is old enough." in told
    assert all(each.id in told for each, _ in found.list_kept())


def test_a_kept_object_is_said_with_its_reason_in_json_too() -> None:
    found = at(6)
    told = _as_json(found, None)
    assert told["kept"] == [{"object": each.id, "why": why} for each, why in found.list_kept()]
    assert told["window"]["history_tokens"] + told["window"]["fixed_tokens"] == found.assessed.tokens


def found_of(object_id: str, *events: ObjectEvent) -> FoundObject:
    """An object of a session with these events."""
    memory = reduce(evolve, events, Memory())
    return FoundObject(UUID(int=1), [], Session(memory=memory), memory.objects[object_id])


def test_a_link_reads_as_a_sentence_from_either_end(capsys: pytest.CaptureFixture[str]) -> None:
    link = Link(LinkRelation.PARENT_OF, "a")
    events = (made("a", 0), made("d", role=Role.DERIVED, links=(link,)))
    _print_links(found_of("a", *events))
    _print_links(found_of("d", *events))
    assert [each.split(":")[0] for each in capsys.readouterr().out.split("\n") if each] == ["part of d", "parent of a"]


@pytest.mark.parametrize(
    ("key", "said"), [("Bash python3 a.py", "from Bash python3 a.py, "), ("/a.py", "from Bash /a.py, ")]
)
def test_the_tool_is_named_once(key: str, said: str) -> None:
    event = attrs.evolve(made("a", 0), source_tool="Bash", source_key=key)
    assert _source_line(found_of("a", event).object).startswith(said)


@pytest.mark.parametrize(
    ("rewritten", "said"), [(True, "minus the tokens freed by the compaction, plus"), (False, "43.1k tokens, plus")]
)
def test_an_estimate_says_that_it_is_one_after_a_rewrite(rewritten: bool, said: str) -> None:
    found = attrs.evolve(at(6), anchor=MeasuredPrompt(43_100, Features()), since_rewritten=rewritten)
    told = " ".join(line for _, lines in _paragraphs(found, None) for line in lines)
    assert "from the provider's last count of 43.1k tokens" in told
    assert said in told


def test_topics_have_a_row_for_each_episode_and_say_the_same_in_json() -> None:
    log, _ = played(tape_of(on_topics("parser", "billing", "parser", "search")))
    (stream,) = streams(log)
    topics = topics_of(snapshot(trio.run(log.read, stream), "main").memory, "main")
    rows, told = topic_rows(topics), topics_as_json(topics)
    assert [len(row) for row in rows] == [len(TOPIC_HEADERS)] * 4
    assert [row[0] for row in rows] == [each["id"] or "(ongoing)" for each in told["episodes"]]
    assert [row[3] for row in rows] == [rows[0][0], "-", rows[0][0], "-"]
    assert told["themes"] == [[rows[0][0], rows[2][0]]]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (Mode.MANAGE, "managed: w"),
        (Mode.OBSERVE, "observed: w"),
        (Mode.BYPASS, "managed no longer: w"),
    ],
)
def test_whether_a_conversation_is_managed_is_said_with_the_reason_that_is_on_record(mode: Mode, said: str) -> None:
    decision = BranchModeSet(at=1, branch="main", mode=mode, why="w")
    assert decision_text(decision) == said
    assert decision_as_json(decision) == {"mode": mode.value, "mode_why": "w"}


def test_a_bar_is_never_longer_than_its_place() -> None:
    assert {len(bar(part, 100)) for part in (0, 1, 50, 100, 900)} == {WIDTH}
    assert bar(5, 0) == bar(100, 100)


@pytest.fixture
def logs(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], UUID]:
    """Puts a golden log into a database that the commands find; the first session in it."""

    async def fill(name: str) -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            await append_all(world.journal, appends(LOGS / name))

    def put(name: str) -> UUID:
        trio.run(fill, name)
        return appends(LOGS / name)[0].stream

    settings = {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(tmp_path), "MNEMOSYNE_TENANT": "t"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return put


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", ["observed", "managed", "hidden-rounds", "bypassed"])
def test_objects_are_listed_from_the_working_set_as_from_the_log(
    name: str, logs: Callable[[str], UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = str(logs(name))
    folds = 0

    def counted(*given: Any) -> MemorySnapshot:
        nonlocal folds
        folds += 1
        return snapshot(*given)

    monkeypatch.setattr(memory_travel, "snapshot", counted)
    monkeypatch.setattr(windows, "snapshot", counted)
    listed = run("objects", session, "--json"), run("objects", session), run("objects", session, "--stale")
    assert folds == (3 if name == "observed" else 0)

    async def behind(models: OpenReadModels, projections: object) -> bool:
        return False

    monkeypatch.setattr(OpenReadModels, "refresh", behind)
    assert (run("objects", session, "--json"), run("objects", session), run("objects", session, "--stale")) == listed
    assert folds == (6 if name == "observed" else 3)
    told = json.loads(listed[0])
    assert told["objects"]
    assert (told["planned"] is not None) == (name == "observed")


def test_of_an_observed_session_the_planners_answer_is_told(logs: Callable[[str], UUID]) -> None:
    session = str(logs("observed"))
    told = json.loads(run("explain", session, "--json"))["planned"]
    assert told["epoch"]["reason"] == "the provider's cache has forgotten the session"
    assert told["objects"]
    would = {f"would→{each['after']}" for each in told["objects"]}
    listed = json.loads(run("objects", session, "--json"))
    assert listed["planned"].keys() == told.keys()
    assert {flag for each in listed["objects"] for flag in each["flags"] if flag.startswith("would")} == would
    said = "With managing on, the next request would evict or shorten "
    assert said in run("objects", session)
    explained = run("explain", session)
    assert said in explained
    assert "This conversation was observed: managing was not requested.\n" in explained
    for each in told["objects"][:8]:
        assert f"{each['object']} " in explained
