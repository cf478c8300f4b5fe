"""The index of objects in PostgreSQL: their words and the vectors of their passages, searched one session at a time.

Words are ours (``domain/words.py``), not PostgreSQL's, which would mangle paths and identifiers; a ``tsvector`` holds
them as they are. BM25 is counted from its matches. Vectors are compared one by one: nothing is missed.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres import Connection, Database
from mnemosyne.domain.object_search import ByMeaning, ByWords, PassageHit, SearchResult, combined
from mnemosyne.domain.passages import Passage, passages
from mnemosyne.domain.retrieval import Embedder
from mnemosyne.domain.words import query_words, words
from mnemosyne.projections.object_index import ALL_OBJECTS, OBJECT_INDEX
from mnemosyne.projections.projection import LARGEST

WORDS = "words/1"
"""The cursor of the words. Another number where a text would be cut otherwise or have other words: all is made anew."""

MOST_RANKED = 100
"""Objects of each ranking that are looked at; what only stands lower in each is no answer."""

MOST_LOOKED_AT = 1_000
"""Passages of each ranking out of which the best of each object are taken."""

MOST_ASKED = 16
"""Words of a question that are counted: the longest, which are names rather than words that are everywhere."""

MOST_MATCHES = 4_000
"""Passages in which words are ranked, each counted for each of its words: as many of the rarest words as come to that.
Ranking takes a few microseconds for each, and what is in every other passage tells little."""

_MARK = 6
_HASH_BYTES = 16
_LABELS = ((6, "A"), (3, "B"), (2, "C"), (1, "D"))
_DIGITS = 5
"""Of each number of a vector; the half precision in which they are stored holds fewer."""


@attrs.frozen
class Made:
    """An object that is to be in the index; ``position`` and ``version`` are those of its event."""

    position: int
    stream: UUID
    object: str
    version: int
    forgotten: bool


@attrs.frozen
class Cut:
    """A passage with its words, as the index holds it."""

    passage: Passage
    hash: bytes
    length: int
    words: str


@attrs.frozen
class Cursor:
    """How far something has come: the last object that was taken in."""

    name: str
    position: int = 0


@attrs.frozen(kw_only=True)
class IndexStanding:
    """How the index stands: ``missing`` objects are not in it yet, ``unembedded`` ones have no vectors of ``embedder``
    yet.
    """

    embedder: str
    objects: int
    missing: int
    unembedded: int


def cut(stream: UUID, text: str) -> list[Cut]:
    """A text's passages with their words."""
    found = []
    for passage in passages(text):
        said = text[passage.start : passage.end]
        counts = Counter(words(said))
        found.append(Cut(passage, hash_of(said), counts.total(), _as_tsvector(stream, counts)))
    return found


def hash_of(said: str) -> bytes:
    """What a passage's vector is found by."""
    return sha256(said.encode()).digest()[:_HASH_BYTES]


def _as_tsvector(stream: UUID, counts: Mapping[str, int]) -> str:
    lexemes = []
    for word, count in counts.items():
        label = next(label for least, label in _LABELS if count >= least)
        lexemes.append(f"{_lexeme(stream, word)}:1{label}")
    return " ".join(lexemes)


def _lexeme(stream: UUID, word: str) -> str:
    quoted = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{stream.hex[:_MARK]}{quoted}'"


class PostgresObjectIndex:
    """The index in a prepared ``Database`` (domain.object_search.ObjectIndex).

    ``embedders`` are those at hand, the wanted one first; of those that have come furthest the first is searched with.
    """

    def __init__(self, database: Database, embedders: Sequence[Embedder]) -> None:
        self.embedders = embedders
        self._database = database

    # Searching

    async def search(self, stream: UUID, question: str, among: Collection[str], limit: int) -> SearchResult:
        """See domain.object_search.ObjectIndex."""
        named = list(among)
        embedder = await self._furthest()
        vector = _as_text((await embedder.embed([question]))[0]) if embedder is not None else None
        asked = sorted(query_words(question), key=len, reverse=True)[:MOST_ASKED]
        name = embedder.name if embedder is not None else ""
        found = await self._database.run(_search, stream, asked, name, vector, named)
        near = ByMeaning(embedder=name, calibration=embedder.calibration, passages=found.near) if embedder else None
        return attrs.evolve(
            combined(found.words, near, limit), missing=len(named) - found.objects, unembedded=found.unembedded
        )

    async def standing(self) -> IndexStanding:
        """How far the index has come with what the projection knows."""
        return await self._database.run(_standing, self.embedders[0].name)

    async def _furthest(self) -> Embedder | None:
        reached = await self._database.run(_cursors)
        there = [each for each in self.embedders if reached.get(each.name)]
        return max(there, key=lambda each: reached[each.name], default=None)  # the first of equals

    # Filling, for object_indexer.py

    async def clear(self) -> None:
        """Nothing is in the index, but vectors stay: the same passage gets the same one."""
        await self._database.run(_clear)

    async def tidy(self) -> None:
        """Take out what was forgotten, and what another way of cutting left."""
        await self._database.run(_tidy)

    async def projected(self) -> int:
        """How far the projection has come that tells which objects there are."""
        return await self._database.run(_projected)

    async def due(self) -> list[Embedder]:
        """The embedders whose vectors are to be kept: the wanted one's, and, until these are all there, those that it
        takes the place of, which are quicker.
        """
        reached = await self._database.run(_cursors)
        wanted, *others = self.embedders
        return [*(each for each in others if reached.get(each.name)), wanted]

    async def next_made(self, name: str, limit: int, *, with_words: bool) -> tuple[Cursor, Sequence[Made]]:
        """Where a cursor stands, and the next objects; ``with_words``: only those whose words are there."""
        return await self._database.run(_next_made, name, limit, with_words)

    async def put_words(self, after: Cursor, made: Sequence[Made], cuts: Sequence[Sequence[Cut] | None]) -> None:
        """The words of objects (None: it says nothing any more), and the cursor to the last of them."""
        await self._database.run(_put_words, after, made, cuts)

    async def unembedded(self, embedder: str, made: Made) -> Mapping[bytes, Passage]:
        """The passages of an object that have no vector yet, each text once."""
        return await self._database.run(_unembedded, embedder, made)

    async def put_vectors(self, embedder: str, stream: UUID, vectors: Mapping[bytes, Sequence[float]]) -> None:
        """Vectors of passages."""
        texts = [_as_text(vector) for vector in vectors.values()]
        await self._database.run(_put_vectors, embedder, stream, list(vectors), texts)

    async def move(self, after: Cursor, made: Made) -> None:
        """The cursor to an object, unless somebody else has moved it."""
        await self._database.run(_move, after, made)

    async def keep_only(self, embedder: str) -> None:
        """No other embedder's vectors are needed any more, if this one's are all there."""
        await self._database.run(_keep_only, embedder)


@attrs.frozen
class _Found:
    words: ByWords
    near: Sequence[PassageHit]
    objects: int
    unembedded: int


_COUNTED = b"""
select query, (select count(*) from mnemosyne.object_words w
    where w.words @@ asked.query::tsquery and w.stream = %(stream)s) as matches
from unnest(%(words)s::text[]) as asked (query) order by matches, query
"""

BY_WORDS = b"""
with session as (
    select count(*) as objects,
        coalesce(sum(passages), 0)::float8 as passages, coalesce(sum(length), 0)::float8 as length
    from mnemosyne.object_texts where stream = %(stream)s and object = any(%(among)s)
), hit as materialized (
    -- ts_rank of one word is the number that its label stands for, over 1.644934.
    select asked.word, w.object, w.passage, w.length,
        16.44934 * ts_rank('{0.1, 0.2, 0.4, 0.8}', w.words, asked.query) as times
    from (select word, query::tsquery from unnest(%(words)s::text[]) with ordinality as given (query, word)) asked
    join mnemosyne.object_words w on w.words @@ asked.query
    where w.stream = %(stream)s and w.object = any(%(among)s)
), in_passages as (
    select word, ln(1 + (session.passages - count(*) + 0.5) / (count(*) + 0.5)) as weight
    from hit, session group by word, session.passages
), passage as (
    select object, passage, sum(weight) as held, sum(
        weight * 2.2 * times / (times + 0.3 + 0.9 * hit.length * session.passages / session.length)) as score
    from hit join in_passages using (word), session group by object, passage
), best as (
    select distinct on (object) object, passage, held, score
    from (select * from passage order by score desc, object, passage limit %(looked_at)s) as top
    order by object, score desc, passage
), whole as (
    select word, object, sum(times) as times from hit group by word, object
), in_objects as (
    select word, ln(1 + (session.objects - count(*) + 0.5) / (count(*) + 0.5)) as weight
    from whole, session group by word, session.objects
), ranked as (
    select object, sum(
        weight * 2.2 * times / (times + 0.3 + 0.9 * t.length * session.objects / session.length)) as score
    from whole join in_objects using (word) join mnemosyne.object_texts t using (object), session
    where t.stream = %(stream)s group by object
)
(select 'session', null::text, null::integer, null::integer, session.objects::float8, session.passages from session)
union all
(select 'word', word::text, null, null, weight, null from in_passages)
union all
(select 'passage', object, p.first, p.beyond, held, score
    from best join mnemosyne.object_passages p using (object, passage)
    where p.stream = %(stream)s order by score desc, object limit %(most)s)
union all
(select 'object', object, null, null, null, score from ranked order by score desc, object limit %(most)s)
"""

# The sum keeps the database from answering with an index for approximate search, should somebody have made one.
BY_MEANING = b"""
with near as materialized (
    select hash, -(vector <#> %(vector)s::halfvec) + 0 as score
    from mnemosyne.object_vectors where stream = %(stream)s and embedder = %(embedder)s
), best as (
    select distinct on (object) object, passage, score
    from (
        select p.object, p.passage, near.score
        from near join mnemosyne.object_passages p on p.stream = %(stream)s and p.hash = near.hash
        where p.object = any(%(among)s)
        order by near.score desc, p.object, p.passage limit %(looked_at)s
    ) as top
    order by object, score desc, passage
)
select object, p.first, p.beyond, score
from best join mnemosyne.object_passages p using (object, passage)
where p.stream = %(stream)s
order by score desc, object limit %(most)s
"""


def _search(
    connection: Connection, stream: UUID, asked: list[str], embedder: str, vector: str | None, among: list[str]
) -> _Found:
    # A plan for any session whatever takes several times as long as one that knows which, and compiling longer than it
    # saves.
    connection.execute(
        "set transaction isolation level repeatable read;"
        " set local plan_cache_mode = force_custom_plan; set local jit = off"
    )
    known = {"stream": stream, "among": among, "most": MOST_RANKED, "looked_at": MOST_LOOKED_AT}
    rarest = _rarest(connection, stream, [_lexeme(stream, word) for word in asked])
    rows = connection.execute(BY_WORDS, {**known, "words": rarest}).fetchall()
    (_, _, _, _, objects, all_passages) = next(row for row in rows if row[0] == "session")
    near: list[PassageHit] = []
    unembedded = 0
    if vector is not None:
        found = connection.execute(BY_MEANING, {**known, "embedder": embedder, "vector": vector})
        near = [PassageHit(name, Passage(first, beyond), score) for name, first, beyond, score in found]
        unembedded = _count_unembedded(connection, embedder, stream)
    best = sorted((row for row in rows if row[0] == "passage"), key=lambda row: -row[5])
    weights = {row[1]: row[4] for row in rows if row[0] == "word"}
    return _Found(
        words=ByWords(
            passages=[PassageHit(name, Passage(first, beyond), score) for _, name, first, beyond, _, score in best],
            objects=[row[1] for row in sorted((row for row in rows if row[0] == "object"), key=lambda row: -row[5])],
            coverage=[_coverage(held, weights, len(rarest), all_passages) for _, _, _, _, held, _ in best],
        ),
        near=near,
        objects=int(objects),
        unembedded=unembedded,
    )


def _rarest(connection: Connection, stream: UUID, queries: list[str]) -> list[str]:
    """The words that are ranked: the rarest, and one at least."""
    chosen: list[str] = []
    left = MOST_MATCHES
    for query, matches in connection.execute(_COUNTED, {"stream": stream, "words": queries}):
        left -= matches
        if chosen and left < 0:
            break
        chosen.append(query)
    return chosen


def _coverage(held: float, weights: Mapping[str, float], asked: int, all_passages: float) -> float:
    """How much of what is asked a passage holds: 0 to 1, rare words counting more, those found nowhere most."""
    nowhere = math.log(1 + (all_passages + 0.5) / 0.5)
    total = sum(weights.values()) + (asked - len(weights)) * nowhere
    return held / total if total else 0.0


# How far it has come

_NOT_MADE = "select to_regclass('mnemosyne.object_index_made') is null"
"""Whether the projection was never made; then there is nothing to do."""

_FORGOTTEN = f"""exists (
    select from mnemosyne.object_index_forgotten f
    where f.stream = m.stream and f.object in (m.object, '{ALL_OBJECTS}') and f.version > m.version)"""


def _standing(connection: Connection, embedder: str) -> IndexStanding:
    objects = _one(connection, "select count(*) from mnemosyne.object_texts")
    if _one(connection, _NOT_MADE):
        return IndexStanding(embedder=embedder, objects=objects, missing=0, unembedded=0)
    reached = _cursors(connection)
    missing, unembedded = (
        _one(
            connection,
            f"select count(*) from mnemosyne.object_index_made m where position > %s and not {_FORGOTTEN}",
            reached.get(name, 0),
        )
        for name in (WORDS, embedder)
    )
    return IndexStanding(embedder=embedder, objects=objects, missing=missing, unembedded=unembedded)


def _count_unembedded(connection: Connection, embedder: str, stream: UUID) -> int:
    reached = _cursors(connection)
    return _one(
        connection,
        "select count(*) from mnemosyne.object_index_made m where position > %s and position <= %s and stream = %s",
        reached.get(embedder, 0),
        reached.get(WORDS, 0),
        stream,
    )


def _one(connection: Connection, statement: str, *parameters: object) -> int:
    row = connection.execute(statement.encode(), parameters or None).fetchone()
    assert row is not None
    return int(row[0])


def _cursors(connection: Connection) -> dict[str, int]:
    return dict(connection.execute("select name, position from mnemosyne.object_index_cursors").fetchall())


# Filling


def _projected(connection: Connection) -> int:
    return _one(
        connection,
        "select coalesce(max(position), 0) from mnemosyne.projections where name = %s and not side",
        OBJECT_INDEX.name,
    )


def _next_made(connection: Connection, name: str, limit: int, with_words: bool) -> tuple[Cursor, list[Made]]:
    if _one(connection, _NOT_MADE):
        return Cursor(name), []
    cursor = Cursor(name, _position(connection, name))
    upto = _position(connection, WORDS) if with_words else LARGEST
    rows = connection.execute(
        f"select position, stream, object, version, {_FORGOTTEN} from mnemosyne.object_index_made m"
        " where position > %s and position <= %s order by position limit %s".encode(),
        (cursor.position, upto, limit),
    )
    return cursor, [Made(*row) for row in rows]


def _position(connection: Connection, name: str) -> int:
    """Where a cursor stands: at the beginning, if the log does not hold what it was set to. It may be another log."""
    row = connection.execute(
        "select c.position from mnemosyne.object_index_cursors c"
        " join mnemosyne.object_index_made m using (position, stream, version) where c.name = %s",
        (name,),
    ).fetchone()
    if row is not None:
        return int(row[0])
    connection.execute("delete from mnemosyne.object_index_cursors where name = %s", (name,))
    return 0


def _put_words(
    connection: Connection, after: Cursor, made: Sequence[Made], cuts: Sequence[Sequence[Cut] | None]
) -> None:
    connection.execute("set local synchronous_commit to off")
    if not _move(connection, after, made[-1]):
        return
    for each, passages_ in zip(made, cuts, strict=True):
        _take_out(connection, each.stream, each.object)
        # Looked at again under the cursor's lock, so that nothing comes back after it was tidied away.
        gone = _one(
            connection,
            f"select {_FORGOTTEN} from (select %s::uuid as stream, %s as object, %s as version) m",
            each.stream,
            each.object,
            each.version,
        )
        if passages_ is not None and not gone:
            _put_in(connection, each, passages_)


def _put_in(connection: Connection, made: Made, cuts: Sequence[Cut]) -> None:
    key = (made.stream, made.object)
    numbers = list(range(len(cuts)))
    connection.execute(
        "insert into mnemosyne.object_texts values (%s, %s, %s, %s)",
        (*key, len(cuts), sum(each.length for each in cuts)),
    )
    connection.execute(
        "insert into mnemosyne.object_passages select %s, %s, *"
        " from unnest(%s::integer[], %s::integer[], %s::integer[], %s::bytea[])",
        (
            *key,
            numbers,
            [each.passage.start for each in cuts],
            [each.passage.end for each in cuts],
            [each.hash for each in cuts],
        ),
    )
    connection.execute(
        "insert into mnemosyne.object_words select %s, %s, passage, length, words::tsvector"
        " from unnest(%s::integer[], %s::integer[], %s::text[]) as cut (passage, length, words)",
        (*key, numbers, [each.length for each in cuts], [each.words for each in cuts]),
    )


def _take_out(connection: Connection, stream: UUID, object_id: str) -> None:
    for table in ("object_texts", "object_passages", "object_words"):
        connection.execute(
            f"delete from mnemosyne.{table} where stream = %s and object = %s".encode(), (stream, object_id)
        )


def _unembedded(connection: Connection, embedder: str, made: Made) -> dict[bytes, Passage]:
    rows = connection.execute(
        "select distinct on (hash) hash, first, beyond from mnemosyne.object_passages p"
        " where stream = %s and object = %s and not exists ("
        "  select from mnemosyne.object_vectors v where v.stream = p.stream and v.embedder = %s and v.hash = p.hash)"
        " order by hash, passage",
        (made.stream, made.object, embedder),
    )
    return {hash_: Passage(first, beyond) for hash_, first, beyond in rows}


def _put_vectors(connection: Connection, embedder: str, stream: UUID, hashes: list[bytes], vectors: list[str]) -> None:
    connection.execute("set local synchronous_commit to off")
    # Only for passages that are still there: the session may have been forgotten while we were at it.
    connection.execute(
        "insert into mnemosyne.object_vectors select %s, %s, hash, vector::halfvec"
        " from unnest(%s::bytea[], %s::text[]) as new (hash, vector) where exists ("
        "  select from mnemosyne.object_passages p where p.stream = %s and p.hash = new.hash for share)"
        " on conflict do nothing",
        (stream, embedder, hashes, vectors, stream),
    )


def _move(connection: Connection, after: Cursor, made: Made) -> bool:
    """Whether the cursor was still there; from now on, nobody else moves it until the transaction ends."""
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


def _tidy(connection: Connection) -> None:
    older = connection.execute(
        "select name from mnemosyne.object_index_cursors where name like 'words/%%' and name <> %s", (WORDS,)
    ).fetchone()
    if older is not None:
        _clear(connection)
    if _one(connection, _NOT_MADE):
        return
    # Whoever puts something in holds this, too.
    connection.execute("select from mnemosyne.object_index_cursors where name = %s for update", (WORDS,))
    gone = connection.execute(
        "select t.stream, t.object from mnemosyne.object_index_forgotten f"
        f" join mnemosyne.object_texts t on t.stream = f.stream and f.object in (t.object, '{ALL_OBJECTS}')"
        " where not exists (select from mnemosyne.object_index_made m"
        "  where m.stream = t.stream and m.object = t.object and m.version > f.version)".encode()
    ).fetchall()
    for stream, object_id in gone:
        _take_out(connection, stream, object_id)
    for stream in {stream for stream, _ in gone}:
        connection.execute(
            "delete from mnemosyne.object_vectors v where stream = %s and not exists ("
            " select from mnemosyne.object_passages p where p.stream = v.stream and p.hash = v.hash)",
            (stream,),
        )


def _clear(connection: Connection) -> None:
    for table in ("object_index_cursors", "object_texts", "object_passages", "object_words"):
        connection.execute(f"delete from mnemosyne.{table}".encode())


def forget(connection: Connection, stream: UUID) -> None:
    """Take a session out of the index."""
    for table in ("object_texts", "object_passages", "object_words", "object_vectors"):
        connection.execute(f"delete from mnemosyne.{table} where stream = %s".encode(), (stream,))


def _as_text(vector: Sequence[float]) -> str:
    return f"[{','.join(f'{number:.{_DIGITS}g}' for number in vector)}]"
