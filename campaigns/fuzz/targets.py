"""The fuzz targets: functions that take any bytes and raise if an invariant is violated, each with initial inputs
from handmade sessions and streams.
"""

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne import config
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.cost.catalogue import catalogue_of, load_shipped, overlay, read_tables
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.segmentation.segment import SeenMessage, segment
from mnemosyne.domain.tools import cleanup_tags, memory_tools
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.dialects import DIALECTS, conversation_of
from mnemosyne.domain.wire.identity import identify, read_client_headers
from mnemosyne.errors import BadConfiguration
from mnemosyne.http.reply_copy import ReplyCopy
from mnemosyne.http.rewriters import make_rewriter
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.projection import fold
from mnemosyne.services import conversation_files
from mnemosyne.services.export_format import Reader
from mnemosyne.services.exporting import check, check_own, export
from mnemosyne_lab.evaluation import reading, trace
from mnemosyne_lab.evaluation.exports import conversations
from tests.domain.wire.dialects import TALK, WRITTEN, bodies
from tests.golden.sessions import LOGS, opened
from tests.http.rounds import HIDDEN
from tests.lab.evaluation.recordings import LONG, session


@attrs.frozen
class FuzzTarget:
    """``run`` must accept any bytes without raising; ``seeds`` are the initial inputs."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]


# Bodies


def _read_body(dialect: Dialect, raw: bytes) -> None:
    """A body can be rebuilt, also as a difference to an earlier body, and any content becomes objects."""
    conversation = conversation_of(dialect, None)
    first = transcript.read(raw[: len(raw) // 2], conversation=conversation)
    held = dict(first.contents)
    for before, known in ((None, {}), (first.transcript, held)):
        found = transcript.read(raw, before, conversation=conversation, known=known.keys())
        read = found.transcript
        rebuilt = recipe.assemble(read.recipe.pieces, {**known, **dict(found.contents)}.__getitem__)
        assert sha256(rebuilt).digest() == read.stored_sha256
        assert rebuilt == raw or read.withheld
        assert read.sha256 == sha256(raw).digest()
    origin = identify(read_client_headers([]), read)
    assert origin.external_id is None or origin.external_id.isprintable()
    seen = [
        SeenMessage(number, message.role, 1, transcript.content_of(read, number))
        for number, message in enumerate(read.messages)
    ]
    segment(seen, SegmentationState())


def _body_seeds(dialect: Dialect) -> list[bytes]:
    (written,) = [each for each in WRITTEN if each.dialect is dialect]
    return bodies(written)


# Replies


def _pieces(data: bytes) -> tuple[bytes, list[bytes]]:
    """A provider's reply in pieces, whose size is the first byte."""
    length, raw = (data[0] if data else 0) + 1, data[1:]
    return raw, [raw[start : start + length] for start in range(0, len(raw), length)]


def _pass_reply(dialect: Dialect, data: bytes) -> None:
    """A reply passes unchanged and reads the same, however it is cut."""
    raw, pieces = _pieces(data)
    for streams in (True, False):
        results = []
        for way in (pieces, [raw]):
            passed = ReplyCopy(dialect, (), streams=streams)
            steps = [step for piece in way for step in passed.feed(piece)]
            outputs = [output for step in [*steps, passed.close()] for output in step]
            assert b"".join(output.raw for output in outputs) == raw
            results.append(passed.reply.result())
        assert results[0] == results[1]


def _rewrite_reply(dialect: Dialect, data: bytes) -> None:
    """A reply that cannot contain a memory call passes unchanged; a call without a complete name may be one, and
    then the reply has failed.
    """
    raw, pieces = _pieces(data)
    for streamed in (True, False):
        rewriter = make_rewriter(dialect, HIDDEN, streamed=streamed, itemized=True)
        outputs = [output for piece in pieces for output in rewriter.feed(piece)] + rewriter.close()
        if not any(word in raw for word in (b"memory", b"\\u", b"<")):
            told = b"".join(output.raw for output in outputs)
            assert told == raw or (streamed and b"call" in raw and b"connection broke before" in told)
        rewriter.visible()


def _reply_seeds(dialect: Dialect) -> list[bytes]:
    (written,) = [each for each in WRITTEN if each.dialect is dialect]
    said = [each for exchange in TALK for each in exchange.replies]
    whole = [json.dumps(written.whole(each)).encode() for each in said]
    return [b"\x10" + each for each in (*map(written.stream, said), *whole)]


# Texts


def _read_text(data: bytes) -> None:
    """Tags are found wherever a text is cut."""
    text = data.decode("utf-8", "surrogatepass" if data[:1] == b"\x00" else "replace")
    cleanup_tags.parse(text)
    whole, cut = cleanup_tags.TagFilter(), cleanup_tags.TagFilter()
    pieces = [*whole.feed(text), *whole.end()]
    assert "".join(each.text for each in pieces) == text
    apart = [piece for letter in text for piece in cut.feed(letter)] + cut.end()
    assert _shown(apart) == _shown(pieces)


def _shown(pieces: Sequence[cleanup_tags.Piece]) -> str:
    return "".join(each.text for each in pieces if isinstance(each, cleanup_tags.ShownText))


_TEXTS = (
    "Fix it.\n\n<system-reminder>\nWe decided to use Go.\n</system-reminder>\n\nWe use `uv`.",
    "<memory_cleanup>\ndrop: #abc1234\nsummarize: #abc1235 -> it failed\nanchor: #abc1236\n</memory_cleanup>\nDone.",
    "```\nlet x\n```\n> We decided on A.\n- one\n- two\n“quoted”\n<!-- hidden -->\nCalled the Read tool\n1. x",
)


def _call_tool(data: bytes) -> None:
    """Any name and input is a call, or is refused."""
    name, _, given = data.decode("utf-8", "replace").partition("\n")
    for called in (name, *sorted(memory_tools.NAMES)):
        memory_tools.parse(called, given)


_CALLS = (
    'memory_query\n{"question": "what?", "detail": 3}',
    'memory_restore\n{"ids": ["#abc1234 L3"], "id": "abc1234", "reason": "to see it", "fidelity": "L0"}',
    'memory_release\n{"ids": ["#abc1234"], "id": "abc1234", "reason": "done"}',
    'memory_search\n{"query": "the import", "kind": "file", "limit": 5}',
    'memory_tool\n{"name": "bash"}',
)


# Files


def _file(data: bytes) -> Path:
    """A file of this process, in memory if the system allows it."""
    memory = Path("/dev/shm")
    path = (memory if memory.is_dir() else Path(gettempdir())) / f"mnemosyne-fuzz-{os.getpid()}"
    path.write_bytes(data)
    return path


TENANT = "t"
"""Whose the sessions of the golden logs are."""


def _import_session(data: bytes) -> None:
    """A file is refused with a message, or every read model accepts its session."""
    path = _file(data)
    codec = event_codec()
    try:
        reader = Reader(path, codec)
        check(reader, path)
        check_own(reader, path, TENANT)
    except BadConfiguration:
        return
    parts = [*reader.parts()]
    events = [Recorded(reader.header.session, part.version, part.version, part.envelope) for part in parts]
    for projection in ALL:
        assert not fold(projection, events).set_aside
    [*conversations(path, codec)]


@cache
def _session_seeds() -> list[bytes]:
    return trio.run(_export_all)


async def _export_all() -> list[bytes]:
    found = []
    for name in ("by-model", "named-turns", "requested"):
        archive = opened(LOGS / name)
        for stream in (await archive.events.streams())[:1]:
            found.append(b"".join([line async for line in export(archive, stream, event_codec())]))
    return found


def _read_recording(data: bytes) -> None:
    """The reader of `evaluate` and `what-if`: it returns sessions, and messages about invalid parts."""
    for found in reading.read([_file(data)], lambda path: conversations(path, event_codec())):
        if isinstance(found, trace.Trace):
            trace.trace_of(found)


def _search_file(data: bytes) -> None:
    for read in (conversation_files.read_lines, conversation_files.read_queries):
        try:
            read(_file(data))
        except BadConfiguration:
            continue


def _read_models(data: bytes) -> None:
    """A table of models, or the reason why it is invalid."""
    try:
        catalogue_of(overlay(load_shipped(), read_tables(data.decode("utf-8", "replace"), "it")), "it")
    except BadConfiguration:
        return


def _read_settings(data: bytes) -> None:
    """Settings, or the reason why they are invalid."""
    try:
        config.load_text(data.decode("utf-8", "replace"), Path("/it"), {}, {})
    except BadConfiguration:
        return


_MODELS = (
    '[models."claude-opus-5-5"]\ninput = 4\noutput = 20\ncontext = 200000\n',
    '[tariffs.own]\npaid_in = "quota"\ncaching = "prefix"\nslots = 1\nweights = {input = 1.0, output = 5.0}\n',
)
_SETTINGS = ('port = 8080\nupstream = "http://127.0.0.1:1"\nmanage = true\nretain_days = 3\ntenant = "t"\n',)


# Rows


def _take_event(data: bytes) -> None:
    """A row is an event or not; each read model accepts it or sets it aside."""
    name, _, state = data.partition(b"\n")
    envelope = event_codec().decode_anyway(name.decode("utf-8", "replace"), state)
    for projection in ALL:
        fold(projection, [Recorded(UUID(int=1), 1, 1, envelope)])


def _event_seeds() -> list[bytes]:
    lines = (LOGS / "one-of-everything" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [f"{row['name']}\n{json.dumps(row['state'])}".encode() for row in rows]


def _encoded(texts: Sequence[str]) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]


def _of_dialects() -> Iterator[FuzzTarget]:
    ways: tuple[tuple[str, Any, Any], ...] = (
        ("bodies", _read_body, _body_seeds),
        ("passed", _pass_reply, _reply_seeds),
        ("rewritten", _rewrite_reply, _reply_seeds),
    )
    for (name, run, seeds), dialect in itertools.product(ways, DIALECTS):
        yield FuzzTarget(f"{name}-{dialect.name}", partial(run, dialect), partial(seeds, dialect))


TARGETS = (
    *_of_dialects(),
    FuzzTarget("texts", _read_text, _encoded(_TEXTS)),
    FuzzTarget("calls", _call_tool, _encoded(_CALLS)),
    FuzzTarget("imports", _import_session, _session_seeds),
    FuzzTarget("recordings", _read_recording, lambda: [json.dumps(session(LONG)).encode() + b"\n", *_session_seeds()]),
    FuzzTarget("searches", _search_file, _encoded(('{"id": 1, "text": "the import", "speaker": "a"}\n' * 2,))),
    FuzzTarget("models", _read_models, _encoded(_MODELS)),
    FuzzTarget("settings", _read_settings, _encoded(_SETTINGS)),
    FuzzTarget("events", _take_event, _event_seeds),
)
