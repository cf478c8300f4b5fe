"""A session is forked after a complete reply, under the client's name for it."""

import json
from typing import Any

import attrs
import pytest

from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services import checkpoints
from mnemosyne.services.forgetting import forget
from mnemosyne.services.forks import find_fork_point
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.sessions import read_history
from tests.services.talking import TOOLS, assistant, body, talking, user


async def test_a_fork_continues_from_the_last_complete_reply_up_to_its_turn() -> None:
    async with talking() as talk:
        said = [user("one")]
        await talk.ask(body(said))
        said += [assistant("Done."), user("two")]
        await talk.ask(body(said))
        said += [assistant("Done."), user("three")]
        await talk.interrupt(await talk.ask(body(said), reply=None), "the client left")
        name = "a client's session"
        first = await find_fork_point(talk.archive, name, 1)
        assert (first.session, first.turn, first.message_id) == (name, 1, "msg_1")
        for turn in (2, 3, None):
            found = await find_fork_point(talk.archive, str(talk.stream)[:8], turn)
            assert (found.message_id, found.turn, found.wanted) == ("msg_2", 2, turn or 3)
            assert (found.request["messages"], found.reply["content"][0]["text"]) == (said[:-2][:3], "Done.")
        for turn in (0, 4):
            with pytest.raises(NotFound, match=f"has turns 1 to 3, and not {turn}"):
                await find_fork_point(talk.archive, name, turn)
        with pytest.raises(NotFound, match="There is no session"):
            await find_fork_point(talk.archive, "another", None)


async def test_unnamed_or_deleted_session_cannot_be_forked() -> None:
    async with talking(name="chain:abc") as talk:
        await talk.ask(body([user("one")]))
        with pytest.raises(NotFound, match="gave it no id"):
            await find_fork_point(talk.archive, str(talk.stream), None)
    async with talking() as talk:
        await talk.ask(body([user("one")]))
        await forget(talk.archive, talk.stream, lambda: 9, "c")
        with pytest.raises(ContentForgotten, match="was forgotten"):
            await find_fork_point(talk.archive, str(talk.stream), None)


async def test_a_fork_of_a_running_fork_continues_from_the_last_complete_reply_before_both() -> None:
    async with talking() as talk:
        said = [user("one"), assistant("Done."), user("two")]
        await talk.ask(body(said[:1]))
        await talk.ask(body(said))
        await talk.ask(body([*said[:2], user("another two")]), reply=None)
        branch, turn, _ = attrs.astuple(list(talk.sent)[-1])
        assert (branch, turn) == ("fork-1", 2)
        stamp = WriteStamp(9, "c")
        await checkpoints.name(talk.archive, str(talk.stream), "here", branch=branch, turn=turn, stamp=stamp)
        found = await find_fork_point(talk.archive, str(talk.stream), "here")
        assert (found.turn, found.request["messages"]) == (1, said[:1])


def say(words: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}


def call(name: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"}


def result(name: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": name}


async def test_a_reply_with_calls_is_a_fork_point_once_all_are_answered() -> None:
    async with talking() as talk:
        asked = [user("one")]
        steps: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
            ([say("Done.")], [user("more")]),
            ([call("a"), call("b")], [result("a"), result("b"), user("and now?")]),
            ([call("c"), call("d")], [result("c"), user("stop")]),
            ([call("e")], []),
        ]
        for number, (output, then) in enumerate(steps, 1):
            request = json.dumps({"model": "gpt-5.5", "input": asked, "tools": TOOLS}).encode()
            address = await talk.ask(request, reply=None, dialect=RESPONSES)
            answer = {"id": f"resp_{number}", "status": "completed", "output": output}
            await talk.finish_with(address, RESPONSES.read_reply(json.dumps(answer).encode()))
            asked = [*asked, *output, *then]
        times = [each.began.at for each in (await read_history(talk.archive, str(talk.stream)))[1].attempts]
        for at in (None, 2, 3, "a", "b"):
            found = await find_fork_point(talk.archive, str(talk.stream), at)
            assert (found.turn, found.message_id, found.calls) == (2, "resp_2", ("a", "b"))
            assert [*found.results] == [result("a"), result("b")]
            assert found.reached == times[2], "the request with the results"
        found = await find_fork_point(talk.archive, str(talk.stream), 1)
        assert (found.calls, found.reached) == ((), times[0])
        for unanswered in ("d", "e"):
            with pytest.raises(NotFound, match="no result for each call"):
                await find_fork_point(talk.archive, str(talk.stream), unanswered)
        with pytest.raises(NotFound, match="no call with this id"):
            await find_fork_point(talk.archive, str(talk.stream), "z")
