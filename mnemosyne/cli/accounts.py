"""Sentences and JSON for the entries of the ledger."""

from collections.abc import Mapping, Sequence
from typing import Any

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.ledger import equivalents
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.figures import count_text, dollars, dollars_text, iso_time, local_time, plural, printable
from mnemosyne.services.savings import Balance
from mnemosyne.services.unstructuring import members
from mnemosyne.services.usage import QuotaWindow


def render_saving(balance: Balance) -> str:
    """``$1.20 (31 %) saved``, ``$0.02 (1 %) lost``, ``nothing``."""
    amount = balance.nanodollars_saved
    if not balance.managed or not amount:
        return "nothing"
    share = f" ({abs(amount) / balance.nanodollars_unmanaged:.0%})" if balance.nanodollars_unmanaged else ""
    return f"{dollars_text(abs(amount))}{share} {'saved' if amount > 0 else 'lost'}"


def balance_as_json(balance: Balance) -> dict[str, Any]:
    """A balance as JSON. Amounts in tokens of uncached input are rounded."""
    amounts = {"dollars": "nanodollars", "dollars_unmanaged": "nanodollars_unmanaged"}
    amounts["dollars_saved"] = "nanodollars_saved"
    return {
        **members(balance, "turns deviates", managed_turns="managed", assumed_turns="assumed"),
        "unpriced_models": sorted(balance.unknown),
        **members(balance, unpriced_turns="unpriced", simulated_compactions="compacted"),
        **members(balance, tokens_sent="actual.prompt", tokens_unmanaged="shadow.prompt"),
        "billed": round(balance.billed),
        "billed_unmanaged": round(balance.unmanaged),
        "billed_expected": round(balance.expected),
        **{key: dollars(getattr(balance, name)) if balance.is_priced else None for key, name in amounts.items()},
    }


def quota_lines(windows: Sequence[QuotaWindow], names: Mapping[Any, str]) -> list[str]:
    """One line for each quota window: its usage and reset time, then the sessions that used most of it."""
    lines = []
    for window in windows:
        resets = f", resets {local_time(window.reset)}" if window.reset is not None else ""
        state = f" ({printable(window.status)})" if window.status else ""
        lines.append(f"{_SPANS[window.span]}: {window.used:.1%} used{state}{resets}")
        for stream, share in sorted(window.taken.items(), key=lambda item: -item[1])[:QUOTA_SHOWN]:
            name = f"{str(stream)[:8]} {printable(names.get(stream, ''))}".rstrip()
            lines.append(f"  {share:.1%} by {name}")
    return lines


def quota_as_json(windows: Sequence[QuotaWindow]) -> list[dict[str, Any]]:
    """The quota windows as JSON; ``taken`` maps a session id to its share."""
    return [
        {
            **members(window, "used status taken", window="span"),
            "reset_at": None if window.reset is None else iso_time(window.reset),
            "seen_at": iso_time(window.at),
        }
        for window in windows
    ]


QUOTA_SHOWN = 5
"""Number of sessions in the text output: those that used most."""

_SPANS = {"5h": "Subscription, five hours", "7d": "Subscription, seven days"}


def account_of(event: TurnAccounted) -> Sequence[str]:
    """Sentences about the tokens and the cost of one turn."""
    basis = (
        "estimated from the rules of the provider's cache, because the provider reported no complete or plausible usage"
        if event.assumed
        else "as billed"
    )
    rounds = f" in {plural(event.rounds, 'round')}" if event.rounds > 1 else ""
    sentences = [f"It used {_tokens(event.actual)}{rounds}, {basis}."]
    if event.mode is Mode.OBSERVE:
        sentences.append("The client's request was sent unchanged: nothing was saved or lost.")
    else:
        billed, unmanaged = (equivalents(tokens, event.model) for tokens in (event.actual, event.shadow))
        way = "less" if billed <= unmanaged else "more"
        difference = count_text(abs(round(unmanaged - billed)))
        sentences.append(
            f"Without the proxy it would have used {_tokens(event.shadow)}: it cost {difference} {way} in input tokens."
        )
    if event.compacted:
        sentences.append("Without the proxy the client would have compacted its history here.")
    if event.deviates:
        sentences.append("The provider billed considerably more than the rules of its cache predict.")
    return sentences


def _tokens(tokens: Tokens) -> str:
    parts = {
        "read from the cache": tokens.read,
        "written to it": tokens.write_5m + tokens.write_1h,
        "of uncached input": tokens.input,
        "of output": tokens.output,
    }
    texts = [f"{count_text(count)} {name}" for name, count in parts.items() if count]
    return ", ".join(texts) or "nothing"
