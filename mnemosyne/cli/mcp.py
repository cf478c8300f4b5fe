"""``mnemosyne mcp``: memory as MCP tools."""

from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from mnemosyne.app.agent_tools import run_http, run_stdio
from mnemosyne.app.logs import start_logging
from mnemosyne.cli.log_access import project_option
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.config import check_reach


@click.command()
@project_option
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP at /mcp; requests need the token.")
@log_options("allow_remote", of_first_shard=True)
def mcp(folder: Path, http: str | None, **options: Any) -> None:
    """Serve memory as tools to any agent that speaks the Model Context Protocol: recall and save facts, ask and search
    recorded sessions, show a context window.

    \b
      claude mcp add memory -- mnemosyne mcp
      mnemosyne mcp --http 127.0.0.1:8790

    Without --http it uses stdin and stdout. With --http, requests need the token from the file `token` in the data
    directory: `Authorization: Bearer TOKEN`.
    """
    config = configuration(options)
    address = None if http is None else _parse_address(http)
    if address is not None:
        check_reach(address[0], allow_remote=config.allow_remote)

    start_logging(config.log_level, config.log_format, config.log_file)
    report = partial(say, err=True)
    if address is None:
        trio.run(run_stdio, config, folder, report)
    else:
        trio.run(run_http, config, folder, *address, report)


def _parse_address(http: str) -> tuple[str, int]:
    """Host and port of HOST:PORT."""
    host, _, port = http.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{http!r} is not of the form HOST:PORT, such as 127.0.0.1:8790.", param_hint="--http")
    return host.strip("[]"), int(port)
