"""Every later version reads, rebuilds and continues a session exactly as an earlier version recorded it."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from mnemosyne.app.storage import ALL_NAMES, ALL_UPCASTS
from mnemosyne.domain.history.time_travel import digests_of
from tests.golden.sessions import CODEC, FOLDERS, contents, folded, found_in, loaded, opened, stored

WHOLE = [folder for folder in FOLDERS if (folder / "contents.jsonl").exists()]
EVERY = 10
"""How many events lie between two versions at which a session's state is looked at."""

of_each_log = pytest.mark.parametrize("folder", WHOLE, ids=lambda folder: folder.name)


def test_every_version_of_every_event_is_in_a_log() -> None:
    held = {each.name for folder in FOLDERS for each in stored(folder)}
    assert held == ALL_NAMES.keys() | ALL_UPCASTS.keys()


@of_each_log
def test_every_event_is_encoded_again_to_its_stored_form(folder: Path) -> None:
    for each in stored(folder):
        name, state = CODEC.encode(each.decoded())
        assert CODEC.decode(name, state) == each.decoded()
        if name == each.name:  # else it has a newer form by now
            assert json.loads(state) == each.state, name


@of_each_log
async def test_loaded_session_equals_its_folded_events_at_any_version(folder: Path) -> None:
    log = opened(folder).log
    for stream in await log.streams():
        recorded = await log.read(stream)
        for version in {*range(0, len(recorded), EVERY), len(recorded)}:
            assert loaded(recorded[:version]) == folded(recorded[:version]), version


@of_each_log
def test_every_stored_content_is_named_by_an_event_of_its_session(folder: Path) -> None:
    named: dict[UUID, set[bytes]] = {}
    for each in stored(folder):
        named.setdefault(each.stream, set()).update(digests_of(each.decoded().event))
    for stream, held in contents(folder).items():
        assert {each.digest for each in held} <= named[stream]


@of_each_log
async def test_every_body_and_reply_is_rebuilt_and_verified_unless_erased(folder: Path) -> None:
    found = await found_in(opened(folder))
    assert found == json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for session in found.values():
        assert session["differences"] == []
        sent = session["sent"].values()
        assert all(each["proven"] == (each["body"] is not None) for each in sent)
        assert all(each["proven"] for each in sent) or session["verdict"] == "forgotten"
