"""``mnemosyne statusline``: the status line of a client."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import count_text, dollars_text, percent_text, printable

ANSWER_SECONDS = 1.0
"""The time limit for the line; the client shows the previous line meanwhile."""

LARGEST_INPUT = 1024 * 1024


@click.command()
@log_options("host", "port", of_first_shard=True)
def statusline(**options: object) -> None:
    """Print one line about a session: its context and zone, cost and savings, last compaction, plan, repeated calls,
    budget, and the used share of a subscription. To show it in Claude Code, add to its settings:

    \b
      {"statusLine": {"type": "command", "command": "mnemosyne statusline"}}

    It reads Claude Code's input from stdin, asks the running server, and never fails.
    """
    config = configuration(options)
    from mnemosyne.app.discovery import ask_page, url_of

    session = _session(sys.stdin.read(LARGEST_INPUT) if not sys.stdin.isatty() else "")
    url = os.environ.get("ANTHROPIC_BASE_URL") or url_of(config)
    state = ask_page(url, f"/-/session/{session}/line.json", config, ANSWER_SECONDS) if session else None
    say(render(state) if isinstance(state, Mapping) else "mnemosyne: no data for this session")


def _session(given: str) -> str | None:
    """The session id in the client's input; None if it has no valid one."""
    try:
        data = json.loads(given)
    except (ValueError, RecursionError):
        return None
    session = data.get("session_id") if isinstance(data, dict) else None
    return session if isinstance(session, str) and session.replace("-", "").isalnum() else None


def render(state: Mapping[str, Any]) -> str:
    """The status line for the state from ``line.json``."""
    zone = f" ({printable(state['zone'])})" if state.get("zone") else ""
    parts = [f"context {count_text(state.get('context'))}{zone}"]
    if state.get("cost") is not None:
        saved = state.get("saved") or 0
        way = f", saved {dollars_text(saved)}" if saved > 0 else f", lost {dollars_text(-saved)}" if saved < 0 else ""
        parts.append(f"{dollars_text(state['cost'])}{way}")
    if state.get("rewritten"):
        parts.append(f"compacted at turn {state['rewritten']}")
    if state.get("plan"):
        parts.append(f"plan {printable(state['plan'])}")
    if state.get("repeated"):
        repeated = state["repeated"]
        parts.append(f"{printable(repeated['tool'])} called {repeated['times']} times with the same result")
    parts += [
        f"{dollars_text(used['spent'])} of {dollars_text(used['limit'])} ({printable(used['setting'])})"
        for used in state.get("budgets") or ()
    ]
    parts += [f"{printable(window['span'])} {percent_text(window['used'])}" for window in state.get("quota") or ()]
    return "mnemosyne: " + " | ".join(parts)
