"""Two sessions that read files, of which one was never read about the parser."""

from tests.adapters.indexing import indexing

PARSER = "def parse_header(raw):\n    raise ParseFailed(ERR_HEADER_2041)  # größer\n" * 4
WORKPLACE = "You are an agent.\nWorking directory: /home/ada/app\n"
POOL = "class ConnectionPool:\n    max_connections = 20\n    def acquire(self): ...\n" * 4


async def store(dsn: str) -> None:
    """Record them."""
    async with indexing(dsn) as world:
        await world.add("mine", ("src/parser.py", PARSER), ("src/pool.py", POOL), system=WORKPLACE)
        await world.add("other", ("src/pool.py", POOL))
