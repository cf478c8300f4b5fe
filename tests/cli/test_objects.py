"""What people read of memory, in sentences and tables, is what the log says."""

import trio

from mnemosyne.cli.explain import _as_json, _made, _paragraphs
from mnemosyne.cli.objects import _HEADERS, _row
from mnemosyne.cli.windows import WIDTH, bar
from mnemosyne.domain.memory_travel import Moment, moment
from mnemosyne.replaying.session_tapes import tape_of
from tests.replaying.recordings import played, session, streams


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


def test_a_bar_is_never_longer_than_its_place() -> None:
    assert {len(bar(part, 100)) for part in (0, 1, 50, 100, 900)} == {WIDTH}
    assert bar(5, 0) == bar(100, 100)
