import base64
import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.cost.tariffs import FOREVER
from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import Scope
from mnemosyne.domain.knowledge.knowledge_store import knowledge_stream
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.ports import Append, Content, Envelope
from mnemosyne.domain.session.directory import operator_stream, stream_of
from mnemosyne.domain.session.events import Event, GapRecorded, SessionImported, SessionStarted
from mnemosyne.domain.session.redaction import is_whole
from mnemosyne.domain.session.round_events import ManagingSwitched
from mnemosyne.errors import BadConfiguration
from mnemosyne.services import export_format, exporting
from mnemosyne.services.export_format import DamagedFile
from mnemosyne.services.exporting import SessionExists, export, import_file, write_session
from mnemosyne.services.memories import find as find_object
from mnemosyne.services.memories import fold, read_texts
from mnemosyne.services.sessions import Archive
from mnemosyne.services.switching import find_import
from mnemosyne.services.verifying import verify
from mnemosyne.times import LAST
from tests.damaged import chances, damage_lines
from tests.golden.sessions import LOGS, opened
from tests.services.talking import IMPORTING, Plain, Talk, body, plain, rich_session, talking, user

CODEC = event_codec()


async def _exported(talk: Talk, path: Path) -> list[bytes]:
    lines = [line async for line in export(talk.archive, talk.stream, CODEC)]
    await trio.Path(path).write_bytes(b"".join(lines))
    return lines


async def test_a_session_arrives_with_every_event_and_every_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "CHUNK_EVENTS", 3)
    other = plain()
    async with talking() as talk:
        await rich_session(talk)
        lines = await _exported(talk, tmp_path / "s.jsonl")
        heard: list[tuple[int, int]] = []
        imported = await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING, lambda *done: heard.append(done))
        events = await talk.archive.log.read(talk.stream)
        assert [each.envelope for each in await other.log.read(talk.stream)] == [each.envelope for each in events]
        assert (await verify(other, talk.stream)).verdict == "ok"
    assert (imported.session, imported.added) == (talk.stream, len(events))
    assert heard[-1] == (len(events), len(events))
    contents = [json.loads(line)["content"] for line in lines if line.startswith(b'{"content"')]
    assert len(contents) == len(set(contents))
    assert json.loads(lines[0]) == {
        "format": "mnemosyne-session",
        "version": 1,
        "session": str(talk.stream),
        "events": len(events),
        "contents": len(contents),
    }


async def test_no_line_of_a_copy_commands_the_terminal_to_which_it_may_be_written(tmp_path: Path) -> None:
    model = "sonnet\x1b]52;c;ZXZpbA==\x07\x9b8m\u202egpj\x7f"
    async with talking() as talk:
        await talk.ask(body([user("go")], model=model))
        lines = await _exported(talk, tmp_path / "s.jsonl")
    assert all(line.decode().removesuffix("\n").isprintable() for line in lines)
    told = [json.dumps(json.loads(line), ensure_ascii=False) for line in lines]
    assert any(json.dumps(model, ensure_ascii=False) in line for line in told)


async def _carry(archive: Archive, stream: UUID, path: Path, *, redact: bool = False) -> Plain:
    """A log into which a session's file was brought."""
    with path.open("wb") as file:
        await write_session(archive, str(stream), file, CODEC, redact=redact)
    other = plain()
    await import_file(other, path, CODEC, attrs.evolve(IMPORTING, tenant="t"))
    return other


@pytest.mark.parametrize("redact", [False, True])
async def test_short_forms_arrive_with_their_texts(redact: bool, tmp_path: Path) -> None:
    archive = opened(LOGS / "managed")
    (stream,) = await archive.events.streams()
    other = await _carry(archive, stream, tmp_path / "s.jsonl", redact=redact)
    made = fold(await archive.events.read(stream)).memory.objects
    shown = [each for each in made.values() if each.renditions]
    assert shown
    for each in shown:
        texts, missing = await read_texts(other, await find_object(other, each.id, None))
        assert missing is None
        assert texts == (await read_texts(archive, await find_object(archive, each.id, None)))[0]
    assert (await verify(other, stream)).verdict == "ok"
    again = await _carry(other, stream, tmp_path / "again.jsonl")
    assert [each.envelope for each in await again.events.read(stream)] == [
        each.envelope for each in await other.events.read(stream)
    ]


async def test_a_file_of_before_without_the_texts_of_short_forms_arrives_and_goes_on(tmp_path: Path) -> None:
    archive = opened(LOGS / "managed")
    (stream,) = await archive.events.streams()
    events = await archive.events.read(stream)
    texts = {each.envelope.event.text.hex() for each in events if isinstance(each.envelope.event, ObjectSummarized)}
    first, *lines = [json.loads(line) async for line in export(archive, stream, CODEC)]
    kept = [line for line in lines if line.get("content") not in texts]
    header = first | {"contents": sum("content" in line for line in kept)}
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(line) + "\n" for line in (header, *kept)), encoding="utf-8")
    other = plain()
    await import_file(other, old, CODEC, attrs.evolve(IMPORTING, tenant="t"))
    for redact in (False, True):
        again = await _carry(other, stream, tmp_path / "again.jsonl", redact=redact)
        assert (await verify(again, stream)).verdict == "ok"


async def test_a_key_in_a_short_form_is_masked() -> None:
    text = b"The key of the deployment is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789."
    archive = opened(LOGS / "managed")
    (stream,) = await archive.events.streams()
    events = await archive.events.read(stream)
    made = next(each.envelope.event for each in events if isinstance(each.envelope.event, ObjectSummarized))
    digest = hashlib.sha256(text).digest()
    more = Envelope(attrs.evolve(made, text=digest, size=len(text)), "c")
    await archive.journal.append(Append(stream, len(events), (more,), (Content(digest, text),)))
    file = io.BytesIO()
    await write_session(archive, str(stream), file, CODEC, redact=True)
    contents = [json.loads(line) for line in file.getvalue().splitlines() if line.startswith(b'{"content"')]
    said = [base64.b64decode(each["data"]) for each in contents]
    assert text not in said
    assert any(each.startswith(b"The key of the deployment is ***") for each in said)


async def test_a_session_that_came_from_a_file_is_marked_so_where_it_goes_on_to(tmp_path: Path) -> None:
    other = plain()
    async with talking() as talk:
        await talk.ask(body([user("Where is the bug?")]))
        lines = await _exported(talk, tmp_path / "s.jsonl")
        assert "imported_at" not in json.loads(lines[0])
        for _ in range(2):
            await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING)
        assert list(await other.events.streams()) == [talk.stream], "the mark is no session"
        assert await find_import(other, "local", talk.stream) == IMPORTING.at
        assert len(await other.log.read(operator_stream("local"))) == 1
        again = [line async for line in export(other, talk.stream, CODEC)]
        assert json.loads(again[0])["imported_at"] == IMPORTING.at
        assert again[1:] == lines[1:]
        await import_file(talk.archive, tmp_path / "s.jsonl", CODEC, IMPORTING)
        assert await find_import(talk.archive, "local", talk.stream) is None, "it was recorded here"


async def test_an_import_that_was_cut_short_goes_on_where_it_was(tmp_path: Path) -> None:
    other = plain()
    async with talking() as talk:
        await rich_session(talk)
        await _exported(talk, tmp_path / "s.jsonl")
        events = await talk.archive.log.read(talk.stream)
        digests = list(talk.archive.log._contents[talk.stream])
        contents = await talk.archive.log.fetch(talk.stream, digests)
    await other.log.append(Append(talk.stream, 0, tuple(each.envelope for each in events[:4])))
    other.log._contents[talk.stream] = dict(contents)
    imported = await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING)
    assert imported.added == len(events) - 4
    assert (await verify(other, talk.stream)).verdict == "ok"
    assert (await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING)).added == 0


async def test_different_session_with_the_same_id_is_not_overwritten(tmp_path: Path) -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        await _exported(talk, tmp_path / "s.jsonl")
    other = plain()
    async with talking(other) as theirs:
        await theirs.ask(body([user("Something else.")]))
        before = await other.log.read(theirs.stream)
        with pytest.raises(SessionExists, match="is here already"):
            await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING)
        assert await other.log.read(theirs.stream) == before


Damage = Callable[[list[bytes]], list[bytes]]


def _edit(line: int, old: bytes, new: bytes) -> Damage:
    def edit(lines: list[bytes]) -> list[bytes]:
        assert old in lines[line]
        return [*lines[:line], lines[line].replace(old, new, 1), *lines[line + 1 :]]

    return edit


def _at(lines: list[bytes], opening: bytes) -> int:
    return next(number for number, line in enumerate(lines) if line.startswith(opening))


def _edited_time(at: int) -> Damage:
    def damage(lines: list[bytes]) -> list[bytes]:
        value = json.loads(lines[1])
        value["stored"]["data"]["at"] = at
        return [lines[0], json.dumps(value).encode() + b"\n", *lines[2:]]

    return damage


def _wrong_hash(lines: list[bytes]) -> list[bytes]:
    number = _at(lines, b'{"event":3')
    value = json.loads(lines[number])
    value["stored"]["data"]["sha256"] = "A" * 43
    return [*lines[:number], json.dumps(value).encode() + b"\n", *lines[number + 1 :]]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda lines: [], "line 1: it is empty"),
        (_edit(0, b"mnemosyne-session", b"other"), "line 1: this is no file"),
        (_edit(0, b'"version":1', b'"version":9'), "line 1: its version is 9"),
        (_edit(0, b'"events"', b'"evnets"'), "line 1: the header is not whole"),
        (lambda lines: lines[:-1], "is not whole"),
        (lambda lines: [*lines[:-1], lines[-1][:40]], "the file ends within it"),
        (lambda lines: [*lines[:2], b"nonsense\n", *lines[2:]], "line 3: it is not a JSON object"),
        (_edit(1, b'"event":1', b'"event":2'), "line 2: event 1 should stand here"),
        (_edit(1, b"session.started.v1", b"session.started.v7"), "line 2: .*session.started.v7"),
        (lambda lines: [line for line in lines if not line.startswith(b'{"content"')], "which is not in the file"),
        (lambda lines: _edit(_at(lines, b'{"content"'), b'"data":"', b'"data":"AAAA')(lines), "does not have the hash"),
        (lambda lines: _edit(_at(lines, b'{"content"'), b'"data":"', b'"data":"!')(lines), "not in base64"),
        (_edited_time(-1), "line 2: -1 is no time"),
        (_edited_time(2**63), "line 2: it holds a number that is none of ours"),
        (_wrong_hash, "turn 1.1 of branch main: the rebuilt body has the SHA-256"),
    ],
)
async def test_a_damaged_file_is_refused_whole_with_its_line_and_what(
    damage: Damage, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        lines = await _exported(talk, path)
    path.write_bytes(b"".join(damage(lines)))
    other = plain()
    with pytest.raises(DamagedFile, match=what):
        await import_file(other, path, CODEC, IMPORTING)
    assert await other.log.streams() == []


@pytest.mark.parametrize("expires", [FOREVER, FOREVER + 1_795_752_470_968_664, FOREVER + LAST, FOREVER + LAST + 1])
async def test_a_session_of_a_model_whose_cache_never_expires_is_imported(expires: int, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with talking() as talk:
        await talk.ask(body([user("One. " * 800)]))
        lines = await _exported(talk, path)
    edited, count = re.subn(rb'"expires":\d+', b'"expires":%d' % expires, b"".join(lines))
    assert count
    path.write_bytes(edited)
    other = plain()
    if expires > FOREVER + LAST:
        with pytest.raises(DamagedFile, match="a number that is none of ours"):
            await import_file(other, path, CODEC, IMPORTING)
    else:
        await import_file(other, path, CODEC, IMPORTING)
        assert await other.log.streams() == [talk.stream]


async def test_any_file_is_imported_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        lines = await _exported(talk, path)
    for chance in chances(100):
        path.write_bytes(damage_lines(lines, chance))
        other = plain()
        with suppress(DamagedFile, BadConfiguration):
            await import_file(other, path, CODEC, IMPORTING)
            await _check_own(other)


async def _check_own(archive: Plain) -> None:
    """What was brought into an empty log is one session of the tenant, that says so, can go on, and is read whole."""
    [stream] = await archive.events.streams()
    events = await archive.log.read(stream)
    [started] = [each.envelope.event for each in events if isinstance(each.envelope.event, SessionStarted)]
    assert (started.tenant, stream) == (IMPORTING.tenant, stream_of(IMPORTING.tenant, started.external_id))
    assert await find_import(archive, IMPORTING.tenant, stream) == IMPORTING.at
    assert is_whole([each.envelope.event for each in events])
    await verify(archive, stream)


def _renamed(lines: list[bytes], stream: UUID) -> list[bytes]:
    return [json.dumps(json.loads(lines[0]) | {"session": str(stream)}).encode() + b"\n", *lines[1:]]


def _with_event(lines: list[bytes], event: Event, version: int) -> list[bytes]:
    """With an event more in place of that of a version; the others move on."""
    found, now = [], 0
    for line in map(json.loads, lines[1:]):
        now += "event" in line
        if line.get("event") == version:
            name, stored = CODEC.encode(Envelope(event, "c"))
            found.append({"event": version, "name": name, "stored": json.loads(stored)})
        found.append(line | {"event": now + (now >= version)} if "event" in line else line)
    head = json.loads(lines[0])
    return [json.dumps(each).encode() + b"\n" for each in (head | {"events": head["events"] + 1}, *found)]


START = SessionStarted(at=1, tenant="local", external_id="s", client="c", client_version=None, salt=b"salt")

CROSSING: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "under the id of a session that begins later": lambda lines: _renamed(lines, stream_of("local", "another")),
    "under that of another tenant's": lambda lines: _renamed(lines, stream_of("other", "s")),
    "as what the operator decided": lambda lines: _renamed(lines, operator_stream("local")),
    "as what is known": lambda lines: _renamed(lines, knowledge_stream(Place("local", Scope.USER))),
    "beginning again as another tenant's": lambda lines: _with_event(lines, attrs.evolve(START, tenant="other"), 3),
    "beginning again under another name": lambda lines: _with_event(lines, attrs.evolve(START, external_id="x"), 3),
    "saying of another that it was imported": lambda lines: _with_event(
        lines, SessionImported(at=1, session=UUID(int=7)), 2
    ),
    "switching managing off": lambda lines: _with_event(lines, ManagingSwitched(at=1, on=False, why="mine"), 1),
    "with its start behind what it began": lambda lines: _with_event(
        lines, GapRecorded(at=1, since=1, turns=1, reason="none"), 1
    ),
}


@pytest.mark.parametrize("way", CROSSING)
async def test_nothing_of_a_file_becomes_another_sessions_or_another_tenants(way: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        lines = await _exported(talk, path)
    path.write_bytes(b"".join(CROSSING[way](lines)))
    other = plain()
    with pytest.raises((DamagedFile, BadConfiguration), match="Nothing was imported"):
        await import_file(other, path, CODEC, IMPORTING)
    assert await other.log.tail(after=0, limit=9) == []


async def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="cannot be read"):
        await import_file(plain(), tmp_path / "none", CODEC, IMPORTING)


async def test_a_file_holds_the_lines_of_the_session_that_a_person_means() -> None:
    async with talking() as talk:
        await rich_session(talk)
    file = io.BytesIO()
    done = await exporting.write_session(talk.archive, "a client", file, CODEC)
    assert file.getvalue() == b"".join([line async for line in export(talk.archive, talk.stream, CODEC)])
    events = await talk.archive.log.read(talk.stream)
    assert (done.session, done.events, done.bytes) == (talk.stream, len(events), len(file.getvalue()))


async def test_only_a_regular_file_with_lines_of_bounded_length_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for each in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(DamagedFile, match="cannot be read"):
            await import_file(plain(), each, CODEC, IMPORTING)
    monkeypatch.setattr(export_format, "_LONGEST_LINE", 1000)
    header = export_format.header_line(export_format.Header(UUID(int=1), 1, 1))
    for number, text in ((1, b"[" * 2000), (2, header + b"[" * 2000)):
        (tmp_path / "long").write_bytes(text)
        with pytest.raises(DamagedFile, match=f"line {number}: it has more than 1,000 bytes. Nothing was imported"):
            await import_file(plain(), tmp_path / "long", CODEC, IMPORTING)
