"""The memory tools' answers from a session's objects, and their events."""

import json
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
import trio.testing

from mnemosyne.actors import texts
from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.texts import MOST_COMPARED, ObjectTexts
from mnemosyne.actors.tools import Answers, CallContext, MemoryToolExecutor
from mnemosyne.domain.objects.aggregate import is_searched
from mnemosyne.domain.objects.events import Admission, FaultKind, ObjectFaulted, ObjectReleased, ObjectRestored
from mnemosyne.domain.objects.faults import LIMITS, RecallBudget
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import ContentStore
from mnemosyne.domain.recall.memory_results import NOT_NOW
from mnemosyne.domain.recall.object_search import PassageHit, SearchResult
from mnemosyne.domain.recall.retrieval import ANSWERS
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.text.passages import Passage
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.reply import HiddenCall
from mnemosyne.errors import LogUnavailable
from tests.actors.support import CODEC, STREAM, open_actor
from tests.domain.recorded import dumps
from tests.domain.remembered import degraded
from tests.plain.log import PlainLog

LOGIN = "def login(user):\n    return check(user, PASSWORD_FILE)\n" + "# nothing here\n" * 40
PORT_QUESTION = "which port does the server listen on?"
PORT = "server:\n  port: 8443\n  host: example.invalid\n" + "# a comment on the weather\n" * 40


def reading(*files: tuple[str, str]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Look at it."}]}]
    for number, (name, content) in enumerate(files):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": name}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": content}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return messages


class Executor:
    """Executes rounds of calls with these services."""

    def __init__(self, bodies: Bodies, outside: ActorServices) -> None:
        self.texts, self.outside = ObjectTexts(bodies, outside), outside

    async def __call__(self, asked: "Asked", calls: Sequence[HiddenCall], room: int | None = None) -> Answers:
        context = CallContext(at=5, budget=asked.budget, room=room)
        return await MemoryToolExecutor(self.texts, self.outside, asked.state, asked.address, context).answer(calls)


class Asked:
    """A session in which two files were read and evicted, and a way to call the tools."""

    def __init__(self, log: PlainLog, state: Session) -> None:
        self.state = state
        self.log = log
        self.answering = Executor(Bodies(STREAM, log, log), ActorServices())
        self.address = Address("main", 9, 1)
        self.budget = RecallBudget()
        self.calls = 0

    async def __call__(self, name: str, **given: object) -> tuple[str, bool, tuple[Event, ...]]:
        self.calls += 1
        call = HiddenCall(f"c{self.calls}", name, json.dumps(given))
        answers: Answers = await self.answering(self, [call])
        self.budget = answers.budget
        (result,) = answers.results.values()
        block = json.loads(result)
        assert (block["type"], block["tool_use_id"]) == ("tool_result", call.id)
        return block["content"], block.get("is_error", False), answers.events

    def id_of(self, name: str) -> str:
        return next(each.id for each in self.state.memory.objects.values() if name in str(each.source_key))


async def asked(*, evicted: bool = True, login: str = LOGIN) -> Asked:
    log = PlainLog(CODEC)
    more = [{"role": "assistant", "content": "Seen."}, {"role": "user", "content": "Go on."}] * 4
    async with open_actor(log) as teller:
        body = {"model": "claude-opus-5-5", "tools": [{"name": "Read"}]}
        messages = reading(("/src/login.py", login), ("/etc/server.yaml", PORT))
        await teller.begin(raw=dumps({**body, "messages": messages}))
        await teller.begin(raw=dumps({**body, "messages": [*messages, *more]}))
        await teller.begin(raw=dumps({**body, "messages": [*messages, *more, *more]}))
        state = teller.actor.state
    found = Asked(log, state)
    for each in state.memory.objects.values() if evicted else ():
        if each.places and each.source_tool == "Read":
            found.state = evolve(found.state, degraded(each.id, Fidelity.STUB, 3))
    return found


@pytest.fixture
async def ask() -> Asked:
    return await asked()


async def test_query_is_answered_verbatim_with_a_correct_location(ask: Asked) -> None:
    text, failed, events = await ask("memory_query", question=PORT_QUESTION)
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


async def test_an_object_is_restored_in_full_once(ask: Asked) -> None:
    wanted = ask.id_of("login.py")
    text, failed, events = await ask("memory_restore", object_id=f"#{wanted}", reason="to edit it")
    assert not failed
    assert LOGIN.strip() in text
    assert [type(event) for event in events] == [ObjectFaulted, ObjectRestored]
    for event in events:
        ask.state = evolve(ask.state, event)
    text, failed, events = await ask("memory_restore", object_id=wanted, reason="again")
    assert failed
    assert "in full" in text
    assert events == ()


async def test_calls_of_one_round_see_each_other_s_effects(ask: Asked) -> None:
    given = json.dumps({"object_id": ask.id_of("login.py"), "reason": "r"})
    calls = [HiddenCall(name, "memory_restore", given) for name in ("a", "b")]
    answers = await ask.answering(ask, calls)
    assert ["is_error" in json.loads(result) for result in answers.results.values()] == [False, True]


async def test_repeated_early_request_sees_nothing_of_later_turns() -> None:
    """Two conversations may begin with the same messages, and are indistinguishable then."""
    later = [{"role": "assistant", "content": "It is this."}, {"role": "user", "content": f"Keep it: {PORT}"}]
    log = PlainLog(CODEC)
    async with open_actor(log) as teller:
        body = {"model": "claude-opus-5-5", "tools": [{"name": "Read"}]}
        messages = reading(("/src/login.py", LOGIN))
        for sent in (messages[:1], messages, [*messages, *later]):
            await teller.begin(raw=dumps({**body, "messages": sent}))
        ask = Asked(log, teller.actor.state)
    wanted = ask.id_of("login.py")
    for turn, is_within_reach in ((1, False), (2, True), (3, True)):
        ask.address = Address("main", turn, 2)
        ask.state = evolve(ask.state, degraded(wanted, Fidelity.STUB, 3))
        ask.budget = RecallBudget()
        restored, _, events = await ask("memory_restore", object_id=wanted, reason="r")
        assert ("PASSWORD_FILE" in restored, bool(events)) == (is_within_reach, is_within_reach)
        for call in (
            {"name": "memory_query", "question": "login user check password"},
            {"name": "memory_search", "query": "login password"},
        ):
            text, _, events = await ask(**call)
            assert (wanted in text or "PASSWORD_FILE" in text) is is_within_reach
            assert "8443" not in text or turn == 3
            assert is_within_reach or events == ()


async def test_release_is_recorded() -> None:
    ask = await asked(evicted=False)
    _, failed, events = await ask("memory_release", object_ids=[ask.id_of("login.py"), "nowhere"], reason="done")
    assert not failed
    assert [event.object for event in events if isinstance(event, ObjectReleased)] == [ask.id_of("login.py")]


async def test_unreadable_content_is_reported_without_failing(ask: Asked) -> None:
    ask.answering = Executor(Bodies(STREAM, PlainLog(CODEC), PlainLog(CODEC)), ActorServices())
    text, failed, events = await ask("memory_restore", object_id=ask.id_of("login.py"), reason="r")
    assert failed
    assert "cannot be read" in text
    assert events == ()
    text, failed, _ = await ask("memory_restore", object_id=3)
    assert failed


# With an object index


class Index:
    """An index with a scripted answer that records its questions; to those that need no answer it has ``related``."""

    def __init__(self, answer: SearchResult | Exception | None) -> None:
        self.answer = answer
        self.related: SearchResult | None = None
        self.among: set[str] = set()

    async def __call__(self, question: str, among: Collection[str], limit: int, least: float) -> SearchResult:
        self.among = set(among)
        if least < ANSWERS and self.related is not None:
            return self.related
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


async def asked_with(index: Index, login: str = LOGIN) -> Asked:
    ask = await asked(login=login)
    ask.answering = Executor(Bodies(STREAM, ask.log, ask.log), ActorServices(index))
    return ask


def hits(*found: tuple[str, int, int]) -> SearchResult:
    return SearchResult(passages=[PassageHit(name, Passage(*span), 1.0) for name, *span in found])


async def test_index_hit_is_quoted_from_the_object_itself() -> None:
    index = Index(None)
    ask = await asked_with(index)
    wanted = ask.id_of("login.py")
    index.answer = hits((wanted, 0, 70))
    text, failed, events = await ask("memory_query", question="which user logs in with a password?")
    assert not failed
    assert "def login(user):" in text
    assert f"#{wanted} bytes " in text
    assert [event.object for event in events if isinstance(event, ObjectFaulted)] == [wanted]
    assert index.among == {each.id for each in ask.state.memory.objects.values() if each.places and is_searched(each)}
    text, _, _ = await ask("memory_search", query="which user logs in with a password?")
    (line,) = [line for line in text.splitlines() if f"#{wanted}" in line]
    assert line.endswith("relevance 100 %")


async def test_uncertain_passages_are_shown_as_such_at_a_cost_and_are_no_fault() -> None:
    index = Index(None)
    ask = await asked_with(index)
    index.answer, index.related = SearchResult(), hits((ask.id_of("login.py"), 0, 70))
    text, failed, events = await ask("memory_query", question="which doors lead in?")
    assert (failed, events) == (False, ())
    assert text.startswith("Not in memory, as far as words and meaning tell.")
    assert "def login(user):" in text
    assert "left in this turn: 3 restores or answers" in text, "but the tokens count"
    text, _, _ = await ask("memory_query", question="what does open_the_door() return?")
    assert text.startswith("Not in memory: nothing that is remembered answers this."), "no source has that name"
    assert f"#{ask.id_of('login.py')}" in (await ask("memory_search", query="which doors lead in?"))[0]


@pytest.mark.parametrize(
    ("left", "given", "most"),
    [(LIMITS.tokens, {}, 1600), (60, {}, 60), (LIMITS.tokens, {"max_tokens": 50}, 50)],
    ids=["twice the usual answer", "what is left", "the limit of the call"],
)
async def test_uncertain_passages_may_take_twice_the_tokens_of_an_answer_unless_the_call_limits_them(
    left: int, given: dict[str, int], most: int
) -> None:
    index = Index(None)
    ask = await asked_with(index, "".join(f"# door {n} is of oak, {n} feet wide\n\n" for n in range(200)))
    index.answer, index.related = SearchResult(), hits((ask.id_of("login.py"), 0, 70))
    ask.budget = RecallBudget(tokens=LIMITS.tokens - left)
    text, _, _ = await ask("memory_query", question="which doors lead in?", **given)
    assert ("They were cut to max_tokens" in text) is bool(given)
    assert most * 3 // 4 < ask.budget.tokens - (LIMITS.tokens - left) <= most


async def test_every_answer_counts_unindexed_objects(ask: Asked) -> None:
    outside = Admission(type_prior=0, novelty=0, utility=0, recency=0, score=0, admitted=False)
    each = ask.state.memory.objects[ask.id_of("login.py")]
    objects = {**ask.state.memory.objects, each.id: attrs.evolve(each, admission=outside)}
    ask.state = attrs.evolve(ask.state, memory=attrs.evolve(ask.state.memory, objects=objects))
    for call in (
        {"name": "memory_query", "question": PORT_QUESTION},
        {"name": "memory_search", "query": "zebra routes"},
    ):
        assert "1 object is not indexed" in (await ask(**call))[0]


@pytest.mark.parametrize(
    "answer", [None, LogUnavailable("away"), SearchResult(missing=99)], ids=["late", "away", "behind"]
)
async def test_words_decide_when_the_index_is_late(
    answer: SearchResult | Exception | None, autojump_clock: trio.testing.MockClock
) -> None:
    ask = await asked_with(Index(answer))
    began = trio.current_time()
    text, failed, _ = await ask("memory_query", question=PORT_QUESTION)
    assert not failed
    assert "port: 8443" in text
    assert trio.current_time() - began <= USUAL.index
    assert "relevance" not in (await ask("memory_search", query=PORT_QUESTION))[0], (
        "only the index's scores are recorded"
    )


@pytest.mark.parametrize("answer", [SearchResult(missing=99), RuntimeError("a bug")], ids=["late", "an error of ours"])
async def test_unanswerable_call_is_refused_and_earlier_calls_keep_their_answers(
    answer: SearchResult | Exception, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    ask = await asked()
    ask.answering = Executor(Bodies(STREAM, Reads(ask.log, 1), ask.log), ActorServices(Index(answer)))
    calls = [
        HiddenCall("a", "memory_restore", json.dumps({"object_id": ask.id_of("login.py"), "reason": "r"})),
        HiddenCall("b", "memory_query", json.dumps({"question": "which port?"})),
    ]
    began = trio.current_time()
    answers = await ask.answering(ask, calls)
    assert trio.current_time() - began <= USUAL.contents
    restored, queried = (json.loads(result) for result in answers.results.values())
    assert "PASSWORD_FILE" in restored["content"]
    assert (queried["content"], queried["is_error"]) == (NOT_NOW, True)
    assert len([event for event in answers.events if isinstance(event, ObjectRestored)]) == 1
    assert "memory_query was not answered" in caplog.text


async def test_slow_computation_does_not_time_out_an_answer(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """On a busy machine a second of work takes a minute; its result is still used."""

    async def slowly(work: Callable[[], Any]) -> Any:
        await trio.sleep(60)
        return work()

    monkeypatch.setattr(texts, "in_thread", slowly)
    ask = await asked()
    text, failed, _ = await ask("memory_query", question=PORT_QUESTION)
    assert not failed
    assert "port: 8443" in text


class Reads:
    """A content store that counts its reads and hangs after the first ``answers`` ones."""

    def __init__(self, contents: ContentStore, answers: float = math.inf) -> None:
        self._contents = contents
        self._answers = answers
        self.count = 0

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        self.count += 1
        if self.count > self._answers:
            await trio.sleep_forever()
        return await self._contents.fetch(stream, digests)


async def test_compared_objects_are_read_in_one_query(ask: Asked) -> None:
    reads = Reads(ask.log)
    ask.answering = Executor(Bodies(STREAM, reads, ask.log), ActorServices())
    text, failed, _ = await ask("memory_query", question=PORT_QUESTION)
    assert (failed, "port: 8443" in text) == (False, True)
    assert reads.count == 2, "once to compare, once to quote"


async def test_objects_missing_in_the_index_are_compared_by_words() -> None:
    index = Index(None)
    ask = await asked_with(index)
    login, server = ask.id_of("login.py"), ask.id_of("server.yaml")
    made = [each.id for each in ask.state.memory.objects.values() if is_searched(each)]
    index.answer = attrs.evolve(hits((login, 0, 70)), missing=len(made) - made.index(server))
    text, _, events = await ask("memory_query", question="login check and server port?", max_tokens=400)
    assert "port: 8443" in text
    assert "def login(user):" in text
    assert {event.object for event in events if isinstance(event, ObjectFaulted)} == {login, server}
    index.answer = attrs.evolve(index.answer, missing=len(made) - made.index(server) - 1)
    text, _, _ = await ask("memory_query", question="login check and server port?", max_tokens=400)
    assert "port: 8443" not in text, "the index had that object, and did not find it"


@pytest.mark.release
async def test_comparison_without_the_index_is_bounded() -> None:
    ask = await asked(login=LOGIN + "# filler\n" * (MOST_COMPARED // 8))
    text, failed, _ = await ask("memory_query", question="who checks the PASSWORD_FILE?")
    assert not failed
    assert "PASSWORD_FILE" not in text
    text, _, _ = await ask("memory_query", question="who checks the PASSWORD_FILE?", scope=ask.id_of("login.py"))
    assert "return check(user, PASSWORD_FILE)" in text, "what is named is read, however large"
    text, _, _ = await ask("memory_query", question=PORT_QUESTION)
    assert "port: 8443" in text


async def test_unreadable_object_does_not_prevent_quotes_of_others(ask: Asked) -> None:
    memory = ask.state.memory
    nowhere = recipe.encode(recipe.BodyChange(0, 0, (bytes(32),), ((0, 10),)))
    lost = attrs.evolve(memory.objects[ask.id_of("login.py")], content=nowhere)
    ask.state = attrs.evolve(ask.state, memory=attrs.evolve(memory, objects={**memory.objects, lost.id: lost}))
    _, failed, _ = await ask("memory_restore", object_id=lost.id, reason="r")
    assert failed
    text, failed, _ = await ask("memory_query", question=PORT_QUESTION)
    assert not failed
    assert "port: 8443" in text


async def test_restore_is_refused_without_room_in_the_window(ask: Asked) -> None:
    call = HiddenCall("c", "memory_restore", json.dumps({"object_id": ask.id_of("login.py"), "reason": "r"}))
    for room, refused in ((10_000, False), (1_010, True), (-5, True)):
        answering = Executor(Bodies(STREAM, ask.log, ask.log), ActorServices())
        answers = await answering(ask, [call], room)
        assert json.loads(answers.results["c"]).get("is_error", False) is refused
        assert bool(answers.events) is not refused


@pytest.mark.parametrize(("room", "refused"), [(None, False), (1_000, False), (999, True), (-5, True)])
async def test_search_is_refused_where_its_list_could_exceed_the_window(
    ask: Asked, room: int | None, refused: bool
) -> None:
    call = HiddenCall("c", "memory_search", json.dumps({"query": "login password"}))
    answers = await Executor(Bodies(STREAM, ask.log, ask.log), ActorServices())(ask, [call], room)
    result = json.loads(answers.results["c"])
    assert result.get("is_error", False) is refused
    assert ("The window has no room" in json.dumps(result)) is refused
