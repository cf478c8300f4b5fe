"""The limits in a reply's headers are read, and no other header is."""

import pytest

from mnemosyne.domain.wire.limits import WindowUse, limits_of, window_use

UNIFIED = "anthropic-ratelimit-unified"


def head(**values: str) -> list[tuple[bytes, bytes]]:
    return [(f"{UNIFIED}-{name.replace('_', '-')}".encode(), value.encode()) for name, value in values.items()]


def test_the_windows_of_a_subscription_are_read_and_no_other_header() -> None:
    headers = [
        (b"Anthropic-Ratelimit-Unified-5h-Utilization", b"0.42"),
        *head(**{"5h_reset": "1790010000", "5h_status": "allowed", "7d_utilization": "1.02", "status": "rejected"}),
        (b"anthropic-organization-id", b"org"),
        (b"set-cookie", b"secret"),
    ]
    limits = limits_of(headers)
    assert sorted(limits) == ["5h-reset", "5h-status", "5h-utilization", "7d-utilization"]
    assert window_use(limits, "5h") == WindowUse(used=420_000, reset=1_790_010_000_000_000, status="allowed")
    assert window_use(limits, "7d") == WindowUse(used=1_020_000, reset=None, status=None)


@pytest.mark.parametrize("value", ["", "nan", "1e9", "-1", "0.1; drop", "9" * 50, "\u00e9"])
def test_a_value_that_is_not_a_number_is_none(value: str) -> None:
    limits = limits_of(head(**{"5h_utilization": value, "5h_reset": value}))
    assert window_use(limits, "5h") == WindowUse(used=None, reset=None, status=None)


def test_the_windows_of_a_chatgpt_plan_are_read_by_their_length() -> None:
    headers = [
        (b"x-codex-primary-used-percent", b"64.5"),
        (b"x-codex-primary-window-minutes", b"10079"),
        (b"x-codex-primary-reset-at", b"1790010000"),
        (b"x-codex-secondary-used-percent", b"12"),
        (b"x-codex-secondary-window-minutes", b"300"),
        (b"x-codex-plan-type", b"plus"),
    ]
    limits = limits_of(headers, "1f2e")
    assert window_use(limits, "7d") == WindowUse(used=645_000, reset=1_790_010_000_000_000, status=None)
    assert window_use(limits, "5h") == WindowUse(used=120_000, reset=None, status=None)
    assert limits["account"] == "1f2e"


def test_a_reply_without_limits_names_no_account() -> None:
    assert limits_of([(b"content-type", b"text/plain")], "1f2e") == {}
