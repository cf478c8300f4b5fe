"""``mnemosyne replay``: run a client again on a recorded session, or the session's decisions with the current code."""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mnemosyne.cli.log_access import json_option, log_of, with_log
from mnemosyne.cli.printing import print_json, print_table, progress_bar, say
from mnemosyne.cli.settings import log_options
from mnemosyne.config import Config
from mnemosyne.figures import plural, printable
from mnemosyne.services.unstructuring import members

if TYPE_CHECKING:
    from mnemosyne.app.replaying import RunningReplay
    from mnemosyne.domain.history.time_travel import Attempt
    from mnemosyne.domain.wire.request_matching import RequestDifference
    from mnemosyne.replay.deciding import Review
    from mnemosyne.services.recorded_replies import RepeatedRequest, Replay


@click.command()
@click.argument("session", required=False, metavar="SESSION")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CLIENT [ARGS]...]")
@click.option(
    "--until", type=click.IntRange(min=1), metavar="TURN", help="Answer from the record up to this turn, then go live."
)
@click.option(
    "--worktree", is_flag=True, help="Run in a copy of the session's folder, with the files that it began with."
)
@click.option("--at-speed", is_flag=True, help="Take as long for each reply as the provider did.")
@click.option(
    "--from-log", metavar="SESSION", help="Re-run the decisions of this session instead, and show differences."
)
@click.option(
    "--window",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="With --from-log: use this window, and show which managed turns would be decided differently.",
)
@log_options()
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    /,
    session: str | None,
    command: tuple[str, ...],
    until: int | None,
    worktree: bool,
    at_speed: bool,
    from_log: str | None,
    window: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a client again on a recorded session: each request that repeats a recorded one gets the recorded reply.

    \b
      mnemosyne replay 319a -- claude -p "Fix the test"
      mnemosyne replay 319a --until 12 -- claude --model claude-haiku-4-5
      mnemosyne replay --from-log 319a

    Nothing is sent to a provider, and no key is needed. Tools really run, in this folder: begin with the files that the
    session began with, and type the same prompts. At the end, the command reports how many requests were repeated, and
    the first difference in each of their parts.

    --worktree needs a session of `run --record-worktree`. The copy includes ignored files, and remains.

    With --until, requests after that turn go to the provider through Mnemosyne and are recorded as a new session. If
    the client uses another model, only differences in messages count.

    With --from-log, no client runs: the commands of the session are run with the current code.

    The exit code is 1 if anything differs, otherwise the client's.
    """
    if (from_log is None) == (session is None):
        raise click.UsageError("Name a SESSION and a client after --, or use --from-log SESSION.")
    config = log_of(options)
    if from_log is not None:
        review = _review(config, from_log, window)
        if as_json:
            print_json(_review_as_json(review))
        else:
            _print_review(review)
        ctx.exit(int(bool(review.differences)))
    assert session is not None
    if not command:
        raise click.UsageError("Name the client after --, such as: mnemosyne replay SESSION -- claude")
    ctx.exit(_run(config, session, command, as_json=as_json, until=until, at_speed=at_speed, copies=worktree))


# A client


def _run(
    config: Config, session: str, command: tuple[str, ...], *, as_json: bool, until: int | None, **how: bool
) -> int:
    """Run the client; return the exit code."""
    from mnemosyne.app.clients import Route, command_line, environment, list_unrouted
    from mnemosyne.app.launch import end_like, run_client
    from mnemosyne.app.replaying import ReplayOptions, serve_replay
    from mnemosyne.cli.run import client_error, refuse_unfindable
    from mnemosyne.config import upstreams_of

    refuse_unfindable(command[0])
    with ExitStack() as stack:
        live_url = stack.enter_context(_live(config, until))
        options = ReplayOptions(session=session, until=until, live_url=live_url, **how)
        with progress_bar("reading the recorded requests") as progress:  # it ends before the client has the terminal
            running = stack.enter_context(serve_replay(config, options, progress))
        if options.copies:
            os.chdir(running.folder)
            _say(f"the client works in {running.folder}")
        way = Route(running.url, config.upstream, others=upstreams_of(config))
        for sentence in list_unrouted(command, way):
            _say(sentence)
        environ = environment(command, way, {**os.environ, "PWD": str(Path.cwd())})
        if live_url is None:
            environ |= _offline(running.url, environ)
        try:
            code = run_client(command_line(command, way), environ, None, _say)
        except OSError as error:
            raise client_error(command[0], error) from None
    if as_json:
        print_json(_as_json(running))
    else:
        _print(running, live=live_url is not None)
    return end_like(code) or int(differs(running, live=live_url is not None))


@contextmanager
def _live(config: Config, until: int | None) -> Iterator[str | None]:
    """The URL of a server that records the turns after the replay; None if it ends with the record."""
    from mnemosyne.app.launch import start_server

    if until is None:
        yield None
        return
    with start_server(config, os.environ) as server:
        yield server.url


KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY")


def _offline(url: str, environ: dict[str, str]) -> dict[str, str]:
    """The variables for a client without a network: keys, because it does not start without, and a refusing proxy."""
    given = {name: environ.get(name) or "replay" for name in KEYS}
    if environ.get("ANTHROPIC_AUTH_TOKEN"):
        given.pop("ANTHROPIC_API_KEY")
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return given | {spelled: url for name in proxies for spelled in (name, name.lower())}


def differs(running: "RunningReplay", *, live: bool) -> bool:
    """Whether any request differs in more than clients vary, was not sent, or is not in the record. With another model
    for the ``live`` part, as the user chose, only the messages count: the rest of a request depends on its model.
    """
    replay = running.replay
    return bool(
        any(
            match.comparison.differences
            if not (live and match.comparison.differs_in("model"))
            else any(match.comparison.differs_in(messages) for messages in ("messages", "input"))
            for match in replay.matches
        )
        or replay.unsent
        or (replay.unknown and not live)
    )


def _print(running: "RunningReplay", *, live: bool) -> None:
    from mnemosyne.domain.history.time_travel import Status

    replay = running.replay
    total = len(replay.matches) + (0 if live else replay.unknown)
    different = [match for match in replay.matches if match.comparison.differences]
    same = len(replay.matches) - len(different)
    exact = sum(match.exact for match in replay.matches)
    _say(f"{same} of {plural(total, 'request')} repeated the record, {exact} of them to the byte")
    recorded, programs = _name_program(replay), ", ".join(sorted(replay.programs))
    if programs not in ("", recorded):
        _say(f"the session is of {recorded}, this client is {programs}")
    ignored = Counter(kind for match in replay.matches for kind in match.comparison.ignored)
    if ignored:
        _say(f"ignored: {', '.join(f'{kind} ({count})' for kind, count in ignored.items())}")
    if different:
        _print_differences(different)
    cut = {each.attempt.version: each.attempt for each in replay.matches if each.attempt.status is not Status.FINISHED}
    if cut:
        _say(f"broke off, as recorded: {_name_turns([*cut.values()])}")
    filled = [match.attempt for match in replay.matches if match.reply is not None]
    if filled:
        places = _name_turns([*{each.version: each for each in filled}.values()])
        _say(f"not recorded, taken from a later request's history: {plural(len(filled), 'reply')} before {places}")
    if replay.unknown:
        where = "went to the provider" if live else "got an error: not in the record"
        after = replay.unknown_after
        first = f", the first after {_name_turns([after.attempt])}" if after is not None and not live else ""
        _say(f"{plural(replay.unknown, 'other request')} {where}{first}")
        if replay.unknown_like is not None:
            _print_differences([replay.unknown_like])
    if replay.unsent:
        _say(f"not sent again: {_name_turns(replay.unsent)}")
    if replay.forgotten:
        _say(f"forgotten: {_name_turns(replay.forgotten)}")
    if replay.history.unrecorded:
        _say(f"{plural(replay.history.unrecorded, 'turn')} passed unrecorded, so the record has gaps")
    for host, count in running.server.refused.items():
        _say(f"refused: {plural(count, 'connection')} to {printable(host)}")


def _name_program(replay: "Replay") -> str:
    started = replay.history.started
    return " ".join(filter(None, (started.client, started.client_version))) if started is not None else ""


def _print_differences(different: "Sequence[RepeatedRequest]") -> None:
    """The first difference in each part of the requests, such as the messages and the tools."""
    parts: dict[str, list[tuple[RepeatedRequest, RequestDifference]]] = {}
    for match in different:
        firsts: dict[str, RequestDifference] = {}
        for each in match.comparison.differences:
            firsts.setdefault(re.split(r"[.\[]", each.path)[0], each)
        for part, first in firsts.items():
            parts.setdefault(part, []).append((match, first))
    for part, found in parts.items():
        match, first = found[0]
        where = f"turn {match.attempt.began.turn} of {match.attempt.began.branch}, {first.path}"
        say(f"{part} differs in {plural(len(found), 'request')}, first in {where}:")
        say(f"  recorded: {printable(first.recorded)}")
        say(f"  now:      {printable(first.now)}")


SHOWN = 10
"""How many turns are named."""


def _name_turns(attempts: "Sequence[Attempt]") -> str:
    names = [f"{each.began.branch} {each.began.turn}" for each in attempts]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def _as_json(running: "RunningReplay") -> dict[str, Any]:
    replay = running.replay
    return {
        "session": str(replay.session),
        "recorded_program": _name_program(replay),
        "programs": sorted(replay.programs),
        "requests": [
            {
                "branch": each.attempt.began.branch,
                "turn": each.attempt.began.turn,
                "attempt": each.attempt.began.attempt,
                "exact": each.exact,
                "from_history": each.reply is not None,
                "ignored": dict(each.comparison.ignored),
                "differences": [members(one, "path recorded now") for one in each.comparison.differences],
            }
            for each in replay.matches
        ],
        "unknown": replay.unknown,
        "unsent": [members(each.began, "branch turn attempt") for each in replay.unsent],
        "forgotten": [members(each.began, "branch turn attempt") for each in replay.forgotten],
        "unrecorded": replay.history.unrecorded,
        "folder": str(running.folder.resolve()),
        "refused": dict(running.server.refused),
    }


def _say(sentence: str) -> None:
    say(f"mnemosyne: {sentence}", err=True)


# The session's decisions


def _review(config: Config, session: str, window: int | None) -> "Review":
    from mnemosyne.app.policies import load_policy
    from mnemosyne.replay.deciding import review

    plug_in = load_policy(config)
    logging.getLogger("mnemosyne").setLevel(logging.ERROR)  # warnings about the recorded past are not news
    with progress_bar("deciding again") as progress:
        return with_log(config, lambda storage: review(storage, session, progress, window=window, plug_in=plug_in))


def _review_as_json(review: "Review") -> dict[str, Any]:
    names = "turn event field recorded today"
    return {
        **members(review, "decisions turns other_tables by_earlier_version old_accounts old_rules", id="session"),
        "skipped": [members(skip, "why", position="version") for skip in review.skipped],
        "differences": [members(difference, names, position="version") for difference in review.differences],
    }


def _print_review(review: "Review") -> None:
    if review.differences:
        rows = [
            (str(each.version), each.turn or "-", each.event, each.field or "-", each.recorded, each.today)
            for each in review.differences
        ]
        print_table(("POSITION", "TURN", "EVENT", "FIELD", "RECORDED", "TODAY"), rows, right="POSITION")
    for skipped in review.skipped:
        say(skipped.sentence)
    for digest in review.other_tables:
        say(f"The session used another table of models ({digest.hex()}): prices, weights and windows may differ.")
    if review.turns and review.by_earlier_version:
        say("An earlier version recorded this session; today's planner may compact and evict differently.")
    if review.old_accounts:
        accounts = f"by the rules before 2026-11-30: {plural(review.old_accounts, 'account')}. They expected no reads"
        say(f"{accounts} from a cache without markers, and treated missing and incredible counts differently.")
    if review.old_rules:
        say(f"by the rules before 2026-11-30: {plural(review.old_rules, 'decision')} (links of decisions, searches).")
    if review.turns:
        say(f"decided differently today: {', '.join(review.turns)}")
    verdict = plural(len(review.differences), "difference") if review.differences else "the same today"
    say(f"{plural(review.decisions, 'decision')}, {len(review.skipped)} skipped: {verdict}")
