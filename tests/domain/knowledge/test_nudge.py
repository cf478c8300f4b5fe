"""The nudge appears only if the user asks to remember something."""

import pytest

from mnemosyne.domain.knowledge.nudge import NUDGE, asks_to_remember
from mnemosyne.domain.knowledge.words import strip_private


@pytest.mark.parametrize(
    "prompt",
    [
        "Remember that we deploy on Fridays.",
        "please memorise: tabs of 4",
        "Keep in mind the port is 8443",
        "Don't forget the changelog",
        "don\N{RIGHT SINGLE QUOTATION MARK}t forget the changelog",
        "Never forget to run the tests",
        "fix it, and save this for later",
        "Make a note: Ann owns billing",
        "REMEMBER the port\n```\ncode\n```",
    ],
)
def test_requests_to_remember_are_detected(prompt: str) -> None:
    assert asks_to_remember(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Fix the tests",
        "What does `remember_me` do, and `remember`?",
        "```python\n# remember to close it\n```\nWhat is wrong here?",
        "Why does this fail?\n```\nremember the milk",
        "~~~\ndon't forget\n~~~",
        "<private>remember my password</private> go on",
        "[MEMORY]\n- remember the port\n[/MEMORY]\nGo on",
        "The rememberer is a class",
    ],
)
def test_code_private_parts_and_memory_blocks_trigger_no_nudge(prompt: str) -> None:
    assert not asks_to_remember(prompt)


def test_the_nudge_is_never_mistaken_for_the_users_text() -> None:
    assert strip_private(f"Go on.\n{NUDGE}").strip() == "Go on."
    assert not asks_to_remember(NUDGE)
