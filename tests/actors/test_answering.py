"""What memory tools answer from a session's objects, and what is recorded of that."""

import json
from collections.abc import Collection
from typing import Any

import pytest
import trio
import trio.testing

from mnemosyne.actors.answering import INDEX_SECONDS, Answers, FromMemory
from mnemosyne.actors.bodies import Bodies
from mnemosyne.adapters.plain_log import PlainLog
from mnemosyne.domain.fidelity import Cause, Fidelity
from mnemosyne.domain.memory_object import FaultKind, ObjectDegraded, ObjectFaulted, ObjectReleased, ObjectRestored
from mnemosyne.domain.object_search import PassageHit, SearchResult, is_searched
from mnemosyne.domain.passages import Passage
from mnemosyne.domain.reply import HiddenCall
from mnemosyne.domain.session import Address, Event, Session, evolve
from mnemosyne.errors import LogUnavailable
from tests.actors.support import CODEC, STREAM, open_actor
from tests.domain.recorded import dumps

LOGIN = "def login(user):\n    return check(user, PASSWORD_FILE)\n" + "# nothing here\n" * 40
PORT = "server:\n  port: 8443\n  host: example.invalid\n" + "# a comment on the weather\n" * 40


def reading(*files: tuple[str, str]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Look at it."}]}]
    for number, (name, content) in enumerate(files):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": name}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": content}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return messages


class Asked:
    """A session in which two files were read and have left the window, and a way to ask it."""

    def __init__(self, log: PlainLog, state: Session) -> None:
        self.state = state
        self.log = log
        self.answering = FromMemory(Bodies(STREAM, log))
        self.address = Address("main", 9, 1)
        self.calls = 0

    async def __call__(self, name: str, **given: object) -> tuple[str, bool, tuple[Event, ...]]:
        self.calls += 1
        call = HiddenCall(f"c{self.calls}", name, json.dumps(given))
        answers: Answers = await self.answering.answer(self.state, self.address, [call], 5)
        (result,) = answers.results.values()
        block = json.loads(result)
        assert (block["type"], block["tool_use_id"]) == ("tool_result", call.id)
        return block["content"], block.get("is_error", False), answers.events

    def id_of(self, name: str) -> str:
        return next(each.id for each in self.state.memory.objects.values() if name in str(each.source_key))


async def asked(*, evicted: bool = True) -> Asked:
    log = PlainLog(CODEC)
    more = [{"role": "assistant", "content": "Seen."}, {"role": "user", "content": "Go on."}] * 4
    async with open_actor(log) as told:
        body = {"model": "claude-opus-5-5", "tools": [{"name": "Read"}]}
        messages = reading(("/src/login.py", LOGIN), ("/etc/server.yaml", PORT))
        await told.begin(raw=dumps({**body, "messages": messages}))
        await told.begin(raw=dumps({**body, "messages": [*messages, *more]}))
        await told.begin(raw=dumps({**body, "messages": [*messages, *more, *more]}))
        state = told.actor.state
    found = Asked(log, state)
    for each in state.memory.objects.values() if evicted else ():
        if each.places and each.source_tool == "Read":
            event = ObjectDegraded(
                at=4,
                object=each.id,
                branch="main",
                turn=3,
                before=Fidelity.FULL,
                after=Fidelity.STUB,
                cause=Cause.PRESSURE,
            )
            found.answering.note(event)
            found.state = evolve(found.state, event)
    return found


async def test_a_question_is_answered_word_for_word_with_a_place_that_holds_the_words() -> None:
    ask = await asked()
    text, failed, events = await ask("memory_query", question="which port does the server listen on?")
    assert not failed
    assert "port: 8443" in text
    assert f"#{ask.id_of('server.yaml')}" in text
    (fault,) = [event for event in events if isinstance(event, ObjectFaulted)]
    assert (fault.kind, fault.object, fault.branch, fault.turn) == (
        FaultKind.MICRO,
        ask.id_of("server.yaml"),
        "main",
        9,
    )
    nothing, failed, events = await ask("memory_query", question="zebra migration routes?")
    assert not failed
    assert "port" not in nothing
    assert events == ()


async def test_a_restore_brings_the_whole_text_once() -> None:
    ask = await asked()
    wanted = ask.id_of("login.py")
    text, failed, events = await ask("memory_restore", object_id=f"#{wanted}", reason="to edit it")
    assert not failed
    assert LOGIN.strip() in text
    assert [type(event) for event in events] == [ObjectFaulted, ObjectRestored]
    for event in events:
        ask.answering.note(event)
        ask.state = evolve(ask.state, event)
    text, failed, events = await ask("memory_restore", object_id=wanted, reason="again")
    assert failed
    assert "in full" in text
    assert events == ()


async def test_two_calls_of_one_round_know_of_each_other() -> None:
    ask = await asked()
    given = json.dumps({"object_id": ask.id_of("login.py"), "reason": "r"})
    calls = [HiddenCall(name, "memory_restore", given) for name in ("a", "b")]
    answers = await ask.answering.answer(ask.state, ask.address, calls, 5)
    assert ["is_error" in json.loads(result) for result in answers.results.values()] == [False, True]


async def test_a_turn_gets_three_objects_or_answers_and_the_next_turn_three_more() -> None:
    ask = await asked()
    for _ in range(3):
        assert not (await ask("memory_query", question="which port does the server listen on?"))[1]
    assert (await ask("memory_query", question="which port does the server listen on?"))[1]
    ask.answering.over(ask.address)
    assert not (await ask("memory_query", question="which port does the server listen on?"))[1]


async def test_a_search_names_objects_and_changes_nothing() -> None:
    ask = await asked()
    text, failed, events = await ask("memory_search", query="login password")
    assert not failed
    assert text.index(f"#{ask.id_of('login.py')}")
    assert f"#{ask.id_of('server.yaml')}" not in text
    assert events == ()


async def test_what_is_released_is_on_record() -> None:
    ask = await asked(evicted=False)
    _, failed, events = await ask("memory_release", object_ids=[ask.id_of("login.py"), "nowhere"], reason="done")
    assert not failed
    assert [event.object for event in events if isinstance(event, ObjectReleased)] == [ask.id_of("login.py")]


async def test_what_cannot_be_read_is_said_and_nothing_fails() -> None:
    ask = await asked()
    ask.answering = FromMemory(Bodies(STREAM, PlainLog(CODEC)))
    text, failed, events = await ask("memory_restore", object_id=ask.id_of("login.py"), reason="r")
    assert failed
    assert "cannot be read" in text
    assert events == ()
    text, failed, _ = await ask("memory_restore", object_id=3)
    assert failed


# With an index of objects


class Index:
    """An index that answers what it was told to, and remembers what it was asked."""

    def __init__(self, answer: SearchResult | Exception | None) -> None:
        self.answer = answer
        self.among: set[str] = set()

    async def __call__(self, question: str, among: Collection[str], limit: int) -> SearchResult:
        self.among = set(among)
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


async def asked_with(index: Index) -> Asked:
    ask = await asked()
    ask.answering = FromMemory(Bodies(STREAM, ask.log), index)
    return ask


def hits(*found: tuple[str, int, int]) -> SearchResult:
    return SearchResult(hits=[PassageHit(name, Passage(*span), 1.0) for name, *span in found], relevant=True)


async def test_what_the_index_finds_is_quoted_from_the_object_itself() -> None:
    index = Index(None)
    ask = await asked_with(index)
    wanted = ask.id_of("login.py")
    index.answer = hits((wanted, 0, 70))
    text, failed, events = await ask("memory_query", question="who may enter?")  # not one word of it is in the file
    assert not failed
    assert "def login(user):" in text
    assert f"#{wanted} bytes " in text
    assert [event.object for event in events if isinstance(event, ObjectFaulted)] == [wanted]
    assert index.among == {each.id for each in ask.state.memory.objects.values() if each.places and is_searched(each)}
    text, _, _ = await ask("memory_search", query="who may enter?")
    assert f"#{wanted}" in text


async def test_nothing_relevant_in_the_index_is_no_answer() -> None:
    ask = await asked_with(Index(SearchResult()))
    text, failed, events = await ask("memory_query", question="which port does the server listen on?")
    assert (failed, events) == (False, ())
    assert "Nothing that is remembered" in text


@pytest.mark.parametrize(
    "answer", [None, LogUnavailable("away"), SearchResult(missing=1)], ids=["late", "away", "behind"]
)
async def test_without_an_answer_of_the_index_in_time_the_words_decide(
    answer: SearchResult | Exception | None, autojump_clock: trio.testing.MockClock
) -> None:
    ask = await asked_with(Index(answer))
    began = trio.current_time()
    text, failed, _ = await ask("memory_query", question="which port does the server listen on?")
    assert not failed
    assert "port: 8443" in text
    assert trio.current_time() - began <= INDEX_SECONDS
