"""A session is titled by its user's first words, whatever its client puts before them."""

import pytest

from mnemosyne.domain.segmentation.titles import LONGEST, title_of
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from tests.not_none import not_none


def title(*messages: object) -> str | None:
    body = {"model": "claude-opus-4-5", "max_tokens": 9, "messages": list(messages)}
    return title_of(body, MESSAGES)


def user(*texts: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user("Repair the parser.")], "Repair the parser."),
        ([{"role": "user", "content": "Repair\n the   parser."}], "Repair the parser."),
        ([user("<system-reminder>Be brief.</system-reminder>", "Repair the parser.")], "Repair the parser."),
        ([{"role": "assistant", "content": "Hello."}, user("Repair it.")], "Repair it."),
        ([user('"Repair it."')], "Repair it."),
        ([user("<div> is broken\nin the page")], "<div> is broken in the page"),
        ([user('"Repair" it.')], '"Repair" it.'),
        ([user("<system-reminder>Be brief.</system-reminder>")], None),
        (
            [user("<command-message>review</command-message>\n<command-name>/review</command-name>", "# Review it")],
            None,
        ),
        ([user("<teammate-message teammate_id='lead'>\nRepair it.</teammate-message>")], None),
        ([user("Another Claude session sent a message:\nRepair it."), user("Repair both.")], "Repair both."),
        ([], None),
    ],
)
def test_the_first_words_of_the_user_are_the_title(messages: list[object], expected: str | None) -> None:
    assert title(*messages) == expected


ENVIRONMENT = "<environment_context>\n  <cwd>/home/ada/app</cwd>\n  <shell>bash</shell>\n</environment_context>"


def _item(text: str, *kinds: str) -> dict[str, object]:
    about = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": list(kinds)}} if kinds else {}
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], **about}


@pytest.mark.parametrize(
    "opening",
    [
        [_item(ENVIRONMENT, "environments.environment_context")],
        [_item(ENVIRONMENT)],
        [
            _item("# AGENTS.md instructions for /home/ada/app\n\nUse tabs.", "agents_md.instructions"),
            _item(ENVIRONMENT),
        ],
        [_item("Words that a hook added.", "hooks.additional_context")],
        [{"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}],
    ],
)
def test_codex_sessions_are_titled_by_typed_text_and_not_by_codexs_additions(opening: list[object]) -> None:
    for typed in (_item("Repair the parser.", "user.text"), _item("Repair the parser.")):
        assert title_of({"input": [*opening, typed, {"type": "configuration_update"}]}, RESPONSES) == (
            "Repair the parser."
        )


def test_a_title_is_one_short_line() -> None:
    shortened = not_none(title(user("word " * 100)))
    assert len(shortened) <= LONGEST
    assert shortened.endswith("word…")
