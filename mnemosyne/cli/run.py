"""``mnemosyne run``: a client with a server of ours behind it."""

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mnemosyne.app.clients import (
    BASE_URL,
    CLIENTS,
    Route,
    command_line,
    environment,
    files_line,
    lacks_provider,
    recognise,
)
from mnemosyne.app.discovery import (
    FoundServer,
    find_server,
    off_sentence,
    probe_upstreams,
    render_unrecorded,
    server_at,
    url_of,
)
from mnemosyne.app.launch import StartedServer, end_like, run_client, start_server
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, manage_option, setting_options
from mnemosyne.config import SETTINGS, Config, list_settings, upstreams_of
from mnemosyne.errors import BadConfiguration, BadOption, UpstreamUnreachable
from mnemosyne.figures import count_text, dollars_text, plural, printable

if TYPE_CHECKING:
    from mnemosyne.services.savings import Savings


def _complete_client(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    names = [name for client in CLIENTS for name in client.names]
    return [name for name in names if name.startswith(incomplete) and shutil.which(name)]


@click.command(
    # What stands after the client's name is the client's, options included.
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] [--]",
)
@setting_options
@manage_option
@click.option("--off", is_flag=True, help="Manage this conversation no longer: what the client sends goes upstream.")
@click.option(
    "--fork",
    metavar="SESSION[@TURN|@CHECKPOINT]",
    help="Go on from a recorded session, after the last whole reply up to that turn, under another name.",
)
@click.option("--with-files", is_flag=True, help="With --fork: make the folder's files what they were there, too.")
@click.option("--record-worktree", is_flag=True, help="Keep the folder's files before each call that may change them.")
@click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="CLIENT [ARGS]...",
    shell_complete=_complete_client,
)
@click.pass_context
def run(
    ctx: click.Context,
    /,
    command: tuple[str, ...],
    manage: bool,
    off: bool,
    fork: str | None,
    with_files: bool,
    record_worktree: bool,
    **options: object,
) -> None:
    """Run a client, such as claude or opencode, through Mnemosyne.

    \b
      mnemosyne run -- claude
      mnemosyne run -- opencode run "What is in this directory?"
      mnemosyne run -- python my_agent.py

    A server that listens on the configured address, has the same data directory and the same upstream is joined; which
    of the other options given here it does not heed is said.
    Otherwise one is started on a free port and stopped when the client ends; what it has to say goes to server.log in
    the data directory. If it ends before its client, it is started again.

    A client whose provider cannot be reached, or is not among the upstreams, is not started. What was not recorded is
    named at the end.

    With --manage, new conversations get memory tools, and what is sent of their history is rewritten when that pays
    (`docs/managing.md`). Claude Code and opencode ask for that themselves, with a header; for any other client it is
    the server that must have been started so.

    With --fork, Claude Code, opencode and Codex go on from any turn of a recorded session as a session of its own: the
    other stays as it is. Where it was managed, the fork goes on from what was sent, so the provider's cache holds.
    `mnemosyne fork` does the same and starts no client.

    
      mnemosyne run --fork 319a@30 -- claude

    With --record-worktree, Claude Code's files are kept before each of its calls that may change one, as commits of git
    below refs/mnemosyne that no branch names. Then --with-files brings them back for a fork; how they are now is kept
    first.

    The client gets ANTHROPIC_BASE_URL, and Claude Code, opencode, Codex and aider a setting of their own besides, so
    that they send what they send without us (`docs/clients.md`). It keeps the terminal, its exit code is passed on (127
    if there is no such command), and signals reach it as if it had been started directly. What was recorded, and what
    its own display of costs lacks, is said at the end (`docs/managing.md`).
    """
    config = configuration(options, manage=manage)
    _refuse_unfindable(command[0])
    if with_files and fork is None:
        raise click.UsageError("--with-files needs --fork: it brings back the files of the turn that is gone back to.")
    if manage and off:
        raise click.UsageError("--manage and --off are opposites: give one.")
    if off:
        refuse_deaf(command, "--off")
    recorded = _record_files(command) if record_worktree else command
    command = _go_on_from(recorded, fork, config, with_files=with_files) if fork is not None else recorded
    with _server(config) as (url, started):
        if sys.stderr.isatty():
            from mnemosyne.cli.serve import page_line

            _say(page_line(config, url))
        _print_ignored_options(command, config, url, joined=started is None)
        _refuse_unreachable(command, config, url)
        before = server_at(url, config) if started is None else None
        began = time.time_ns() // 1000
        mode = OFF if off else config.mode if config.mode == "manage" else None
        environ = _client_environment(command, config, url, mode)
        try:
            code = run_client(_client_command(command, url, config), environ, started, _say)
        except OSError as error:
            kind = _NotFound if isinstance(error, FileNotFoundError) else _NotRunnable
            raise kind(f"{command[0]} cannot be run: {error.strerror or error}.") from None
        found = _wait_for_record(url, config)
        earlier = before.untold if before is not None else {}
        after = found.untold if found is not None else {}
        _print_hidden_usage({name: count - earlier.get(name, 0) for name, count in after.items()}, started is None)
        for sentence in list_unrecorded(before, found):
            _say(sentence)
        _print_summary(config, began, complete=found is None or found.has_all_on_record)
    ctx.exit(end_like(code))


def _record_files(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command line of a client that has files kept."""
    from mnemosyne.adapters.git_worktree import GitWorktree

    GitWorktree.around(Path.cwd())
    return tuple(files_line(command))


def _go_on_from(command: tuple[str, ...], wanted: str, config: Config, *, with_files: bool) -> tuple[str, ...]:
    """The command line of a client that goes on from a recorded session, after a turn of it."""
    from mnemosyne.cli.fork import find_point, make_fork, place_sentence, restore_folder

    session, _, at = wanted.rpartition("@") if "@" in wanted else (wanted, "", "")
    if not session:
        raise click.BadParameter(
            f"{wanted!r} is no SESSION, SESSION@TURN or SESSION@CHECKPOINT, such as 319a@30.", param_hint="--fork"
        )
    point = find_point(session, at or None, config)
    made = make_fork(command, point)
    _say(f"session {made.session} begins {place_sentence(point)}")
    if with_files:
        _say(restore_folder(point))
    return made.command


OFF = "off"
"""The mode of a conversation that is managed no longer."""


def refuse_deaf(command: Sequence[str], option: str) -> None:
    """Raises BadOption for a client whose requests cannot be made to ask for a mode."""
    client = recognise(command)
    if client is None or not client.asks_for_mode:
        able = " and ".join(each.title for each in CLIENTS if each.asks_for_mode)
        raise BadOption(
            f"{option} reaches {able}, whose requests can ask for a mode; for {command[0]} the server's mode holds, and"
            " `mnemosyne off SESSION` ends managing."
        )


ADDRESS = frozenset({"host", "port"})
"""What says where a server is, and not what it does."""


class _NotFound(click.ClickException):
    """There is no such client; the exit code is the one that shells use."""

    exit_code = 127


class _NotRunnable(click.ClickException):
    """The client is there and cannot be started; again as shells do."""

    exit_code = 126


def _refuse_unfindable(program: str) -> None:
    """Before a server is started for nothing."""
    if "/" not in program and shutil.which(program, os.F_OK) is None:
        raise _NotFound(f"There is no command {program!r} on your PATH. Install it, or give its full path.")


@contextmanager
def _server(config: Config) -> Iterator[tuple[str, StartedServer | None]]:
    found = find_server(config)
    if found is not None and found.serves(config):
        yield found.url, None
        return
    with start_server(config, os.environ) as started:
        if sys.stderr.isatty():
            _say(f"started a server on {started.url} (log: {started.log})")
        yield started.url, started


def _print_ignored_options(command: tuple[str, ...], config: Config, url: str, *, joined: bool) -> None:
    """What was asked for and will not be: managing that is off, and options that only a new server would heed."""
    asked = {setting.name for setting in SETTINGS if config.sources[setting.name].startswith("option")}
    if config.mode != "manage" and not (joined and asked):
        return
    found = server_at(url, config)
    if found is None:
        return
    if config.mode == "manage" and found.off_since is not None:
        _say(f"{off_sentence(found.off_since)}.")
    client = recognise(command)
    wants_manage = config.mode == "manage"
    asks_itself = {"mode"} if wants_manage and client is not None and client.asks_for_mode else set()
    mode = found.settings.get("mode", config.mode)
    if joined and wants_manage and not asks_itself and mode != "manage":
        asks_itself = {"mode"}
        _say(
            f"this conversation will not be managed: {command[0]} cannot ask for that, and the server on {url} was "
            f"started with mode {mode}. --port 0 starts one that manages."
        )
    for name, wanted in list_settings(config).items():
        there = found.settings.get(name, wanted)
        if joined and name in asked - asks_itself - ADDRESS and there != wanted:
            _say(f"the server on {url} was started with {name} {there} and keeps it; --port 0 starts another one.")


def _refuse_unreachable(command: Sequence[str], config: Config, url: str) -> None:
    """Before a client waits minutes for a provider that its server cannot reach, or that is not configured there."""
    found = server_at(url, config)
    for sentence in found.ignored_variables if found is not None else ():
        _say(sentence)
    client = recognise(command)
    dialects = client.dialects if client is not None else ("messages",)
    reached = [(dialect, each) for dialect in dialects for each in probe_upstreams(url, dialect, config)]
    configured = [each for dialect, each in reached if not lacks_provider(dialect, each["url"])]
    if reached and not configured:
        raise BadConfiguration(
            f"The server on {url} has no provider for {command[0]}: its requests ({', '.join(dialects)}) would go to "
            f"{reached[0][1]['url']}, which does not take them. Add one with --upstreams, such as "
            f"{_EXAMPLES[dialects[0]]}{', on a server of its own (--port 0)' if found is not None else ''}."
        )
    if configured and all(each["state"] == "unreachable" for each in configured):
        raise UpstreamUnreachable(
            f"{configured[0]['sentence']} {command[0]} was not started: check the network and --upstream."
        )
    for sentence in dict.fromkeys(each["sentence"] for each in configured if each["state"] != "reachable"):
        _say(f"{sentence} {command[0]} is started all the same.")


_EXAMPLES = {
    "messages": "anthropic=https://api.anthropic.com",
    "responses": "openai=https://api.openai.com",
}
"""A value of --upstreams for the first dialect of a client."""


def list_unrecorded(before: FoundServer | None, after: FoundServer | None) -> list[str]:
    """A sentence for everything that a server has not recorded since ``before``, and why."""
    if after is None:
        return ["the server does not answer, so what was recorded is not known: see server.log in the data directory"]
    earlier = before.unrecorded if before is not None else {}
    counts = {path: count - earlier.get(path, 0) for path, count in after.unrecorded.items()}
    sentences = [f"{render_unrecorded(path, count)}" for path, count in counts.items() if count > 0]
    lost, turns = (
        after.database.get(name, 0) - (before.database.get(name, 0) if before is not None else 0)
        for name in ("appends_lost", "turns_lost")
    )
    why = f": {problem}" if (problem := after.database.get("problem")) else ""
    if lost > 0:
        sentences.append(f"{plural(lost, 'write')} of this server failed, so the record has a gap{why}")
    if turns > 0:
        sentences.append(f"{plural(turns, 'turn')} {'is' if turns == 1 else 'are'} not on record, or not whole{why}")
    if not after.has_all_on_record:
        sentences.append(f"not all turns are recorded yet, and what is not when the server ends is lost{why}")
    return sentences


def _wait_for_record(url: str, config: Config) -> FoundServer | None:
    """What a server says of itself once all that it answered is on record, or it has been waited for long enough: a
    turn does not wait long for a slow database. None if it does not say.
    """
    deadline = time.monotonic() + SUMMARY_SECONDS
    while (found := server_at(url, config)) is not None and not found.has_all_on_record:
        if time.monotonic() > deadline:
            break
        time.sleep(ASKED_AGAIN_SECONDS)  # it is another process, which does not tell by itself
    return found


def _print_hidden_usage(untold: Mapping[str, int], joined: bool) -> None:
    """What the client's own figures lack, where a client reads its window and its bill from the same numbers."""
    if not untold.get("rounds"):
        return
    whose = "the figures of this server's clients lack" if joined else "the client's own figures lack"
    rounds, tokens = plural(untold["rounds"], "round"), count_text(untold["tokens"])
    _say(f"{whose} the input of {rounds} that clients do not see: {tokens} tokens. `mnemosyne usage` has it.")


SUMMARY_SECONDS = 5.0
"""How long the end may wait until all is on record, and how long it may take to say what that is."""

ASKED_AGAIN_SECONDS = 0.05
"""Between two questions whether it is."""


def _print_summary(config: Config, began: int, *, complete: bool) -> None:
    """In one line: how many turns since then (µs of UTC), what they cost and saved, and where they can be seen.
    ``complete`` is whether all is on record by now.
    """

    import trio

    from mnemosyne.app.read_models import open_read_models
    from mnemosyne.services.savings import Savings, read_savings

    async def read() -> Savings | None:
        with trio.move_on_after(SUMMARY_SECONDS):
            async with open_read_models(config, lambda sentence: None) as models:
                return await read_savings(models, began)
        return None

    try:
        found = trio.run(read)
    except Exception:  # whatever it is, the client has ended well
        logging.getLogger(__name__).debug("what was recorded cannot be said", exc_info=True)
        return
    if found is None or not (found.sessions or complete):
        _say("see what was recorded: mnemosyne open")
        return
    if not found.sessions:
        return
    _say(render_recorded(found, config.mode))


def render_recorded(found: "Savings", mode: str) -> str:
    """The sentence about what was recorded, where something was. ``mode`` is the one that was asked for."""
    total = found.total
    told = [f"recorded {plural(total.turns, 'turn')}"]
    if total.is_priced:
        told.append(dollars_text(total.nanodollars))
    if total.unpriced:
        names = ", ".join(map(printable, sorted(total.unknown)))
        told.append(f"{plural(total.unpriced, 'turn')} without a known price ({names})")
    if total.is_priced:
        saved = total.nanodollars_saved if total.managed else 0
        if saved:
            told.append(f"saved {dollars_text(saved)}" if saved > 0 else f"{dollars_text(-saved)} more than without us")
    if mode == "manage" and total.managed < total.turns:
        told.append(f"{total.turns - total.managed} of them not managed (`mnemosyne explain` says why)")
    only = f" {str(next(iter(found.sessions)))[:8]}" if len(found.sessions) == 1 else ""
    return f"{', '.join(told)}: mnemosyne open{only}"


def _client_command(command: tuple[str, ...], url: str, config: Config) -> list[str]:
    return command_line(command, Route(url, config.upstream))


def _client_environment(command: tuple[str, ...], config: Config, url: str, mode: str | None) -> dict[str, str]:
    named = os.environ.get(BASE_URL, "").rstrip("/")
    if named not in ("", config.upstream, url, url_of(config)):
        _say(f"{BASE_URL} is replaced for this client; --upstream sets where requests go (now {config.upstream}).")
    client = recognise(command)
    for obstacle in client.obstacles(os.environ, Path.cwd()) if client else ():
        _say(obstacle)
    from mnemosyne.data_dir import memory_key

    token = memory_key(config.data_dir).token
    return environment(command, Route(url, config.upstream, mode, upstreams_of(config), token), os.environ)


def _say(sentence: str) -> None:
    say(f"mnemosyne: {sentence}", err=True)
