"""``mnemosyne serve`` and ``mnemosyne worker``."""

import os
import signal
import sys
import threading
from functools import partial

import click

from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, manage_option, read_settings, setting_options
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration


@click.command()
@setting_options("host", "port", "processes", "upstream")
@manage_option
@click.option("--place", hidden=True, help="Be one of several processes (app.process_link.ProcessPlace).")
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="Stop, as on SIGTERM, when stdin ends.")
def serve(manage: bool, until_stdin_ends: bool, place: str | None, **options: object) -> None:
    """Run the proxy until it is stopped.

    \b
      mnemosyne serve --port 8800
      mnemosyne serve --manage
      mnemosyne serve --processes 4
      export ANTHROPIC_BASE_URL=http://127.0.0.1:8787

    When it is ready, it prints `mnemosyne listening on URL` on stdout, and on stderr the variables to set for your
    agent, unless stderr is a JSON log. `mnemosyne run -- claude` does all that for you.

    SIGTERM or Ctrl-C stops it after the running replies finish; a second one stops it immediately. SIGHUP reloads
    log_level, mode and the models file. Every option is also a variable (MNEMOSYNE_PORT=8800) and a line of the
    settings file (port = 8800).
    """
    # Before the imports below, to report a bad setting quickly; the first process reports the warnings of the file.
    config = configuration(options, manage=manage, warns=place is None)
    import trio

    if (config.processes > 1 or config.shards) and place is None:
        _serve_with_processes(config, until_stdin_ends=until_stdin_ends)
        return
    from mnemosyne.app.freed_memory import keep_freed_memory
    from mnemosyne.app.logs import start_logging
    from mnemosyne.app.process_link import ProcessPlace
    from mnemosyne.app.server import collect_rarely, run_server, share_the_interpreter

    keep_freed_memory()
    share_the_interpreter()
    collect_rarely()
    among = ProcessPlace.parse(place) if place else None
    start_logging(config.log_level, config.log_format, config.log_file, among.number if among else None)
    if until_stdin_ends:
        threading.Thread(target=_stop_when_stdin_ends, daemon=True).start()
    load = partial(read_settings, options, manage=manage)
    trio.run(run_server, config, partial(_announce, config), load, among)


def _serve_with_processes(config: Config, *, until_stdin_ends: bool) -> None:
    import trio

    from mnemosyne.app.logs import start_logging
    from mnemosyne.app.processes import run_processes

    start_logging(config.log_level, config.log_format, config.log_file)
    if until_stdin_ends:
        threading.Thread(target=_stop_when_stdin_ends, daemon=True).start()
    trio.run(run_processes, config, partial(_announce, config))


def _announce(config: Config, url: str) -> None:
    from mnemosyne.app.clients import FIRST_PARTY, is_first_party

    say(f"mnemosyne listening on {url}")
    sys.stdout.flush()
    if config.log_format == "json" and config.log_file is None:
        return  # stderr is a JSON log
    say(f"Point your agent at it:  export ANTHROPIC_BASE_URL={url}", err=True)
    if is_first_party(config.upstream):
        say(f"and for Claude Code also:  export {FIRST_PARTY}=1", err=True)
    say(page_line(config, url), err=True)


def _stop_when_stdin_ends() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def page_line(config: Config, url: str) -> str:
    """How to open the pages of a server: a sign-in link if stderr is a terminal, else the command that prints one,
    because others may read a log.
    """
    from mnemosyne.app.process import now
    from mnemosyne.page_links import PageLinks, PageRole, link_to

    if not sys.stderr.isatty():
        return "See the sessions:  mnemosyne open"
    try:
        link = link_to(url, "/-/", PageLinks(config.data_dir).make(PageRole.OWNER, now()))
    except BadConfiguration as error:
        return str(error)
    return f"See the sessions (works once; `mnemosyne open` makes another):  {link}"


@click.command()
@setting_options()
@click.option("--under-server", is_flag=True, hidden=True, help="For the server at the other end of stdin and stdout.")
def worker(under_server: bool, **options: object) -> None:
    """Maintain the data derived from the log: the read models, and the index of objects with its vectors.

    \b
      mnemosyne worker

    `mnemosyne serve` runs a worker of its own; this command runs one without a server. One worker is active for a
    database, the others are on standby. Without one, sessions work, but searches and reports lag behind.
    """
    # Before the imports below, to report a bad setting quickly; the server reports the warnings of the file.
    config = configuration(options, warns=not under_server)
    import trio

    from mnemosyne.app.freed_memory import keep_freed_memory
    from mnemosyne.app.logs import start_logging
    from mnemosyne.app.worker import run_worker

    keep_freed_memory()
    start_logging(config.log_level, config.log_format, config.log_file)
    trio.run(run_worker, config, under_server)
