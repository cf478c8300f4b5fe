"""A redacted copy holds no credential, can be verified and imported, and equals a session without credentials."""

import io
import json
from pathlib import Path

import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.services.exporting import import_file, write_session
from mnemosyne.services.redacting import redact
from mnemosyne.services.verifying import verify
from tests.services.talking import IMPORTING, Talk, assistant, body, plain, rich_session, talking, user

KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
OTHER = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
PASSWORD = "correct-horse-battery"
NOTES = f"The notes begin. {'and they go on. ' * 30}export TOKEN={OTHER}\n{'and on. ' * 30}"


async def leaky(talk: Talk) -> None:
    """Keys in prompts, results and replies; one is sent in two steps, so that a change cuts it in two."""
    await talk.ask(body([user(f"My key is {KEY[:30]}")]), reply=None)
    await talk.ask(body([user(f"My key is {KEY}")]), reply=f"I will use {KEY}.")
    history = [user(f"My key is {KEY}"), assistant(f"I will use {KEY}."), user(NOTES)]
    await talk.ask(body(history), reply="Read.")
    await talk.ask(body([*history, assistant("Read."), user(f'{{"password": "{PASSWORD}"}}')]), reply="Noted.")


async def test_no_credential_remains_and_every_body_is_verified(tmp_path: Path) -> None:
    other, file = plain(), io.BytesIO()
    async with talking() as talk:
        await leaky(talk)
        written = await write_session(talk.archive, str(talk.stream), file, event_codec(), redact=True)
        events = await talk.archive.log.read(talk.stream)
    path = trio.Path(tmp_path / "s.jsonl")
    await path.write_bytes(file.getvalue())
    imported = await import_file(other, Path(path), event_codec(), IMPORTING)
    assert (imported.events, imported.added) == (len(events), len(events))
    assert (await verify(other, talk.stream)).verdict == "ok"
    held = b"".join(data for data in other.log._contents[talk.stream].values() if data is not None)
    stored = other.log.state_bytes(talk.stream)
    for secret in (KEY, KEY[13:30], KEY[30:], OTHER, PASSWORD):
        assert secret.encode() not in held
        assert secret.encode() not in stored
    assert b"My key is **" in held
    assert written.masked > 3


async def test_requests_keep_their_hash_and_size_and_objects_are_masked() -> None:
    async with talking() as talk:
        await leaky(talk)
        events = await talk.archive.log.read(talk.stream)
        copy = await redact(talk.archive.log, talk.stream, events)
    for before, after in zip(events, copy.events, strict=True):
        one, other = before.envelope.event, after.envelope.event
        if isinstance(one, TurnBegan) and isinstance(other, TurnBegan):
            assert (other.sha256, other.size) == (one.sha256, one.size)
            assert other.stored_sha256 not in (None, one.sha256)
    made = [each.envelope.event for each in copy.events if isinstance(each.envelope.event, ObjectCreated)]
    assert made
    assert not any(secret in repr(event) for event in made for secret in (KEY, OTHER))


async def test_a_session_without_credentials_is_copied_unchanged() -> None:
    plainly, redacted = io.BytesIO(), io.BytesIO()
    async with talking() as talk:
        await rich_session(talk)
        await write_session(talk.archive, str(talk.stream), plainly, event_codec())
        written = await write_session(talk.archive, str(talk.stream), redacted, event_codec(), redact=True)
    assert redacted.getvalue() == plainly.getvalue()
    assert written.masked == 0


async def test_contents_that_differ_only_in_a_credential_become_one() -> None:
    file = io.BytesIO()
    async with talking() as talk:
        for letter in "ab":
            await talk.ask(body([user(f"{'long ' * 100} {KEY[:-1]}{letter}")]))
        await write_session(talk.archive, str(talk.stream), file, event_codec(), redact=True)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    digests = [line["content"] for line in lines if "content" in line]
    assert len(digests) == len(set(digests)) == lines[0]["contents"]


async def test_the_log_itself_is_unchanged() -> None:
    async with talking() as talk:
        await talk.ask(body([user(f"Hello {KEY}")]))
        before = await talk.archive.log.read(talk.stream)
        await redact(talk.archive.log, talk.stream, before)
        assert await talk.archive.log.read(talk.stream) == before
        assert (await verify(talk.archive, talk.stream)).verdict == "ok"
