"""A comparison of two sessions, or of a session and its named fork, counts for each only its own work."""

import json
from typing import Any

import attrs
import pytest

from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.services.comparing import read_comparison
from mnemosyne.services.forks import RecordedLine, find_line
from mnemosyne.services.timeline import TOKENS
from tests.not_none import not_none
from tests.services.answers import Answers
from tests.services.talking import Plain, assistant, body, talking, user


def row(branch: str, turn: int) -> dict[str, Any]:
    counts = {**dict.fromkeys(TOKENS), "input_tokens": 10, "output_tokens": 3}
    return {"branch": branch, "turn": turn, "attempt": 1, "began_at": turn, "ended_at": turn + 4, **counts}


def models(stream: object, *turns: tuple[str, int]) -> Answers:
    answers: dict[tuple[str, str], list[dict[str, Any]]] = {
        ("timeline", "find"): [{"stream": stream, "external_id": "s", "exact": True}],
        ("timeline", "session"): [{}],
        ("timeline", "turns"): [row(*each) for each in turns],
    }
    return Answers(answers)


async def test_sessions_are_compared_by_their_conversations_and_numbers(archive: Plain) -> None:
    said = [user("one"), assistant("Done."), user("two")]
    async with talking(archive, "a") as first, talking(archive, "b") as second:
        for talk, reply in ((first, "Done."), (second, "No.")):
            await talk.ask(body(said[:1]))
            await talk.ask(body(said), reply=reply)
        held = models(first.stream, ("main", 1), ("main", 2))
        found = await read_comparison(archive, held, "a", str(second.stream))
    assert (found.first.name, found.second.name, found.first.turns) == ("a", "b", 2)
    assert (found.first.prompt_tokens, found.first.reply_tokens, found.first.microseconds) == (20, 6, 5)
    apart = not_none(found.found.divergence)
    assert (apart.first and apart.first.turn, apart.difference.recorded, apart.difference.now) == (2, "Done.", "No.")


async def test_a_fork_under_its_own_name_counts_what_it_did_itself(archive: Plain) -> None:
    async with talking(archive, "a") as talk:
        await talk.ask(body([user("one")]), (SESSION_HEADER, "a"))
        for name, words in (("a", "two"), ("forked", "another two")):
            await talk.ask(body([user("one"), assistant("Done."), user(words)]), (SESSION_HEADER, name))
        rows = models(talk.stream, ("main", 1), ("main", 2), ("fork-1", 2))
        found = await read_comparison(archive, rows, "a", "forked")
    assert (found.first.branch, found.first.turns, found.second.branch, found.second.turns) == ("main", 2, "fork-1", 1)
    apart = not_none(found.found.divergence)
    assert (apart.first and apart.first.name, apart.difference.recorded, apart.difference.now) == (
        "prompt",
        "two",
        "another two",
    )


async def find_without_objects(archive: Plain, name: str) -> RecordedLine:
    """The line on a busy server, which has made no objects since the session's last requests."""
    line = await find_line(archive, name)
    return attrs.evolve(line, history=attrs.evolve(line.history, objects={}))


async def test_file_changed_by_the_last_calls_counts_without_objects(
    archive: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [
        {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {"file_path": f"/src/{name}.py", **more}}
        for name, more in (("Write", {"content": "x = 1\n"}), ("Read", {}))
    ]
    async with talking(archive, "a") as talk:
        address = await talk.ask(body([user("one")]), reply=None)
        raw = json.dumps({"id": "msg_1", "content": calls, "stop_reason": "tool_use", "usage": {}}).encode()
        await talk.finish_with(address, MESSAGES.read_reply(raw))
        found = await read_comparison(archive, models(talk.stream, ("main", 1)), "a", "a")
        results = [{"type": "tool_result", "tool_use_id": each["id"], "content": "done"} for each in calls]
        await talk.ask(
            body([user("one"), {"role": "assistant", "content": calls}, {"role": "user", "content": results}])
        )
        monkeypatch.setattr("mnemosyne.services.comparing.find_line", find_without_objects)
        later = await read_comparison(archive, models(talk.stream, ("main", 1)), "a", "a")
    assert found.first.files == later.first.files == ("/src/Write.py",)


async def test_a_message_without_content_changes_no_files(archive: Plain) -> None:
    """The provider refuses it, but it is recorded."""
    said = [user("one"), assistant("Done."), {"role": "user"}]
    async with talking(archive, "a") as talk:
        await talk.ask(body(said[:1]))
        await talk.ask(body(said))
        found = await read_comparison(archive, models(talk.stream, ("main", 1), ("main", 2)), "a", "a")
    assert found.first.files == ()
