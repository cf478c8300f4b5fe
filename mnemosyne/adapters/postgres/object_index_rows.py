"""The rows of the index of objects in PostgreSQL, and its progress.

A ``tsvector`` holds the words of ``domain/text/words.py``: PostgreSQL's own would mangle paths and identifiers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from uuid import UUID

import attrs
import orjson

from mnemosyne.adapters.postgres.content_store import hold_sessions
from mnemosyne.adapters.postgres.database import Connection, halfvecs
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.text.passages import Passage, passages
from mnemosyne.domain.text.words import words
from mnemosyne.figures import plural
from mnemosyne.projections.object_index import ALL_OBJECTS, OBJECT_INDEX
from mnemosyne.projections.projection import LARGEST

STUB = Passage(0, 0)
"""The passage that stands for an object's stub: it has a vector and no words."""

WORDS = "words/3"
"""The cursor of the words. A new number rebuilds the index."""

_MARK = 6
_HASH_BYTES = 16
_LABELS = "DDCBBBA"
"""The label of a word by its count in a passage: 1, 2, from 3, from 6."""


@attrs.frozen
class IndexedObject:
    """An object to index; ``position`` and ``version`` are of its event."""

    position: int
    stream: UUID
    object: str
    version: int
    forgotten: bool


@attrs.frozen
class IndexedPassage:
    passage: Passage
    hash: bytes
    length: int
    words: str


@attrs.frozen(kw_only=True)
class IndexEntry:
    """An object in the index: its passages, and fields for filters."""

    kind: ObjectKind
    tags: Sequence[str]
    turns: tuple[int, int]
    cuts: Sequence[IndexedPassage]
    digest: bytes | None
    """One of its contents, if any: after that is erased, the entry is not stored."""


@attrs.frozen
class SkippedObject:
    """An unreadable object, which is never found, with the reason."""

    reason: str


@attrs.frozen
class Cursor:
    """The position of the last processed object."""

    name: str
    position: int = 0


@attrs.frozen(kw_only=True)
class IndexWork:
    """The next objects after a cursor. If they need vectors, ``passages`` has the missing ones of each object; a text
    that occurs in several objects is in the first.
    """

    cursor: Cursor
    made: Sequence[IndexedObject]
    passages: Sequence[Mapping[bytes, Passage]] = ()


@attrs.frozen(kw_only=True)
class IndexStanding:
    """The progress of the index: ``missing`` objects are not indexed yet, ``unembedded`` ones have no vectors yet."""

    objects: int
    missing: int
    unembedded: int

    @property
    def sentence(self) -> str:
        """The progress of the vectors, without a full stop."""
        all_objects = self.objects + self.missing
        if not all_objects:
            return "no objects yet"
        if not self.unembedded:
            return f"vectors for all {plural(all_objects, 'object')}"
        return f"vectors for {max(0, all_objects - self.unembedded):,} of {plural(all_objects, 'object')}"


def cut(stream: UUID, text: str, stub: str) -> list[IndexedPassage]:
    """Cut a text into passages with their words, and a last one without words for the vector of its stub."""
    found = []
    for passage in (*passages(text), STUB):
        part = text[passage.start : passage.end]
        counts = Counter(words(part))
        found.append(
            IndexedPassage(
                passage,
                sha256((part or stub).encode("utf-8", "replace")).digest()[:_HASH_BYTES],
                counts.total(),
                _as_tsvector(stream, counts),
            )
        )
    return found


def _as_tsvector(stream: UUID, counts: Mapping[str, int]) -> str:
    mark = _mark(stream)
    most = len(_LABELS) - 1
    return " ".join(
        [f"'{mark}{_quote(word)}':1{_LABELS[count if count < most else most]}" for word, count in counts.items()]
    )


def lexeme(stream: UUID, word: str) -> str:
    """A lexeme of a session's word, which no other session shares."""
    return f"'{_mark(stream)}{_quote(word)}'"


def _mark(stream: UUID) -> str:
    return stream.hex[:_MARK]


def _quote(word: str) -> str:
    return word.replace("\\", "\\\\").replace("'", "''")


# Progress

_NOT_MADE = "select to_regclass('mnemosyne.object_index_made') is null"
"""Whether the projection does not exist."""

_FORGOTTEN = f"""exists (
    select from mnemosyne.object_index_forgotten f
    where f.stream = m.stream and f.object in (m.object, '{ALL_OBJECTS}') and f.version > m.version)"""


def standing(connection: Connection, embedder: str | None) -> IndexStanding:
    """The progress for one embedder; without any, no object needs vectors."""
    objects = _one(connection, "select count(*) from mnemosyne.object_texts")
    if _one(connection, _NOT_MADE):
        return IndexStanding(objects=objects, missing=0, unembedded=0)
    reached = cursors(connection)
    missing, unembedded = (
        _one(
            connection,
            f"select count(*) from mnemosyne.object_index_made m where position > %s and not {_FORGOTTEN}",
            reached.get(name, 0),
        )
        if name is not None
        else 0
        for name in (WORDS, embedder)
    )
    return IndexStanding(objects=objects, missing=missing, unembedded=unembedded)


def list_skipped(connection: Connection) -> list[tuple[str, str]]:
    return connection.execute(
        "select object, skipped from mnemosyne.object_texts where skipped is not null order by stream, object"
    ).fetchall()


def _one(connection: Connection, statement: str, *parameters: object) -> int:
    row = connection.execute(statement.encode(), parameters or None).fetchone()
    assert row is not None
    return int(row[0])


def cursors(connection: Connection) -> dict[str, int]:
    return dict(connection.execute("select name, position from mnemosyne.object_index_cursors").fetchall())


# Filling


def next_work(connection: Connection, embedder: str | None, limit: int, embedded: int) -> IndexWork | None:
    """The next work, for up to ``limit`` objects by words, or ``embedded`` by vectors; None if all is done.

    Words come first, then vectors of the embedder, if there is one. When those are complete, vectors of others are
    deleted.
    """
    if _one(connection, _NOT_MADE):
        return None
    cursor = Cursor(WORDS, _position(connection, WORDS))
    if made := _list_made(connection, cursor, LARGEST, limit):
        return IndexWork(cursor=cursor, made=made)
    if embedder is None:
        return None
    behind = Cursor(embedder, _position(connection, embedder))
    if made := _list_made(connection, behind, cursor.position, embedded):
        return IndexWork(cursor=behind, made=made, passages=_list_unembedded(connection, embedder, made))
    _keep_only(connection, embedder)
    return None


def _list_made(connection: Connection, after: Cursor, upto: int, limit: int) -> list[IndexedObject]:
    rows = connection.execute(
        f"select position, stream, object, version, {_FORGOTTEN} from mnemosyne.object_index_made m"
        " where position > %s and position <= %s order by position limit %s".encode(),
        (after.position, upto, limit),
    )
    return [IndexedObject(*row) for row in rows]


def _position(connection: Connection, name: str) -> int:
    """The position of a cursor; 0 if the log is another one, which does not have its event."""
    row = connection.execute(
        "select c.position from mnemosyne.object_index_cursors c"
        " join mnemosyne.object_index_made m using (position, stream, version) where c.name = %s",
        (name,),
    ).fetchone()
    if row is not None:
        return int(row[0])
    connection.execute("delete from mnemosyne.object_index_cursors where name = %s", (name,))
    return 0


def put_words(
    connection: Connection,
    after: Cursor,
    made: Sequence[IndexedObject],
    entries: Sequence[IndexEntry | SkippedObject | None],
) -> None:
    connection.execute("set local synchronous_commit to off")
    if not move(connection, after, made[-1]):
        return
    keys = [each.stream for each in made], [each.object for each in made]
    hold_sessions(connection, keys[0], "share")
    _take_out(connection, *keys)
    # Check again under these locks, so that no forgotten or erased object returns: the erasure precedes its event.
    digests = [entry.digest if isinstance(entry, IndexEntry) else None for entry in entries]
    there = connection.execute(
        f"select place from unnest(%s::uuid[], %s::text[], %s::bigint[], %s::bytea[])"
        f" with ordinality as m (stream, object, version, digest, place) where not {_FORGOTTEN} and not exists ("
        "  select from mnemosyne.content c where c.stream = m.stream and c.digest = m.digest"
        "  and c.data is null)".encode(),
        (*keys, [each.version for each in made], digests),
    )
    places = sorted(place - 1 for (place,) in there)
    _put_in(connection, [(made[place], entry) for place in places if (entry := entries[place]) is not None])


def _put_in(connection: Connection, entries: Sequence[tuple[IndexedObject, IndexEntry | SkippedObject]]) -> None:
    # JSON is faster than arrays, which psycopg builds value by value.
    texts = [{"stream": made.stream, "object": made.object, **_as_text(entry)} for made, entry in entries]
    cuts = [
        {
            "stream": made.stream,
            "object": made.object,
            "passage": number,
            "first": each.passage.start,
            "beyond": each.passage.end,
            "hash": each.hash.hex(),
            "length": each.length,
            "words": each.words,
        }
        for made, entry in entries
        if isinstance(entry, IndexEntry)
        for number, each in enumerate(entry.cuts)
    ]
    connection.execute(_PUT_TEXTS, (orjson.dumps(texts),))
    connection.execute(_PUT_PASSAGES, (orjson.dumps(cuts),))
    connection.execute("select gin_clean_pending_list('mnemosyne.object_words_words_idx')")


_PUT_TEXTS = b"""
insert into mnemosyne.object_texts (stream, object, passages, length, kind, tags, first_turn, last_turn, skipped)
select stream, object, passages, length, kind, tags, first_turn, last_turn, skipped
from json_populate_recordset(null::mnemosyne.object_texts, convert_from(%b, 'utf8')::json)
"""
_PUT_PASSAGES = b"""
with cut as materialized (
    select * from json_to_recordset(convert_from(%b, 'utf8')::json) as cut (
        stream uuid, object text, passage integer, first integer, beyond integer, hash text, length integer, words text
    )
), passage as (
    insert into mnemosyne.object_passages (stream, object, passage, first, beyond, hash)
    select stream, object, passage, first, beyond, decode(hash, 'hex') from cut
)
insert into mnemosyne.object_words (stream, object, passage, length, words)
select stream, object, passage, length, words::tsvector from cut
"""


def _as_text(entry: IndexEntry | SkippedObject) -> dict[str, object]:
    if isinstance(entry, SkippedObject):
        nothing = {"passages": 0, "length": 0, "kind": "", "tags": (), "first_turn": 0, "last_turn": 0}
        return {**nothing, "skipped": entry.reason}
    first, last = entry.turns
    return {
        "passages": sum(each.passage != STUB for each in entry.cuts),
        "length": sum(each.length for each in entry.cuts),
        "kind": entry.kind.value,
        "tags": list(entry.tags),
        "first_turn": first,
        "last_turn": last,
    }


def _take_out(connection: Connection, streams: Sequence[UUID], objects: Sequence[str]) -> None:
    for table in ("object_texts", "object_passages", "object_words"):
        connection.execute(
            f"delete from mnemosyne.{table} where (stream, object) in"
            " (select * from unnest(%s::uuid[], %s::text[]))".encode(),
            (streams, objects),
        )


def _list_unembedded(
    connection: Connection, embedder: str, made: Sequence[IndexedObject]
) -> list[dict[bytes, Passage]]:
    rows = connection.execute(
        "select distinct on (stream, hash) place, hash, first, beyond"
        " from unnest(%s::uuid[], %s::text[]) with ordinality as made (stream, object, place)"
        " join mnemosyne.object_passages p using (stream, object) where not exists ("
        "  select from mnemosyne.object_vectors v where v.stream = p.stream and v.embedder = %s and v.hash = p.hash)"
        " order by stream, hash, place, passage",
        ([each.stream for each in made], [each.object for each in made], embedder),
    )
    found: list[dict[bytes, Passage]] = [{} for _ in made]
    for place, hash_, first, beyond in rows:
        found[place - 1][hash_] = Passage(first, beyond)
    return found


def put_vectors(connection: Connection, embedder: str, vectors: Mapping[tuple[UUID, bytes], Sequence[float]]) -> None:
    connection.execute("set local synchronous_commit to off")
    # Only for existing passages: the session may be forgotten in the meantime.
    connection.execute(
        "insert into mnemosyne.object_vectors select stream, %s, hash, vector"
        " from unnest(%s::uuid[], %s::bytea[], %b::halfvec[]) as new (stream, hash, vector) where exists ("
        "  select from mnemosyne.object_passages p where p.stream = new.stream and p.hash = new.hash for share)"
        " on conflict do nothing",
        (
            embedder,
            [stream for stream, _ in vectors],
            [hash_ for _, hash_ in vectors],
            halfvecs(connection, vectors.values()),
        ),
    )


def move(connection: Connection, after: Cursor, made: IndexedObject) -> bool:
    """Move a cursor, and lock it until the transaction ends; return False if another process moved it."""
    connection.execute(
        "insert into mnemosyne.object_index_cursors values (%s, 0, null, null) on conflict do nothing", (after.name,)
    )
    moved = connection.execute(
        "update mnemosyne.object_index_cursors set position = %s, stream = %s, version = %s"
        " where name = %s and position = %s",
        (made.position, made.stream, made.version, after.name, after.position),
    )
    return moved.rowcount == 1


def _keep_only(connection: Connection, embedder: str) -> None:
    others = connection.execute(
        "delete from mnemosyne.object_index_cursors where name <> all(%s) returning name", ([WORDS, embedder],)
    ).fetchall()
    if others:
        connection.execute("delete from mnemosyne.object_vectors where embedder <> %s", (embedder,))


def tidy(connection: Connection) -> int:
    """Delete forgotten objects, and all after a change of the format; return the projection's position."""
    older = connection.execute(
        "select name from mnemosyne.object_index_cursors where name like 'words/%%' and name <> %s", (WORDS,)
    ).fetchone()
    if older is not None:
        clear(connection)
    if _one(connection, _NOT_MADE):
        return 0
    # Writers lock this row, too.
    connection.execute("select from mnemosyne.object_index_cursors where name = %s for update", (WORDS,))
    gone = connection.execute(
        "select t.stream, t.object from mnemosyne.object_index_forgotten f"
        f" join mnemosyne.object_texts t on t.stream = f.stream and f.object in (t.object, '{ALL_OBJECTS}')"
        " where not exists (select from mnemosyne.object_index_made m"
        "  where m.stream = t.stream and m.object = t.object and m.version > f.version)".encode()
    ).fetchall()
    if gone:
        _take_out(connection, [stream for stream, _ in gone], [object_id for _, object_id in gone])
    for stream in {stream for stream, _ in gone}:
        connection.execute(
            "delete from mnemosyne.object_vectors v where stream = %s and not exists ("
            " select from mnemosyne.object_passages p where p.stream = v.stream and p.hash = v.hash)",
            (stream,),
        )
    return _one(
        connection,
        "select coalesce(max(position), 0) from mnemosyne.projections where name = %s and not side",
        OBJECT_INDEX.name,
    )


def clear(connection: Connection) -> None:
    for table in ("object_index_cursors", "object_texts", "object_passages", "object_words"):
        connection.execute(f"delete from mnemosyne.{table}".encode())
