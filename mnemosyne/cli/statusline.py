"""``mnemosyne statusline``: one line for a client that shows one."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import count_text, dollars_text, printable

ANSWER_SECONDS = 1.0
"""How long the line may take. A client that waits shows the one before."""

LARGEST_INPUT = 1024 * 1024


@click.command()
@log_options("host", "port")
def statusline(**options: object) -> None:
    """Say in one line how a session stands: its context and zone, what it cost and saved, when its history was last
    rewritten, how far its plan is, what its agent calls over and over, whether it cost more than
    session_budget_dollars, and what is used of a subscription. Claude Code shows it if its settings say so:

    \b
      {"statusLine": {"type": "command", "command": "mnemosyne statusline"}}

    It reads on stdin what Claude Code tells such a command, and asks the server that runs. Where there is nothing to
    say it says so, and never fails.
    """
    config = configuration(options)
    from mnemosyne.app.discovery import ask_page, url_of

    session = _session(sys.stdin.read(LARGEST_INPUT) if not sys.stdin.isatty() else "")
    url = os.environ.get("ANTHROPIC_BASE_URL") or url_of(config)
    told = ask_page(url, f"/-/session/{session}/line.json", config, ANSWER_SECONDS) if session else None
    say(render(told) if isinstance(told, Mapping) else "mnemosyne: no answer about this session")


def _session(given: str) -> str | None:
    """The id that the client tells; None where it tells none that could be one."""
    try:
        told = json.loads(given)
    except (ValueError, RecursionError):
        return None
    session = told.get("session_id") if isinstance(told, dict) else None
    return session if isinstance(session, str) and session.replace("-", "").isalnum() else None


def render(told: Mapping[str, Any]) -> str:
    """The line, from the page ``line.json``."""
    zone = f" ({printable(told['zone'])})" if told.get("zone") else ""
    parts = [f"context {count_text(told.get('context'))}{zone}"]
    if told.get("cost") is not None:
        saved = told.get("saved") or 0
        way = f", saved {dollars_text(saved)}" if saved > 0 else f", lost {dollars_text(-saved)}" if saved < 0 else ""
        parts.append(f"{dollars_text(told['cost'])}{way}")
    if told.get("rewritten"):
        parts.append(f"rewritten at turn {told['rewritten']}")
    if told.get("plan"):
        parts.append(f"plan {printable(told['plan'])}")
    if told.get("repeated"):
        again = told["repeated"]
        parts.append(f"{printable(again['tool'])} called {again['times']} times with the same answer")
    if told.get("passed"):
        parts.append(f"over its budget of {dollars_text(told['passed']['budget'])}")
    parts += [f"{printable(each['span'])} {each['used']:.0%}" for each in told.get("quota") or ()]
    return "mnemosyne: " + " | ".join(parts)
