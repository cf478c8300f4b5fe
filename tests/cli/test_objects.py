"""What people read of memory, in sentences and tables, is what the log says."""

from functools import reduce
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.cli.explain import _as_json, _made, _paragraphs
from mnemosyne.cli.objects import _HEADERS, _print_links, _row, _whence
from mnemosyne.cli.topics import TOPIC_HEADERS, topic_rows, topics_as_json
from mnemosyne.cli.windows import WIDTH, bar
from mnemosyne.domain.cost.tokens import Anchor, Features
from mnemosyne.domain.history.memory_travel import Moment, moment
from mnemosyne.domain.objects.events import Link, ObjectEvent, Relation
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.segmentation.episodes import topics_of
from mnemosyne.domain.session.state import Session
from mnemosyne.lab.replay.session_tapes import tape_of
from mnemosyne.services.memories import Found
from tests.domain.memory_objects import made
from tests.domain.talks import on_topics
from tests.lab.replay.recordings import played, session, streams


def at(turn: int) -> Moment:
    log, _ = played(tape_of(session(turns=8)))
    (stream,) = streams(log)
    return moment(trio.run(log.read, stream), "main", turn)


def test_every_object_has_a_row_of_one_cell_for_each_column() -> None:
    found = at(8)
    rows = [_row(found, each) for each in found.standings()]
    assert {row[0] for row in rows} == found.memory.objects.keys()
    assert all(len(row) == len(_HEADERS) for row in rows)


def test_the_explanation_names_what_was_made_and_how_full_the_window_is() -> None:
    found = next(each for each in map(at, range(2, 9)) if _made(each))
    said = "\n".join("\n".join((sentence, *lines)) for sentence, lines in _paragraphs(found))
    made = _made(found)
    assert made
    assert all(event.object in said for event in made)
    assert f"zone {found.assessed.zone}" in said
    assert "Pressure asks for nothing in zone normal." in said
    assert all(each.id in said for each, _ in found.kept())


def test_a_kept_object_is_said_with_its_reason_in_json_too() -> None:
    found = at(6)
    told = _as_json(found)
    assert told["kept"] == [{"object": each.id, "why": why} for each, why in found.kept()]
    assert told["window"]["history_tokens"] + told["window"]["fixed_tokens"] == found.assessed.tokens


def found_of(object_id: str, *events: ObjectEvent) -> Found:
    """An object of a session with these events."""
    memory = reduce(evolve, events, Memory())
    return Found(UUID(int=1), [], Session(memory=memory), memory.objects[object_id])


def test_a_link_reads_as_a_sentence_from_either_end(capsys: pytest.CaptureFixture[str]) -> None:
    link = Link(Relation.PARENT_OF, "a")
    events = (made("a", 0), made("d", role=Role.DERIVED, links=(link,)))
    _print_links(found_of("a", *events))
    _print_links(found_of("d", *events))
    assert [each.split(":")[0] for each in capsys.readouterr().out.split("\n") if each] == ["part of d", "parent of a"]


@pytest.mark.parametrize(
    ("key", "said"), [("Bash python3 a.py", "from Bash python3 a.py, "), ("/a.py", "from Bash /a.py, ")]
)
def test_the_tool_is_named_once(key: str, said: str) -> None:
    event = attrs.evolve(made("a", 0), source_tool="Bash", source_key=key)
    assert _whence(found_of("a", event).object).startswith(said)


@pytest.mark.parametrize(("rewritten", "said"), [(True, "less what the rewrite freed, and"), (False, "last, and what")])
def test_an_estimate_says_that_it_is_one_after_a_rewrite(rewritten: bool, said: str) -> None:
    found = attrs.evolve(at(6), anchor=Anchor(43_100, Features()), since_rewritten=rewritten)
    told = " ".join(line for _, lines in _paragraphs(found) for line in lines)
    assert "from the 43.1k tokens that the provider counted last" in told
    assert said in told


def test_topics_have_a_row_for_each_episode_and_say_the_same_in_json() -> None:
    log, _ = played(tape_of(on_topics("parser", "billing", "parser", "search")))
    (stream,) = streams(log)
    topics = topics_of(moment(trio.run(log.read, stream), "main").memory, "main")
    rows, told = topic_rows(topics), topics_as_json(topics)
    assert [len(row) for row in rows] == [len(TOPIC_HEADERS)] * 4
    assert [row[0] for row in rows] == [each["id"] or "(goes on)" for each in told["episodes"]]
    assert [row[3] for row in rows] == [rows[0][0], "-", rows[0][0], "-"]
    assert told["themes"] == [[rows[0][0], rows[2][0]]]


def test_a_bar_is_never_longer_than_its_place() -> None:
    assert {len(bar(part, 100)) for part in (0, 1, 50, 100, 900)} == {WIDTH}
    assert bar(5, 0) == bar(100, 100)
