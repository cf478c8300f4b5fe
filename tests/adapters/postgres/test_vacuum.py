"""What was erased leaves the database's files."""

from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.vacuum import rewrite_content
from tests.adapters.log_support import CODEC, content, hushed, open_database, open_on, query, said, stream

SECRET = b"the heron nests at noon"


def tables_with_the_secret(dsn: str) -> set[str]:
    """The tables in whose file it is."""
    query(dsn, "checkpoint")
    rows = query(
        dsn,
        "select name from unnest(array['content', 'stored_events']) as name"
        " where position(%s::bytea in pg_read_binary_file(pg_relation_filepath('mnemosyne.' || name))) > 0",
        SECRET,
    )
    return {name for (name,) in rows}


async def test_what_was_forgotten_is_in_the_file_of_no_table_once_they_are_rewritten(dsn: str) -> None:
    async with open_database(dsn) as database:
        async with open_on(database) as world:
            await world.journal.append(
                said(stream(1), 0, f"one: {SECRET.decode()}", "two: and more", contents=[content(SECRET)])
            )
            assert tables_with_the_secret(dsn) == {"content", "stored_events"}
            await world.log.forget(stream(1), hushed)
        assert tables_with_the_secret(dsn) == {"content", "stored_events"}  # the rows are gone, the bytes are not
        await rewrite_content(database, ours_alone=False)
        assert tables_with_the_secret(dsn) == set()
        assert len(await PostgresEventLog(database, CODEC).read(stream(1))) == 2
