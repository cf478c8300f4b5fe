"""Whatever a version once recorded of a session, every later one reads, rebuilds and goes on from just so."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from mnemosyne.app.storage import ALL_NAMES
from mnemosyne.domain.history.time_travel import digests_of
from mnemosyne.domain.session.events import EVENT_UPCASTS
from tests.golden.sessions import CODEC, FOLDERS, contents, folded, found_in, loaded, opened, stored

WHOLE = [folder for folder in FOLDERS if (folder / "contents.jsonl").exists()]
EVERY = 10
"""How many events lie between two versions at which a session's state is looked at."""

of_each_log = pytest.mark.parametrize("folder", WHOLE, ids=lambda folder: folder.name)


def test_every_version_of_every_event_stands_in_a_log() -> None:
    held = {each.name for folder in FOLDERS for each in stored(folder)}
    assert held == ALL_NAMES.keys() | EVENT_UPCASTS.keys()


@of_each_log
def test_every_event_is_encoded_again_to_what_is_stored(folder: Path) -> None:
    for each in stored(folder):
        name, state = CODEC.encode(each.decoded())
        assert CODEC.decode(name, state) == each.decoded()
        if name == each.name:  # else it has a newer form by now
            assert json.loads(state) == each.state, name


@of_each_log
async def test_a_session_is_loaded_as_it_is_folded_at_whatever_version(folder: Path) -> None:
    log = opened(folder).log
    for stream in await log.streams():
        recorded = await log.read(stream)
        for version in {*range(0, len(recorded), EVERY), len(recorded)}:
            assert loaded(recorded[:version]) == folded(recorded[:version]), version


@of_each_log
def test_nothing_is_stored_that_no_event_of_its_session_names_so_there_is_nothing_to_collect(folder: Path) -> None:
    named: dict[UUID, set[bytes]] = {}
    for each in stored(folder):
        named.setdefault(each.stream, set()).update(digests_of(each.decoded().event))
    for stream, held in contents(folder).items():
        assert {each.digest for each in held} <= named[stream]


@of_each_log
async def test_every_body_and_every_reply_is_rebuilt_to_the_byte_and_proven_unless_it_was_erased(folder: Path) -> None:
    found = await found_in(opened(folder))
    assert found == json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for session in found.values():
        assert session["differences"] == []
        sent = session["sent"].values()
        assert all(each["proven"] == (each["body"] is not None) for each in sent)
        assert all(each["proven"] for each in sent) or session["verdict"] == "forgotten"
