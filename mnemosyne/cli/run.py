"""``mnemosyne run``: run a client through the proxy."""

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mnemosyne.app.clients import (
    BASE_URL,
    CHOICES,
    CLIENTS,
    Route,
    add_hooks,
    command_line,
    environment,
    lacks_provider,
    list_unrouted,
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
from mnemosyne.config import BUDGETS, SETTINGS, Config, list_settings, render, repeat_options, upstreams_of
from mnemosyne.errors import BadConfiguration, BadOption, UpstreamUnreachable
from mnemosyne.figures import count_text, dollars_text, plural, printable

if TYPE_CHECKING:
    from mnemosyne.services.savings import Savings


def _complete_client(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    names = [name for client in CLIENTS for name in client.names]
    return [name for name in names if name.startswith(incomplete) and shutil.which(name)]


SHORT = {"window": "manage_window", "budget": "session_budget_dollars"}
"""The settings that an option names in short."""


def _check_short(_: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse an invalid value of an option in ``SHORT`` by the option's own name."""
    kind = next(setting.kind for setting in SETTINGS if setting.name == SHORT[option.name or ""])
    try:
        kind.parse(value) if value else None
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
    return value


@click.command(
    # Everything after the client's name, including options, belongs to the client.
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] [--]",
)
@setting_options("policy", "fidelity", "grounding")
@manage_option
@click.option("--window", metavar="TOKENS", callback=_check_short, help="Short for --manage-window.")
@click.option("--budget", metavar="DOLLARS", callback=_check_short, help="Short for --session-budget-dollars.")
@click.option("--off", is_flag=True, help="Stop managing: the proxy sends the client's requests unchanged.")
@click.option(
    "--fork",
    metavar="SESSION[@TURN|@CALL|@CHECKPOINT]",
    help="Start a new session from an earlier point of a recorded one.",
)
@click.option(
    "--with-files", is_flag=True, help="With --fork: also restore the folder's files to their state at that point."
)
@click.option("--record-worktree", is_flag=True, help="Save this git working tree's files at each request.")
@click.option(
    "--door",
    type=click.Choice(["tls"]),
    help="Experimental: keep the client's base URL, and decrypt its connections to the upstream's host.",
)
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
    window: str | None,
    budget: str | None,
    off: bool,
    fork: str | None,
    with_files: bool,
    record_worktree: bool,
    door: str | None,
    **options: object,
) -> None:
    """Run a client, such as claude or opencode, through Mnemosyne.

    \b
      mnemosyne run -- claude
      mnemosyne run --manage -- opencode run "What is in this directory?"
      mnemosyne run --fork 319a@30 -- claude
      mnemosyne run --door tls -- claude
      mnemosyne run -- python my_agent.py

    It uses a running server with the same address, data directory and upstream, if that can apply the limits on cost
    given here. Otherwise a server runs on a free port until the client ends; its log is server.log in the data
    directory. A client whose provider is unreachable is not started.

    With --manage, new conversations get memory tools, and their context is compacted when that saves money. Claude Code
    and opencode can request this; for other clients, start the server with --manage.

    The client keeps the terminal, and its exit code is passed on (127 if the command does not exist). At the end, the
    command reports what was recorded and what the client's cost display omits. See docs/clients.md.
    """
    options |= {SHORT[name]: value for name, value in (("window", window), ("budget", budget)) if value}
    config = configuration(options, manage=manage)
    if door is not None:
        config = _behind_door(config, options, manage=manage, off=off)
    refuse_unfindable(command[0])
    if with_files and fork is None:
        raise click.UsageError("--with-files needs --fork: it restores the files of the forked turn.")
    if manage and off:
        raise click.UsageError("--manage and --off are mutually exclusive.")
    if off:
        require_mode_support(command, "--off")
    environ = {**os.environ, **_keep_files()} if record_worktree else os.environ
    command = tuple(add_hooks(command, config.data_dir))
    go_on = _find_fork(fork, config, with_files=with_files) if fork is not None else tuple
    with ExitStack() as stack:
        alone = door is not None or record_worktree
        url, started = stack.enter_context(_server(config, command, environ, alone=alone))
        if sys.stderr.isatty():
            from mnemosyne.cli.serve import page_line

            _say(page_line(config, url))
        _print_ignored_options(command, config, url, joined=started is None)
        _refuse_unreachable(command, config, url)
        command = go_on(command)  # not before: a client that cannot start leaves no fork behind
        before = server_at(url, config) if started is None else None
        began = time.time_ns() // 1000
        mode = OFF if off else config.mode if config.mode == "manage" else None
        choices = _find_choices(command, config) if started is None else {}
        if door is not None:
            from mnemosyne.app.door import open_door

            _print_obstacles(command)
            variables, words = stack.enter_context(open_door(url, config, os.environ, _say)), [*command]
            variables["MNEMOSYNE_PORT"] = url.rpartition(":")[2]  # by it, not by a base URL, hooks find the server
        else:
            variables = _client_environment(command, config, url, mode, choices)
            words = command_line(command, Route(url, config.upstream))
        try:
            code = run_client(words, variables, started, _say)
        except OSError as error:
            raise client_error(command[0], error) from None
        found = _wait_for_record(url, config)
        earlier = before.untold if before is not None else {}
        after = found.untold if found is not None else {}
        _print_hidden_usage({name: count - earlier.get(name, 0) for name, count in after.items()}, started is None)
        for sentence in list_unrecorded(before, found):
            _say(sentence)
        _print_summary(config, began, complete=found is None or found.has_all_on_record)
    ctx.exit(end_like(code))


def _behind_door(config: Config, options: Mapping[str, object], *, manage: bool, off: bool) -> Config:
    """The settings of a server behind a door: all requests go to the upstream's host, and it manages only if asked."""
    from mnemosyne.app.door import host_of, origin_of

    if off or options["upstreams"]:
        raise click.UsageError(
            "--door excludes --off and --upstreams: it observes by default, and all requests go to the upstream's host."
        )
    host = host_of(config.upstream, os.environ)
    names = ",".join((*config.allowed_hosts, host.name))
    origin = origin_of(config.upstream)
    ours = {"upstream": origin, "upstreams": f"host={origin}", "allowed_hosts": names}
    return configuration({**options, **ours, "mode": options["mode"] or "observe"}, manage=manage, warns=False)


def _keep_files() -> dict[str, str]:
    """The variable that makes a server save the files of this folder's working tree. Raises NotFound outside of one."""
    from mnemosyne.adapters.git_worktree import GitWorktree
    from mnemosyne.app.kept_files import FOLDER_VARIABLE

    return {FOLDER_VARIABLE: str(GitWorktree.around(Path.cwd()).top)}


def _find_fork(wanted: str, config: Config, *, with_files: bool) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Find the point of a recorded session. The function returned makes the fork and its client's command line."""
    from mnemosyne.cli.fork import find_kept_files, find_point, make_fork, place_sentence, restore_folder

    session, _, at = wanted.rpartition("@") if "@" in wanted else (wanted, "", "")
    if not session:
        raise click.BadParameter(
            f"{wanted!r} is not of the form SESSION or SESSION@TURN, @CALL or @CHECKPOINT, such as 319a@30.",
            param_hint="--fork",
        )
    point = find_point(session, at or None, config)
    kept = find_kept_files(point) if with_files else None

    def make(command: tuple[str, ...]) -> tuple[str, ...]:
        made = make_fork(command, point)
        _say(f"session {made.session} begins {place_sentence(point)}")
        if kept is not None:
            _say(restore_folder(kept, point))
        return made.command

    return make


OFF = "off"
"""The mode of a conversation whose managing was stopped."""


def require_mode_support(command: Sequence[str], option: str) -> None:
    """Raises BadOption if the client cannot request a mode."""
    client = recognise(command)
    if client is None or not client.asks_for_mode:
        able = " and ".join(supported.title for supported in CLIENTS if supported.asks_for_mode)
        raise BadOption(
            f"{option} works with {able}, whose requests can ask for a mode; {command[0]} uses the server's mode, and"
            " `mnemosyne off SESSION` stops managing."
        )


ADDRESS = frozenset({"host", "port"})
"""The settings that only locate a server."""


class _NotFound(click.ClickException):
    """The client does not exist; the exit code is a shell's, as below."""

    exit_code = 127


class _NotRunnable(click.ClickException):
    """The client cannot be executed."""

    exit_code = 126


def client_error(program: str, error: OSError) -> click.ClickException:
    """The error for a client that cannot be started."""
    kind = _NotFound if isinstance(error, FileNotFoundError) else _NotRunnable
    return kind(f"{program} cannot be run: {error.strerror or error}.")


def refuse_unfindable(program: str) -> None:
    """Raise _NotFound if the program is not on PATH, before a server is started."""
    if "/" not in program and shutil.which(program, os.F_OK) is None:
        raise _NotFound(f"There is no command {program!r} on your PATH. Install it, or give its full path.")


@contextmanager
def _server(
    config: Config, command: Sequence[str], environ: Mapping[str, str], *, alone: bool
) -> Iterator[tuple[str, StartedServer | None]]:
    """A running server, or one started for this run with these variables; ``alone`` always starts one."""
    found = find_server(config, _say) if not alone else None
    if found is not None and found.serves(config) and not _needs_own_limits(found, config, command):
        yield found.url, None
        return
    with start_server(config, environ) as started:
        if sys.stderr.isatty():
            _say(f"started a server on {started.url} (log: {started.log})")
        yield started.url, started


def _needs_own_limits(found: FoundServer, config: Config, command: Sequence[str]) -> bool:
    """Whether an option sets a limit on cost that a running server lacks and the client cannot choose."""
    given = {name for name in BUDGETS if config.sources[name].startswith("option")}
    wanted, there = list_settings(config), found.settings
    return any(there.get(name, wanted[name]) != wanted[name] for name in given - _find_choices(command, config).keys())


def _print_ignored_options(command: tuple[str, ...], config: Config, url: str, *, joined: bool) -> None:
    """Report that managing is off, and the options that a running server ignores."""
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
    asks_itself |= _find_choices(command, config).keys()
    mode = found.settings.get("mode", config.mode)
    if joined and wants_manage and not asks_itself and mode != "manage":
        asks_itself = {"mode"}
        _say(
            f"this conversation will not be managed: {command[0]} cannot request it, and the server on {url} was "
            f"started with mode {mode}. Use --port 0 to start a managing server."
        )
    for name, wanted in list_settings(config).items():
        there = found.settings.get(name, wanted)
        if joined and name in asked - asks_itself - ADDRESS and there != wanted:
            _say(
                f"the server on {url} ignores --{name.replace('_', '-')}: it was started with {there}. "
                "Use --port 0 to start another."
            )


def _refuse_unreachable(command: Sequence[str], config: Config, url: str) -> None:
    """Raise an error if the server has no provider for the client, or cannot reach it."""
    found = server_at(url, config)
    for sentence in found.ignored_variables if found is not None else ():
        _say(sentence)
    client = recognise(command)
    dialects = client.dialects if client is not None else ("messages",)
    reached = [(dialect, probe) for dialect in dialects for probe in probe_upstreams(url, dialect, config)]
    configured = [probe for dialect, probe in reached if not lacks_provider(dialect, probe["url"])]
    if reached and not configured:
        raise BadConfiguration(
            f"The server on {url} has no provider for {command[0]}: its requests ({', '.join(dialects)}) would go to "
            f"{reached[0][1]['url']}, which does not accept them. Add one with --upstreams, such as "
            f"{_EXAMPLES[dialects[0]]}{', on a server of its own (--port 0)' if found is not None else ''}."
        )
    if configured and all(probe["state"] == "unreachable" for probe in configured):
        raise UpstreamUnreachable(
            f"{configured[0]['sentence']} {command[0]} was not started: check the network and --upstream."
        )
    for sentence in dict.fromkeys(probe["sentence"] for probe in configured if probe["state"] != "reachable"):
        _say(f"{sentence} {command[0]} is started anyway.")


_EXAMPLES = {
    "messages": "anthropic=https://api.anthropic.com",
    "responses": "openai=https://api.openai.com",
}
"""An example value of --upstreams for each dialect."""


def list_unrecorded(before: FoundServer | None, after: FoundServer | None) -> list[str]:
    """Sentences about everything that a server has failed to record since ``before``, with the reason."""
    if after is None:
        return ["the server does not respond, so some turns may be unrecorded: see server.log in the data directory"]
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
        sentences.append(f"{plural(turns, 'turn')} {'was' if turns == 1 else 'were'} not recorded completely{why}")
    if not after.has_all_on_record:
        sentences.append(f"some turns are not recorded yet, and will be lost if the server ends now{why}")
    return sentences


def _wait_for_record(url: str, config: Config) -> FoundServer | None:
    """The server's status once it has recorded all turns, or after SUMMARY_SECONDS, because turns do not wait for a
    slow database. None if the server does not respond.
    """
    deadline = time.monotonic() + SUMMARY_SECONDS
    while (found := server_at(url, config)) is not None and not found.has_all_on_record:
        if time.monotonic() > deadline:
            break
        time.sleep(ASKED_AGAIN_SECONDS)  # another process, which cannot notify us
    return found


def _print_hidden_usage(hidden: Mapping[str, int], joined: bool) -> None:
    """Report the usage that the client cannot see, because it computes cost and context from the same numbers."""
    if not hidden.get("rounds"):
        return
    whose = "the cost displays of this server's clients are" if joined else "the client's cost display is"
    rounds, tokens = plural(hidden["rounds"], "memory request"), count_text(hidden["tokens"])
    _say(f"{whose} too low: {rounds} with {tokens} input tokens are hidden. `mnemosyne usage` includes them.")


SUMMARY_SECONDS = 5.0
"""The time limit for waiting until all turns are recorded, and for computing the summary."""

ASKED_AGAIN_SECONDS = 0.05
"""The interval between two status requests."""


def _print_summary(config: Config, began: int, *, complete: bool) -> None:
    """Print one line: the number of turns since ``began`` (µs of UTC), their cost and savings, and how to see them.
    ``complete`` is whether all turns are recorded.
    """

    import trio

    from mnemosyne.app.process import now
    from mnemosyne.app.read_models import open_read_models
    from mnemosyne.app.settings import limits_of
    from mnemosyne.services.budgets import Budgets
    from mnemosyne.services.cache_misses import describe_misses, read_session_misses
    from mnemosyne.services.savings import Savings, read_break_even, read_savings

    async def read() -> tuple[Savings | None, int | None, list[str]]:
        found, break_even, sentences = None, None, list[str]()
        with trio.move_on_after(SUMMARY_SECONDS):
            async with open_read_models(config, lambda sentence: None) as models:
                found = await read_savings(models, began)
                break_even = await read_break_even(models, found)
                sentences = await Budgets(lambda: limits_of(config), now).describe(models, found.sessions)
                misses = describe_misses(await read_session_misses(models.archive, found.sessions, began))
                sentences = [*([misses] if misses is not None else []), *sentences]
        return found, break_even, sentences

    try:
        found, break_even, sentences = trio.run(read)
    except Exception:  # the client has ended, so an error here must not matter
        logging.getLogger(__name__).debug("cannot summarize the recorded turns", exc_info=True)
        return
    if found is not None and found.sessions:
        _say(f"{render_recorded(found, config.mode, break_even)}{repeat_options(config)}")
        for sentence in sentences:
            _say(f"{sentence}.")
    elif found is None or not complete:
        _say(f"see what was recorded: mnemosyne open{repeat_options(config)}")


def render_recorded(found: "Savings", mode: str, break_even: int | None = None) -> str:
    """A sentence about the recorded turns. ``mode`` is the requested mode; ``break_even`` as in ``read_break_even``."""
    from mnemosyne.services.savings import describe_loss

    total = found.total
    parts = [f"recorded {plural(total.turns, 'turn')}"]
    if total.is_priced:
        parts.append(dollars_text(total.nanodollars))
    if total.unpriced:
        names = ", ".join(map(printable, sorted(total.unknown)))
        parts.append(f"{plural(total.unpriced, 'reply')} without a known price ({names})")
    if total.is_priced and total.managed:
        saved = total.nanodollars_saved
        if saved > 0:
            parts.append(f"saved {dollars_text(saved)}")
        elif saved:
            parts.append(describe_loss(-saved, break_even))
    if mode == "manage" and total.managed < total.turns:
        parts.append(f"{total.turns - total.managed} of them sent unchanged (`mnemosyne explain` says why)")
    only = f" {str(next(iter(found.sessions)))[:8]}" if len(found.sessions) == 1 else ""
    return f"{', '.join(parts)}: mnemosyne open{only}"


def _find_choices(command: Sequence[str], config: Config) -> dict[str, str]:
    """The settings given as options that the client's requests can choose at a running server."""
    client = recognise(command)
    if client is None or not client.asks_for_mode:
        return {}
    given = [name for name in CHOICES if config.sources[name].startswith("option")]
    return {name: render(getattr(config, name)) for name in given}


def _client_environment(
    command: tuple[str, ...], config: Config, url: str, mode: str | None, choices: Mapping[str, str]
) -> dict[str, str]:
    named = os.environ.get(BASE_URL, "").rstrip("/")
    if named not in ("", config.upstream, url, url_of(config)):
        _say(f"{BASE_URL} is replaced for this client; --upstream sets where requests go (now {config.upstream}).")
    _print_obstacles(command)
    from mnemosyne.data_dir import memory_key

    token = memory_key(config.data_dir).token
    way = Route(url, config.upstream, mode, upstreams_of(config), token, choices)
    for sentence in list_unrouted(command, way):
        _say(sentence)
    return environment(command, way, os.environ)


def _print_obstacles(command: Sequence[str]) -> None:
    client = recognise(command)
    for obstacle in client.obstacles(os.environ, Path.cwd()) if client else ():
        _say(obstacle)


def _say(sentence: str) -> None:
    say(f"mnemosyne: {sentence}", err=True)
