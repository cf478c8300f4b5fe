"""``mnemosyne open``: the web pages in a browser."""

import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points

import click
import trio

from mnemosyne.app.discovery import find_server
from mnemosyne.app.discovery import url_of as server_url
from mnemosyne.app.logs import start_logging
from mnemosyne.app.pages import IDLE_SECONDS, run_pages
from mnemosyne.app.process import end_with_server, now
from mnemosyne.app.simulations import Simulations
from mnemosyne.app.worker import NICENESS
from mnemosyne.cli.log_access import log_of, with_read_models
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, log_options, read_settings
from mnemosyne.config import Config
from mnemosyne.data_dir import local_token, prepare_data_dir
from mnemosyne.http.serving import bind, url_of
from mnemosyne.page_links import PageLinks, PageRole, link_to
from mnemosyne.services.sessions import find


@click.command(name="open")
@click.argument("session", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the link and open no browser.")
@click.option("--read-only", is_flag=True, help="A link that allows reading everything and changing nothing.")
@click.option("--at-socket", type=int, metavar="NUMBER", hidden=True, help="Serve the pages for a server.")
@log_options("host", "port", of_first_shard=True)
def open_pages(
    session: str | None, only_print: bool, read_only: bool, at_socket: int | None, **options: object
) -> None:
    """Open the web pages of all sessions, or of SESSION: the context at each turn, evictions and their reasons, and the
    cost.

    \b
      mnemosyne open                all sessions
      mnemosyne open 319a           one session
      mnemosyne open --print        print the link for another browser

    The link works once, within a day; the browser stays signed in for 30 days. If no server is running, this command
    serves the pages until Ctrl-C, at --port if given, else on a free port.
    """
    config = configuration(options) if session is None else log_of(options)
    if at_socket is not None:
        _make_pages(config, at_socket, partial(read_settings, options))
        return
    if session is not None:
        with_read_models(config, lambda models: find(models.archive, session))

    prepare_data_dir(config.data_dir)
    local_token(config.data_dir)
    page = "/-/" if session is None else f"/-/session/{session}"
    secret = PageLinks(config.data_dir).make(PageRole.READER if read_only else PageRole.OWNER, now())
    server = find_server(config)
    if server is not None:
        _show(link_to(server.url, page, secret), only_print=only_print)
        return
    own_port = 0 if options["port"] is None else config.port  # the default is left to a server that starts later
    _show_alone(config, own_port, page, secret, only_print=only_print)


def _show(link: str, *, only_print: bool) -> None:
    say(link)
    sys.stdout.flush()
    if only_print:
        return

    if not webbrowser.open(link):
        say("No browser could be opened; open the link above yourself (it works once).", err=True)


def _show_alone(config: Config, port: int, page: str, secret: str, *, only_print: bool) -> None:
    """Serve the pages without a server, on a local port (0: a free one), until Ctrl-C."""
    start_logging(config.log_level, config.log_format, config.log_file)
    listener = bind("127.0.0.1", port)
    link = link_to(url_of(listener), page, secret)

    def ready() -> None:
        where = "is running" if config.port == 0 else f"answers at {server_url(config)} (see --port)"
        say(f"No server {where}; this command serves the pages until Ctrl-C.", err=True)
        _show(link, only_print=only_print)

    async def run() -> None:
        await run_pages(config, listener, _simulations(), ready=ready)

    trio.run(run)


def _make_pages(config: Config, number: int, load: Callable[[], Config]) -> None:
    """Serve the pages on a server's socket, at low priority, until the server ends or the pages are idle."""
    start_logging(config.log_level, config.log_format, config.log_file)
    end_with_server()
    os.nice(NICENESS)  # the server has started the database already

    async def run() -> None:
        simulations = _simulations()
        listener = socket.socket(fileno=number)
        await run_pages(config, listener, simulations, idle_seconds=IDLE_SECONDS, load=load)

    trio.run(run)


def _simulations() -> Simulations:
    for plugin in entry_points(group="mnemosyne.simulations"):
        simulating = plugin.load()
        return Simulations(simulating.list_policies(), simulating.COMMAND)
    return Simulations({}, ())
