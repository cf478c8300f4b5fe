import base64
import hashlib
import io
import itertools
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
from mnemosyne.domain.session.decide import SwitchManaging
from mnemosyne.domain.session.directory import operator_stream, stream_of
from mnemosyne.domain.session.events import Event, GapRecorded, SessionImported, SessionStarted
from mnemosyne.domain.session.redaction import is_whole
from mnemosyne.domain.session.round_events import ManagingSwitched
from mnemosyne.errors import BadConfiguration
from mnemosyne.services import export_format, exporting, switching
from mnemosyne.services.export_format import DamagedFile
from mnemosyne.services.exporting import SessionExists, import_file, write_session
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
    file = io.BytesIO()
    done = await write_session(talk.archive, "a client", file, CODEC)
    lines = file.getvalue().splitlines(keepends=True)
    events = await talk.archive.log.read(talk.stream)
    assert (done.session, done.events, done.bytes) == (talk.stream, len(events), len(file.getvalue()))
    await trio.Path(path).write_bytes(file.getvalue())
    return lines


async def test_every_event_and_body_of_a_session_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "CHUNK_EVENTS", 3)
    other = plain()
    async with talking() as talk:
        await rich_session(talk)
        lines = await _exported(talk, tmp_path / "s.jsonl")
        reported: list[tuple[int, int]] = []
        imported = await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING, lambda *done: reported.append(done))
        events = await talk.archive.log.read(talk.stream)
        assert [each.envelope for each in await other.log.read(talk.stream)] == [each.envelope for each in events]
        assert (await verify(other, talk.stream)).verdict == "ok"
    assert (imported.session, imported.added) == (talk.stream, len(events))
    assert reported[-1] == (len(events), len(events))
    contents = [json.loads(line)["content"] for line in lines if line.startswith(b'{"content"')]
    assert len(contents) == len(set(contents))
    assert json.loads(lines[0]) == {
        "format": "mnemosyne-session",
        "version": 1,
        "session": str(talk.stream),
        "events": len(events),
        "contents": len(contents),
    }


async def test_a_session_is_imported_with_its_own_switches(tmp_path: Path) -> None:
    async with talking() as talk:
        await rich_session(talk)
        for on in (False, True):
            command = SwitchManaging(at=1, on=on, why="mnemosyne off")
            await switching.switch_session(talk.archive, talk.stream, command, "c")
        await _exported(talk, tmp_path / "s.jsonl")
        other = plain()
        await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING)
        events = await talk.archive.log.read(talk.stream)
        assert [each.envelope for each in await other.log.read(talk.stream)] == [each.envelope for each in events]
    assert [each.envelope.event.on for each in events if isinstance(each.envelope.event, ManagingSwitched)] == [0, 1]


async def test_no_line_contains_terminal_control_characters(tmp_path: Path) -> None:
    model = "sonnet\x1b]52;c;ZXZpbA==\x07\x9b8m\u202egpj\x7f"
    async with talking() as talk:
        await talk.ask(body([user("go")], model=model))
        lines = await _exported(talk, tmp_path / "s.jsonl")
    assert all(line.decode().removesuffix("\n").isprintable() for line in lines)
    assert any(json.dumps(model) in json.dumps(json.loads(line)) for line in lines)


async def _carry(archive: Archive, stream: UUID, path: Path, *, redact: bool = False) -> Plain:
    """A log into which a session's file was imported."""
    with path.open("wb") as file:
        await write_session(archive, str(stream), file, CODEC, redact=redact)
    other = plain()
    await import_file(other, path, CODEC, attrs.evolve(IMPORTING, tenant="t"))
    return other


@pytest.mark.parametrize("redact", [False, True])
async def test_renditions_are_imported_with_their_texts(redact: bool, tmp_path: Path) -> None:
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


async def test_an_early_file_without_rendition_texts_is_imported_and_exported_again(tmp_path: Path) -> None:
    archive = opened(LOGS / "managed")
    (stream,) = await archive.events.streams()
    events = await archive.events.read(stream)
    texts = {each.envelope.event.text.hex() for each in events if isinstance(each.envelope.event, ObjectSummarized)}
    file = io.BytesIO()
    await write_session(archive, str(stream), file, CODEC)
    first, *lines = map(json.loads, file.getvalue().splitlines())
    kept = [line for line in lines if line.get("content") not in texts]
    header = first | {"contents": sum("content" in line for line in kept)}
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(line) + "\n" for line in (header, *kept)), encoding="utf-8")
    other = plain()
    await import_file(other, old, CODEC, attrs.evolve(IMPORTING, tenant="t"))
    for redact in (False, True):
        again = await _carry(other, stream, tmp_path / "again.jsonl", redact=redact)
        assert (await verify(again, stream)).verdict == "ok"


async def test_a_key_in_a_rendition_is_masked() -> None:
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


async def test_an_imported_session_is_marked_in_the_log_and_in_its_next_export(tmp_path: Path) -> None:
    other = plain()
    async with talking() as talk:
        await talk.ask(body([user("Where is the bug?")]))
        lines = await _exported(talk, tmp_path / "s.jsonl")
        assert "imported_at" not in json.loads(lines[0])
        for _ in range(2):
            await import_file(other, tmp_path / "s.jsonl", CODEC, IMPORTING)
        assert list(await other.events.streams()) == [talk.stream], "the mark is not a session"
        assert await find_import(other, "local", talk.stream) == IMPORTING.at
        assert len(await other.log.read(operator_stream("local"))) == 1
        file = io.BytesIO()
        await write_session(other, str(talk.stream), file, CODEC)
        again = file.getvalue().splitlines(keepends=True)
        assert json.loads(again[0])["imported_at"] == IMPORTING.at
        assert again[1:] == lines[1:]
        await import_file(talk.archive, tmp_path / "s.jsonl", CODEC, IMPORTING)
        assert await find_import(talk.archive, "local", talk.stream) is None, "it was recorded here"


async def test_an_interrupted_import_continues(tmp_path: Path) -> None:
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
        with pytest.raises(SessionExists, match="already exists"):
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


def _edited(opening: bytes, **data: object) -> Damage:
    """A change of an event's stored data, in the first line with this beginning."""

    def damage(lines: list[bytes]) -> list[bytes]:
        number = _at(lines, opening)
        value = json.loads(lines[number])
        value["stored"]["data"] |= data
        return [*lines[:number], json.dumps(value).encode() + b"\n", *lines[number + 1 :]]

    return damage


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda lines: [], "line 1: it is empty"),
        (_edit(0, b"mnemosyne-session", b"other"), "line 1: this is not a file"),
        (_edit(0, b'"version":1', b'"version":9'), "line 1: its version is 9"),
        (_edit(0, b'"events"', b'"evnets"'), "line 1: the header is incomplete"),
        (lambda lines: lines[:-1], "is incomplete"),
        (lambda lines: [*lines[:-1], lines[-1][:40]], "the file ends within it"),
        (lambda lines: [*lines[:2], b"nonsense\n", *lines[2:]], "line 3: it is not a JSON object"),
        (_edit(1, b'"event":1', b'"event":2'), "line 2: event 1 was expected here"),
        (_edit(1, b"session.started.v1", b"session.started.v7"), "line 2: .*session.started.v7"),
        (lambda lines: [line for line in lines if not line.startswith(b'{"content"')], "which is not in the file"),
        (
            lambda lines: _edit(_at(lines, b'{"content"'), b'"data":"', b'"data":"AAAA')(lines),
            "does not match its hash",
        ),
        (lambda lines: _edit(_at(lines, b'{"content"'), b'"data":"', b'"data":"!')(lines), "is not base64"),
        (_edited(b'{"event":1', at=-1), "line 2: -1 is not a valid time"),
        (_edited(b'{"event":1', at=2**63), "line 2: it contains a number that is out of range"),
        (_edited(b'{"event":3', sha256="A" * 43), "turn 1.1 of branch main: the rebuilt body has the SHA-256"),
    ],
)
async def test_a_damaged_file_is_refused_with_its_line_and_reason(damage: Damage, what: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=what):
        await _import_damaged(damage, tmp_path)


async def _import_damaged(damage: Damage, folder: Path) -> None:
    """Import a session's file after this change; nothing of it may be stored."""
    path, other = folder / "s.jsonl", plain()
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        lines = await _exported(talk, path)
    path.write_bytes(b"".join(damage(lines)))
    try:
        await import_file(other, path, CODEC, IMPORTING)
    finally:
        assert await other.log.tail(after=0, limit=9) == []


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
        with pytest.raises(DamagedFile, match="a number that is out of range"):
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
    """The imported session is the tenant's own, is marked as imported, and can be continued and read."""
    [stream] = await archive.events.streams()
    events = await archive.log.read(stream)
    [started] = [each.envelope.event for each in events if isinstance(each.envelope.event, SessionStarted)]
    assert (started.tenant, stream) == (IMPORTING.tenant, stream_of(IMPORTING.tenant, started.external_id))
    assert await find_import(archive, IMPORTING.tenant, stream) == IMPORTING.at
    assert is_whole([each.envelope.event for each in events])
    await verify(archive, stream)


def _with_event(event: Event, version: int) -> Damage:
    """An additional event before the event with this version; the others move on."""

    def damage(lines: list[bytes]) -> list[bytes]:
        name, stored = CODEC.encode(Envelope(event, "c"))
        head, *others = map(json.loads, lines)
        events = []
        for line in others:
            if line.get("event") == version:
                events.append({"event": 0, "name": name, "stored": json.loads(stored)})
            events.append(line)
        numbers = itertools.count(1)
        events = [line | {"event": next(numbers)} if "event" in line else line for line in events]
        return [json.dumps(each).encode() + b"\n" for each in (head | {"events": head["events"] + 1}, *events)]

    return damage


START = SessionStarted(at=1, tenant="local", external_id="s", client="c", client_version=None, salt=b"salt")


def _named(stream: UUID) -> Damage:
    return lambda lines: [json.dumps(json.loads(lines[0]) | {"session": str(stream)}).encode() + b"\n", *lines[1:]]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_named(stream_of("local", "another")), id="id of a session that begins later"),
        pytest.param(_named(stream_of("other", "s")), id="id of another tenant's session"),
        pytest.param(_named(operator_stream("local")), id="id of the operator's stream"),
        pytest.param(_named(knowledge_stream(Place("local", Scope.USER))), id="id of a memory stream"),
        pytest.param(_with_event(attrs.evolve(START, tenant="other"), 3), id="second start for another tenant"),
        pytest.param(_with_event(attrs.evolve(START, external_id="x"), 3), id="second start with another name"),
        pytest.param(_with_event(SessionImported(at=1, session=UUID(int=7)), 2), id="import of another session"),
        pytest.param(_with_event(ManagingSwitched(at=1, on=False, why="mine"), 1), id="operator's switch"),
        pytest.param(_with_event(GapRecorded(at=1, since=1, turns=1, reason="none"), 1), id="event before the start"),
    ],
)
async def test_a_file_cannot_add_events_to_another_session_or_tenant(damage: Damage, tmp_path: Path) -> None:
    with pytest.raises((DamagedFile, BadConfiguration), match="Nothing was imported"):
        await _import_damaged(damage, tmp_path)


async def test_only_a_regular_file_with_lines_of_bounded_length_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for each in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "none"):
        with pytest.raises(DamagedFile, match="cannot be read"):
            await import_file(plain(), each, CODEC, IMPORTING)
    monkeypatch.setattr(export_format, "_LONGEST_LINE", 1000)
    header = export_format.header_line(export_format.Header(UUID(int=1), 1, 1))
    for number, text in ((1, b"[" * 2000), (2, header + b"[" * 2000)):
        (tmp_path / "long").write_bytes(text)
        with pytest.raises(DamagedFile, match=f"line {number}: it has more than 1,000 bytes. Nothing was imported"):
            await import_file(plain(), tmp_path / "long", CODEC, IMPORTING)
