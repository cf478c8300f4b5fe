"""Mnemosyne without its log: the same application without recording.

``python -m benchmarks.unlogged_server http://127.0.0.1:PORT``. Its cost is the relay's; the whole server's additional
cost is the log's.
"""

import sys

import click
import trio

from tests.http.proxying import open_proxy


async def main(upstream: str) -> None:
    async with open_proxy(upstream) as proxy:
        click.echo(f"mnemosyne without its log listening on {proxy.url}")
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
