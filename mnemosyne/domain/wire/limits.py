"""Read the usage limits of a subscription from a reply's headers: how much of the last five hours and seven days is
used.

Observed for requests of Claude Code after a login; Codex's are in its source. No other header of a reply is recorded.
"""

import re
from collections.abc import Iterable, Mapping

import attrs

WINDOWS = ("5h", "7d")
ACCOUNT = "account"
"""The key, among the limits, of the digest of the account that they belong to."""

_NAME = re.compile(rb"anthropic-ratelimit-unified-((?:5h|7d)-(?:utilization|reset|status))")
_CODEX = re.compile(rb"x-codex-((?:primary|secondary)-(?:used-percent|window-minutes|reset-at))")
_VALUE = re.compile(rb"[A-Za-z0-9_.:+-]{1,40}")
_SHARE = re.compile(r"\d{1,3}(?:\.\d{1,12})?")
_SECONDS = re.compile(r"\d{1,11}")
_MINUTES = {"5h": range(290, 311), "7d": range(10_000, 10_161)}
"""Codex names the length of a window, in minutes: 300 or 299, 10080 or 10079."""

PARTS = 1_000_000
"""The use of a window is counted in millionths."""


@attrs.frozen(kw_only=True)
class WindowUse:
    """How much of a window is used, in millionths; when it resets, in µs of UTC; and the provider's status word for
    whether more is allowed. None where the reply has no such header.
    """

    used: int | None
    reset: int | None
    status: str | None


def limits_of(headers: Iterable[tuple[bytes, bytes]], account: str | None = None) -> dict[str, str]:
    """Return the limits in a reply's headers, by ``5h-utilization``, ``5h-reset``, ``5h-status`` and the same for
    ``7d``; with the account that they belong to, if there are any.
    """
    limits: dict[str, str] = {}
    codex: dict[str, str] = {}
    for name, value in headers:
        for pattern, found in ((_NAME, limits), (_CODEX, codex)):
            match = pattern.fullmatch(name.lower())
            if match is not None and _VALUE.fullmatch(value.strip()):
                found.setdefault(match[1].decode(), value.strip().decode())
    for place in ("primary", "secondary"):
        used, minutes = codex.get(f"{place}-used-percent", ""), codex.get(f"{place}-window-minutes", "")
        for span, lengths in _MINUTES.items():
            if _SHARE.fullmatch(used) and _SECONDS.fullmatch(minutes) and int(minutes) in lengths:
                limits.setdefault(f"{span}-utilization", f"{float(used) / 100:.6f}")
                limits.setdefault(f"{span}-reset", codex.get(f"{place}-reset-at", ""))
    return {**limits, ACCOUNT: account} if limits and account is not None else limits


def window_use(limits: Mapping[str, str], window: str) -> WindowUse:
    """Convert the limits of one of WINDOWS to numbers."""
    share, reset = limits.get(f"{window}-utilization", ""), limits.get(f"{window}-reset", "")
    return WindowUse(
        used=round(float(share) * PARTS) if _SHARE.fullmatch(share) else None,
        reset=int(reset) * 1_000_000 if _SECONDS.fullmatch(reset) else None,
        status=limits.get(f"{window}-status"),
    )
