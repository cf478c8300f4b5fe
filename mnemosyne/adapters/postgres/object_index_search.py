"""Searches in the index of objects: in one session, or across sessions.

BM25 is computed from the matches of a ``tsvector``. Vectors are compared exactly; only a search of all sessions uses
the approximate index, if it exists.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres.database import Connection, halfvecs, without_transaction
from mnemosyne.adapters.postgres.object_index_rows import STUB, lexeme
from mnemosyne.domain.recall.object_search import ByWords, Filter, PassageHit
from mnemosyne.domain.recall.retrieval import K1, B
from mnemosyne.domain.text.passages import Passage
from mnemosyne.domain.text.words import query_words

MOST_RANKED = 100
"""The best objects by all their words, and the objects to which the nearest passages should belong."""

MOST_PASSAGES = 400
"""The best passages of each ranking that are combined; of the nearest ones all, if these belong to few objects."""

MOST_ABOUT = 200
"""Vectors that an approximate search looks for."""

MOST_ASKED = 16
"""Words of a question that are used: the longest, which are rarer."""

MOST_MATCHES = 2_500
"""Matches that are ranked: the rarest words are used up to this number. Ranking takes microseconds for each match."""

NEAR_INDEX = "object_vectors_near_idx"
"""The approximate index, if it exists."""


@attrs.frozen(kw_only=True)
class IndexQuery:
    """A question, with its ``vector`` by ``embedder``; without one, the search is by words."""

    question: str
    embedder: str = ""
    vector: Sequence[float] | None = None

    def words(self) -> list[str]:
        return sorted(query_words(self.question), key=len, reverse=True)[:MOST_ASKED]


@attrs.frozen(kw_only=True)
class IndexAnswer:
    """The result of a search among ``objects``, of which ``skipped`` are unreadable. ``stubs`` has the
    nearness of the nearest stubs by object. Across sessions, ``name_of`` names objects.
    """

    words: ByWords
    near: Sequence[PassageHit]
    stubs: Mapping[str, float]
    objects: int
    skipped: int = 0


def name_of(stream: UUID, object_id: str) -> str:
    """The name of an object across sessions."""
    return f"{stream} {object_id}"


def place_of(name: str) -> tuple[UUID, str]:
    stream, _, object_id = name.partition(" ")
    return UUID(stream), object_id


# Planning with a long list of constants would take longer than a join with an array.
OF_SESSION = b"""
    select stream, object, passages, length, skipped is not null as skipped
    from mnemosyne.object_texts join unnest(%(among)s::text[]) as named (object) using (object)
    where stream = %(stream)s
"""

ACROSS = b"""
    select stream, object, passages, length, skipped is not null as skipped from mnemosyne.object_texts
    where stream = any(%(streams)s) and (%(kind)s::text is null or kind = %(kind)s)
        and (%(tag)s::text is null or %(tag)s = any(tags))
        and first_turn <= %(last)s and last_turn >= %(first)s
"""

# Each word begins with the mark of its session, so words alone find passages. "is not distinct from" prevents a plan
# that reads the whole session.
_BY_WORDS = b"""
with chosen as materialized (%(chosen)s), whole_of as (
    select count(*) as objects, count(*) filter (where skipped) as skipped,
        coalesce(sum(passages), 0)::float8 as passages, coalesce(sum(length), 0)::float8 as length
    from chosen
), asked as materialized (
    select stream as asked_in, query::tsquery, word, (
        select count(*)
        from (select from mnemosyne.object_words w where w.words @@ given.query::tsquery limit %%(matches)s + 1) as held
    ) as matches
    from unnest(%%(of)s::uuid[], %%(queries)s::text[], %%(words)s::integer[]) as given (stream, query, word)
), counted as (
    select word, row_number() over rarest as place, sum(matches) over rarest as upto
    from (select word, sum(matches) as matches from asked group by word) as of_word
    window rarest as (order by matches, word rows unbounded preceding)
), ranked as (
    select word from counted where place = 1 or upto <= %%(matches)s
), hit as materialized (
    -- ts_rank of one word is the number that its label stands for, over 1.644934.
    select asked.word, stream, object, passage, w.length,
        16.44934 * ts_rank('{0.1, 0.2, 0.4, 0.8}', w.words, asked.query) as times
    from asked join ranked using (word) cross join lateral (
        select * from mnemosyne.object_words w
        where w.words @@ asked.query and w.stream is not distinct from asked.asked_in offset 0
    ) as w join chosen using (stream, object)
), in_passages as (
    select word, ln(1 + (whole_of.passages - count(*) + 0.5) / (count(*) + 0.5)) as weight
    from hit, whole_of group by word, whole_of.passages
), passage as (
    select stream, object, passage, sum(weight) as held, sum(
        weight * times / (times + %(base)f + %(slope)f * hit.length * whole_of.passages / whole_of.length)) as score
    from hit join in_passages using (word), whole_of group by stream, object, passage
), whole as (
    select word, stream, object, sum(times) as times from hit group by word, stream, object
), in_objects as (
    select word, ln(1 + (whole_of.objects - count(*) + 0.5) / (count(*) + 0.5)) as weight
    from whole, whole_of group by word, whole_of.objects
), object as (
    select stream, object, sum(
        weight * times / (times + %(base)f + %(slope)f * chosen.length * whole_of.objects / whole_of.length)) as score
    from whole join in_objects using (word) join chosen using (stream, object), whole_of group by stream, object
)%(near)s
(select 'all', null::uuid, null::text, skipped::integer, null::integer, objects::float8, passages from whole_of)
union all
(select 'word', null, null, null, null, coalesce(p.weight, 0), coalesce(o.weight, 0)
    from ranked left join in_passages p using (word) left join in_objects o using (word))
union all
(select 'passage', stream, object, p.first, p.beyond, held, score
    from (select * from passage order by score desc, stream, object, passage limit %%(passages)s) as top
    cross join lateral (
        select first, beyond from mnemosyne.object_passages p
        where p.stream = top.stream and p.object = top.object and p.passage = top.passage offset 0
    ) as p)
union all
(select 'object', stream, object, null, null, null, score
    from object order by score desc, stream, object limit %%(most)s)
%(nearest)s"""

# The sum prevents the use of an approximate index.
_NEAR = b"""
    select stream, hash, -(vector <#> %%(vector)s::halfvec) + 0 as score
    from mnemosyne.object_vectors where stream = any(%%(streams)s) and embedder = %%(embedder)s
    order by score desc limit %%(near)s"""

_ABOUT_NEAR = b"""
    select stream, hash, -(vector <#> %%(vector)s::halfvec) as score
    from mnemosyne.object_vectors where embedder = %%(embedder)s
    order by vector <#> %%(vector)s::halfvec limit %%(about)s"""

# Only the few nearest are looked up.
_CLOSE = b""", near as materialized (%(near)s
), close as (
    select near.stream, object, passage, first, beyond, score from near cross join lateral (
        select object, passage, first, beyond from mnemosyne.object_passages p
        where p.stream = near.stream and p.hash = near.hash offset 0
    ) as p join chosen using (stream, object)
)
"""

_NEAREST = b"""union all
(select 'compared', null, null, null, null, null, count(*) from near)
union all
(select 'near', stream, object, first, beyond, null, score
    from close order by score desc, stream, object, passage)
"""


def _statement(chosen: bytes, near: bytes | None) -> bytes:
    """The statement of a search by words, and by meaning with a query for ``near``."""
    parts = {b"chosen": chosen, b"base": K1 * (1 - B), b"slope": K1 * B, b"near": b"", b"nearest": b""}
    if near is not None:
        parts |= {b"near": _CLOSE % {b"near": near % {}}, b"nearest": _NEAREST % {}}
    return _BY_WORDS % parts


@attrs.frozen
class Statements:
    """The statements of one kind of search: by words alone, and by words and meaning."""

    by_words: bytes
    by_both: bytes


IN_SESSION = Statements(_statement(OF_SESSION, None), _statement(OF_SESSION, _NEAR))
IN_SESSIONS = Statements(_statement(ACROSS, None), _statement(ACROSS, _NEAR))
EVERYWHERE = Statements(_statement(ACROSS, None), _statement(ACROSS, _ABOUT_NEAR))


def search(connection: Connection, stream: UUID, asked: IndexQuery, among: Collection[str]) -> IndexAnswer:
    begin(connection)
    given = {"stream": stream, "streams": [stream], "among": sorted(set(among))}
    return _find(connection, asked, given, IN_SESSION)


def search_across(
    connection: Connection, asked: IndexQuery, chosen: Filter, streams: Collection[UUID] | None
) -> IndexAnswer:
    """Search among the objects of these sessions, or of all, that pass a filter; names are by ``name_of``."""
    begin(connection)
    first, last = chosen.turns or (0, 2**31 - 1)
    given = {
        "streams": list(_streams(connection) if streams is None else streams),
        "kind": chosen.kind.value if chosen.kind else None,
        "tag": chosen.tag,
        "first": first,
        "last": last,
    }
    # A filter would drop most results of the approximate index.
    everywhere = streams is None and chosen == Filter()
    return _find(connection, asked, given, EVERYWHERE if everywhere else IN_SESSIONS, several=True)


def begin(connection: Connection) -> None:
    """Begin a search: one snapshot, a custom plan, no JIT, hash joins because the planner underestimates the matches,
    and memory for 100,000 passages. An approximate search continues until it has enough results.
    """
    connection.execute(
        b"set transaction isolation level repeatable read;"
        b" set local plan_cache_mode = force_custom_plan; set local jit = off; set local enable_nestloop = off;"
        b" set local work_mem = '64MB'; set local hnsw.iterative_scan = relaxed_order;"
        b" set local hnsw.ef_search = %d" % MOST_ABOUT
    )


def _find(
    connection: Connection,
    asked: IndexQuery,
    given: Mapping[str, object],
    statements: Statements,
    *,
    several: bool = False,
) -> IndexAnswer:
    def name(stream: UUID, object_id: str) -> str:
        return name_of(stream, object_id) if several else object_id

    rows = _rows(connection, asked, given, statements)
    ((_, _, _, skipped, _, objects, all_passages),) = rows["all"]
    in_passages, in_objects = ([row[column] for row in rows["word"]] for column in (5, 6))
    most, most_whole = _most(in_passages, all_passages), _most(in_objects, objects)
    best = sorted(rows["passage"], key=lambda row: -row[6])
    near = [
        PassageHit(name(stream, each), Passage(*span), score)
        for _, stream, each, *span, _, score in sorted(rows["near"], key=lambda row: -row[6])
    ]
    return IndexAnswer(
        words=ByWords(
            passages=[
                PassageHit(name(stream, each), Passage(first, beyond), score / most)
                for _, stream, each, first, beyond, _, score in best
            ],
            whole={name(stream, each): score / most_whole for _, stream, each, *_, score in rows["object"]},
            coverage=[row[5] / most for row in best],
        ),
        near=[hit for hit in near if hit.passage != STUB],
        stubs={hit.object: hit.score for hit in near if hit.passage == STUB},
        objects=int(objects),
        skipped=skipped,
    )


def _rows(
    connection: Connection, asked: IndexQuery, given: Mapping[str, object], statements: Statements
) -> defaultdict[str, list[tuple[Any, ...]]]:
    streams = given["streams"]
    assert isinstance(streams, list)
    queries = [(stream, lexeme(stream, word), place) for place, word in enumerate(asked.words()) for stream in streams]
    of, lexemes, words = (list(column) for column in zip(*queries, strict=True)) if queries else ([], [], [])
    limits = {"most": MOST_RANKED, "passages": MOST_PASSAGES, "about": MOST_ABOUT, "matches": MOST_MATCHES}
    values = {**given, **limits, "of": of, "queries": lexemes, "words": words}
    if asked.vector is None:
        return _by_kind(connection.execute(statements.by_words, values))
    (vector,) = halfvecs(connection, [asked.vector])
    values |= {"embedder": asked.embedder, "vector": vector, "near": MOST_PASSAGES}
    rows = _by_kind(connection.execute(statements.by_both, values))
    ((*_, compared),) = rows["compared"]
    objects = {row[1:3] for row in rows["near"]}
    if compared == MOST_PASSAGES and len(objects) < min(MOST_RANKED, rows["all"][0][5]):
        rows = _by_kind(connection.execute(statements.by_both, {**values, "near": None}))
    return rows


def _by_kind(found: Iterable[tuple[Any, ...]]) -> defaultdict[str, list[tuple[Any, ...]]]:
    rows = defaultdict[str, list[tuple[Any, ...]]](list)
    for row in found:
        rows[row[0]].append(row)
    return rows


def _most(weights: Sequence[float], texts: float) -> float:
    """The largest possible score of words with these weights; words without a match weigh most. 1 without words."""
    nowhere = math.log(1 + (texts + 0.5) / 0.5)
    return sum(weight or nowhere for weight in weights) or 1.0


def _streams(connection: Connection) -> list[UUID]:
    return [row[0] for row in connection.execute("select distinct stream from mnemosyne.object_texts order by stream")]


# The approximate index


def build_near_index(connection: Connection, embedder: str) -> None:
    """Build it for one embedder, concurrently with writers."""
    drop_near_index(connection)
    (vectors,) = connection.execute(
        "select quote_ident(nspname) from pg_extension join pg_namespace n on n.oid = extnamespace"
        " where extname = 'vector'"
    ).fetchone() or ("public",)
    quoted = embedder.replace("'", "''")
    with without_transaction(connection, statement_timeout="0", maintenance_work_mem="256MB"):
        connection.execute(
            f"create index concurrently {NEAR_INDEX} on mnemosyne.object_vectors"
            f" using hnsw (vector {vectors}.halfvec_ip_ops) where embedder = '{quoted}'".encode()
        )


def drop_near_index(connection: Connection) -> bool:
    existed = near_index(connection)
    connection.execute(f"drop index if exists mnemosyne.{NEAR_INDEX}".encode())
    return existed


def near_index(connection: Connection) -> bool:
    """Whether it exists and is complete."""
    row = connection.execute(
        "select indisvalid from pg_index where indexrelid = to_regclass(%s)", (f"mnemosyne.{NEAR_INDEX}",)
    ).fetchone()
    return bool(row and row[0])
