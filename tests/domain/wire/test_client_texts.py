"""Clients insert texts in the user's messages; they are recognized by how they begin, and only by that."""

import pytest

from mnemosyne.domain.wire.client_texts import InsertedText, find_inserted, is_reminder, wraps_answer


@pytest.mark.parametrize(
    ("text", "inserted"),
    [
        ("<system-reminder>x</system-reminder>", InsertedText.NOTE),
        ('\n <Teammate-Message teammate_id="lead">x</teammate-message>', InsertedText.NOTE),
        ("Another Claude session sent a message:\nx", InsertedText.NOTE),
        ("<command-message>review</command-message>", InsertedText.COMMAND),
        ("<command-name>/model</command-name>", InsertedText.NOTE),
        ("<BASH-STDOUT>x</BASH-STDOUT>", InsertedText.OUTPUT),
        ("<task-notification>x</task-notification>", InsertedText.REPORT),
        ("This  session is being\ncontinued from a previous conversation.", InsertedText.SUMMARY),
        ("Base directory for this skill: /x", InsertedText.SKILL),
        ("Please look at <system-reminder>.", None),
        ("<command-messages>x</command-messages>", None),
        ("<environment>x</environment>", None),
        ("<", None),
        ("", None),
    ],
)
def test_inserted_text_is_recognized_by_its_first_words(text: str, inserted: InsertedText | None) -> None:
    assert find_inserted(text) is inserted


def test_reminder_is_a_system_message_or_consists_of_one_element() -> None:
    reminder = " <system-reminder>Use tabs.</system-reminder>\n"
    assert is_reminder("system", "Use tabs.")
    assert is_reminder("user", reminder)
    assert not is_reminder("user", f"{reminder} Go on.")
    assert not is_reminder("assistant", reminder)


@pytest.mark.parametrize(
    ("line", "wraps"),
    [
        ("<returncode>0</returncode>", True),
        ("agentId: a1b2", True),
        ("(Open file: /src/a.py)", True),
        ("<returncode>1</returncode> of make", False),
        ("<error>no such file</error>", False),
        ("The output ended.", False),
    ],
)
def test_lines_around_an_answer_are_not_part_of_it(line: str, wraps: bool) -> None:
    assert wraps_answer(line) is wraps
