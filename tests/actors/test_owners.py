"""Proof of being the owner of memory, and of having submitted a prompt."""

import json
from typing import Any

import attrs

from mnemosyne.actors.owners import PROMPT_SECONDS, MemoryClient, MemoryOwners
from mnemosyne.domain.session.events import SubmittedBlock
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.submitted import hash_prompt
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.memory_key import OWNER_HEADER, MemoryKey

KEY = MemoryKey(b"key")
SHOWN = (("x-api-key", "k"),)
FINGERPRINT = KEY.fingerprint("k")


def test_token_proves_ownership_for_its_own_request_only() -> None:
    owners = MemoryOwners(KEY)
    assert owners.find_client((*SHOWN, (OWNER_HEADER, KEY.token)), None) == MemoryClient(True, FINGERPRINT)
    assert owners.find_client(SHOWN, None) == MemoryClient(False, FINGERPRINT)
    assert owners.find_client((), "s") == MemoryClient(False, None)


def test_presented_session_proves_ownership_once() -> None:
    owners = MemoryOwners(KEY)
    owners.present("s")
    assert not owners.find_client(SHOWN, "other").is_owner
    assert not owners.find_client(SHOWN, None).is_owner
    assert owners.find_client(SHOWN, "s").is_owner
    assert not owners.find_client(SHOWN, "s").is_owner


PROMPT = "Use pnpm here.\n\n- never npm"
SUBMITTED = SubmittedBlock(message=0, block=1, interactive=True)


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def read(*messages: dict[str, Any]) -> Transcript:
    """A request with these messages."""
    return transcript.read(
        json.dumps({"model": "m", "messages": messages}).encode(), None, conversation="messages/main"
    ).transcript


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


REMINDER = f"<system-reminder>{PROMPT}</system-reminder>"


def vouched(clock: Clock | None = None, session: str = "s") -> MemoryOwners:
    """The owners after a hook vouched for the prompt in a session."""
    owners = MemoryOwners(KEY, clock or Clock())
    owners.present(session, hash_prompt(f"{PROMPT}\n"), interactive=True)
    return owners


def test_the_block_that_a_hook_vouched_for_is_submitted_once() -> None:
    owners = vouched()
    find = owners.vouch_in("s")
    assert [find(read(user(REMINDER, PROMPT))) for _ in range(2)] == [SUBMITTED] * 2
    assert owners.vouch_in("s")(read(user(REMINDER, PROMPT))) is None
    owners.present("s", hash_prompt(PROMPT))
    owners.present("s", hash_prompt(PROMPT))
    assert owners.vouch_in("s")(read(user(PROMPT))) == SubmittedBlock(message=0, block=0, interactive=False)
    assert owners.vouch_in("s")(read(user(PROMPT))) is None


def test_a_hash_belongs_to_its_session_and_expires() -> None:
    clock = Clock()
    owners = vouched(clock)
    assert owners.vouch_in("other")(read(user(PROMPT))) is None
    assert owners.vouch_in(None)(read(user(PROMPT))) is None
    clock.now = PROMPT_SECONDS
    assert owners.vouch_in("s")(read(user(PROMPT))) is None


def test_a_prompt_sent_in_the_middle_of_a_turn_is_submitted() -> None:
    """Claude Code puts it behind a result."""
    framed = (
        f"The user sent a new message while you were working:\n{PROMPT}\n\nThis is how Claude Code surfaces messages."
    )
    asked = [
        user("Go on"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
    ]
    result = {"type": "tool_result", "tool_use_id": "t", "content": framed}
    for text, found in ((framed, SUBMITTED), (f"x {framed}", None), (f"{framed}\n\nMore", None)):
        said = {"role": "user", "content": [result, {"type": "text", "text": text}]}
        submitted = vouched().vouch_in("s")(read(*asked, said))
        assert submitted == (found and attrs.evolve(found, message=2))


def test_only_a_new_text_of_the_user_can_be_submitted() -> None:
    """Results, reminders, the text of a command, replies and earlier messages with the same words cannot."""
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": PROMPT}
    said = {"role": "assistant", "content": [{"type": "text", "text": PROMPT}]}
    command = "<command-message>x</command-message>\n<command-name>/x</command-name>"
    for messages in (
        [user("Go on"), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}],
        [user(REMINDER)],
        [user(command, PROMPT)],
        [user(PROMPT), said, user("Go on")],
        [user("Go on"), said],
        [{"role": "system", "content": PROMPT}],
    ):
        assert vouched().vouch_in("s")(read(*messages)) is None
