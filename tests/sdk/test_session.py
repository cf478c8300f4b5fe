"""A session without a proxy: its requests follow the API's rules, and every turn can be rebuilt."""

import json
from pathlib import Path
from typing import Any

import pytest

from mnemosyne import Session
from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.errors import BadTurn, BudgetTooSmall
from mnemosyne.sdk import Citations, Pressure
from mnemosyne.services import sessions
from tests.http.managing import look, model_says, recall, text, think
from tests.sdk.talking import LOOK, MODEL, Agent, open_agent, rebuild, verify

THINKING: dict[str, Any] = {"thinking": {"type": "adaptive"}, "max_tokens": 4000}
SEEN = {"replies": [model_says(look()), model_says(text("Seen."))]}
FACT = "The port of the billing service is 7443, since the proxy took 443."


def opened(dsn: str, folder: Path, name: str = "agent") -> Session:
    return Session(name, system="You are an agent.", tools=[LOOK], dsn=dsn, data_dir=folder)


async def test_a_loop_with_tools_thinking_and_memory_can_be_rebuilt(dsn: str, tmp_path: Path) -> None:
    rule = {
        "replies": [
            model_says(think(), look(at="it")),
            model_says(think(), recall("which port?")),
            model_says(text("7443.")),
        ]
    }
    async with open_agent({"rules": [rule]}) as agent:
        async with opened(dsn, tmp_path) as session:
            session.user_says("which port has the billing service?")
            await agent.ask(session, **THINKING)
            [call] = session.open_calls
            session.tool_result(call, FACT)
            sent = await agent.ask(session, **THINKING)
            assert len(sent) == 2, "a hidden round answered the memory call"
            assert [each["role"] for each in session.messages] == ["user", "assistant"] * 2
            assert session.messages[-1]["content"][-1]["text"] == "7443."
            assert "memory_query" not in json.dumps(session.messages)
            session.user_says("thanks")
            last = (await agent.ask(session, **THINKING))[0]
        verified = await verify(dsn, tmp_path, "agent")
        assert (verified.verdict, verified.turns, verified.rounds) == ("ok", 3, 4)
        assert await rebuild(dsn, tmp_path, "agent", "3/1") == last.body


async def test_earlier_content_is_found_and_restored(dsn: str, tmp_path: Path) -> None:
    noted = {"replies": [model_says(look()), model_says(text("Noted."))]}
    async with open_agent({"rules": [noted]}) as agent, opened(dsn, tmp_path) as session:
        session.user_says("look")
        await agent.ask(session)
        session.tool_result(session.open_calls[0], f"{FACT}\n" + "More of the same.\n" * 50)
        await agent.ask(session)
        session.user_says("thanks")
        await agent.ask(session)
        passages = await session.query("which port has the billing service?")
        assert any("7443" in passage.text for passage in passages)
        restored = await session.restore(passages[0].object_id)
        assert FACT in restored.text
        assert restored.problem is not None, "the context already has it in full"


async def test_a_fork_diverges_and_does_not_change_its_parent(dsn: str, tmp_path: Path) -> None:
    async with open_agent({}) as agent:
        async with opened(dsn, tmp_path) as session:
            session.user_says("one")
            await agent.ask(session)
            other = session.fork("other")
            other.user_says("two, another way")
            await agent.ask(other)
            assert (len(session.messages), len(other.messages)) == (2, 4)
            session.user_says("two")
            await agent.ask(session)
        assert (await verify(dsn, tmp_path, "agent")).verdict == "ok"
        assert (await verify(dsn, tmp_path, "other")).verdict == "ok"


async def test_a_fork_shares_its_parent_s_objects_until_it_changes_them(dsn: str, tmp_path: Path) -> None:
    first_turns = []
    for files in (1, 3):
        name = f"with-{files}"
        async with open_agent({"rules": [SEEN]}) as agent, opened(dsn, tmp_path, name) as session:
            for number in range(files):
                session.user_says(f"look at file {number}")
                await agent.ask(session, 60_000)
                session.tool_result(session.open_calls[0], f"line {number} of a file\n" * 300)
                await agent.ask(session, 60_000)
            other = session.fork(f"{name}-fork")
            other.user_says("and another one")
            await agent.ask(other, 60_000)
            other.tool_result(other.open_calls[0], "short\n")
            await agent.ask(other, 2_200)
            session.user_says("thanks")
            kept = (await agent.ask(session, 60_000))[0]
        async with open_storage(load({"dsn": dsn, "data_dir": str(tmp_path)}, {})) as storage:
            events = [each.envelope.event for each in await storage.events.read(await sessions.find(storage, name))]
        assert f"line {files - 1} of a file".encode() in kept.body
        forks = [each for each in events if getattr(each, "branch", None) == "fork-1"]
        first_turns.append([type(each) for each in forks if getattr(each, "turn", 0) <= 2 * files + 1])
        later = events[events.index(forks[0]) :]
        lowered = {each.branch for each in later if isinstance(each, ObjectDegraded)}
        assert lowered == {"fork-1"}, "the fork lowered what it shares with its parent, and its parent did not"
    assert first_turns[0] == first_turns[1], "a fork records as much for many objects as for few"


@pytest.mark.release
async def test_a_long_conversation_stays_within_its_budget(dsn: str, tmp_path: Path) -> None:
    async with open_agent({"rules": [SEEN]}) as agent:
        async with opened(dsn, tmp_path) as session:
            tokens = []
            for number in range(12):
                session.user_says(f"look at file {number}")
                await agent.ask(session, 10_000)
                session.tool_result(session.open_calls[0], f"line {number} of a file\n" * 300)
                tokens.append((await agent.ask(session, 10_000))[0].tokens)
            raw = len(json.dumps(session.messages)) // 4
        assert max(tokens) <= 10_000 < raw
        assert (await verify(dsn, tmp_path, "agent")).verdict == "ok"


async def look_at_files(agent: Agent, session: Session, budget: int) -> None:
    """Four files of about 1,700 tokens; a turn later, a smaller window evicts the older ones."""
    for number in range(4):
        session.user_says(f"look at file {number}")
        await agent.ask(session, budget)
        session.tool_result(session.open_calls[0], f"line of file {number}\n" * 400, reads=[f"file-{number}"])
        await agent.ask(session, budget)


async def test_evicted_sources_of_a_tool_are_restored_before_it_runs(dsn: str, tmp_path: Path) -> None:
    async with open_agent({"rules": [{"times": 8, **SEEN}]}) as agent:
        async with opened(dsn, tmp_path) as session:
            await look_at_files(agent, session, 60_000)
            assert await session.prepare("file-3") == [], "the context has it"
            session.user_says("go on")
            (small,) = await agent.ask(session, 4_000)
            assert b"line of file 0" not in small.body
            session.user_says("change file 0")
            (prepared,) = await session.prepare("file-0", "never seen")
            (sent,) = await agent.ask(session, 8_000)
            assert b"line of file 0" in sent.body
            assert b"line of file 1" not in sent.body
            assert {page["id"]: page["level"] for page in (await session.manifest())["pages"]}[prepared] == "L0"
        assert (await verify(dsn, tmp_path, "agent")).verdict == "ok"


async def test_host_can_ask_again_if_a_strict_reply_cites_an_id_that_its_context_lacked(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOSYNE_GROUNDING", "strict")
    said = [
        {"times": 1, "reply": model_says(text("File 0 has it [#zzzzzzz]."))},
        {"reply": model_says(text("Unknown."))},
    ]
    async with open_agent({"rules": [{"times": 8, **SEEN}, *said]}) as agent, opened(dsn, tmp_path) as session:
        await look_at_files(agent, session, 60_000)
        session.user_says("which file has it?")
        await agent.ask(session, 8_000)
        assert await session.citations() == Citations(absent=("zzzzzzz",))
        session.user_says("no record with that id was in your context")
        await agent.ask(session, 8_000)
        assert await session.citations() == Citations()


async def test_a_smaller_model_continues_with_the_same_objects_in_its_own_window(dsn: str, tmp_path: Path) -> None:
    async with open_agent({"rules": [{"times": 8, **SEEN}]}) as agent:
        async with opened(dsn, tmp_path) as session:
            await look_at_files(agent, session, 60_000)
            large = await session.manifest()
            session.user_says("go on")
            (sent,) = await agent.ask(session, 4_000, model="claude-haiku-5-5")
            small = await session.manifest()
            assert sent.tokens <= 4_000 == small["policy"]["window"] < large["request"]["tokens"]
            assert small["request"]["model"] == "claude-haiku-5-5" != large["request"]["model"]
            assert small["tools"]["sha256"] == large["tools"]["sha256"]
            assert {page["id"] for page in small["pages"]} >= {page["id"] for page in large["pages"]}
            shown = [sum(page["level"] == "L0" for page in each["pages"]) for each in (large, small)]
            assert shown[0] > shown[1], "the smaller window shows fewer of them in full"
        assert (await verify(dsn, tmp_path, "agent")).verdict == "ok"


async def test_on_pressure_is_called_for_each_zone_change_before_the_host_sends(
    dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Pressure] = []

    def tell(pressure: Pressure) -> None:
        told.append(pressure)
        raise RuntimeError("a bug of the host")

    session = Session("agent", tools=[LOOK], dsn=dsn, data_dir=tmp_path, on_pressure=tell)
    async with open_agent({"rules": [SEEN]}) as agent, session:
        for lines in (1, 3, 900):
            session.user_says("look")
            await agent.ask(session, 10_000)
            session.tool_result(session.open_calls[0], "a line of a file\n" * lines)
            await session.context_for(MODEL, 10_000)
            now = await session.pressure()
            assert now is not None
            assert (now.session, now.zone) == ("agent", told[-1].zone)
            await agent.ask(session, 10_000)
        other = session.fork("other")
        other.user_says("look")
        await agent.ask(other, 10_000)
    assert [each.zone for each in told if each.session == "agent"] == ["normal", "warning"]
    assert told[-1].session == "other"
    assert all(0 < each.tokens < each.window < 10_000 for each in told)
    assert "on_pressure failed" in caplog.text


async def test_a_budget_below_the_minimum_names_the_minimum_and_records_nothing(dsn: str, tmp_path: Path) -> None:
    async with open_agent({}) as agent:
        async with opened(dsn, tmp_path) as session:
            session.user_says("words " * 3000)
            with pytest.raises(
                BudgetTooSmall, match=r"budget is 500 tokens, but the system prompt, the tools .* about \d{4}"
            ):
                await session.context_for(MODEL, 500)
            await agent.ask(session)
        assert (await verify(dsn, tmp_path, "agent")).turns == 1


async def test_a_failed_or_abandoned_turn_is_recorded_and_can_be_restarted(dsn: str, tmp_path: Path) -> None:
    overloaded = {"times": 1, "reply": {"failure": {"status": 529}}}
    async with open_agent({"rules": [overloaded]}) as agent:
        async with opened(dsn, tmp_path) as session:
            session.user_says("one")
            await agent.ask(session)
            assert len(session.messages) == 1
            await session.context_for(MODEL, 100_000)
            await agent.ask(session)
            assert len(session.messages) == 2
            session.user_says("two")
            await session.context_for(MODEL, 100_000)
        assert (await verify(dsn, tmp_path, "agent")).verdict == "ok"


async def test_a_call_out_of_turn_is_refused_with_advice(dsn: str, tmp_path: Path) -> None:
    async with open_agent({"rules": [SEEN]}) as agent, opened(dsn, tmp_path) as session:
        with pytest.raises(BadTurn, match="call context_for first"):
            await session.query("anything?")
        with pytest.raises(BadTurn, match="No request is pending"):
            await session.assistant_says({"content": []})
        session.user_says("look")
        await session.context_for(MODEL, 100_000)
        with pytest.raises(BadTurn, match="A request is pending"):
            session.user_says("and more")
        with pytest.raises(BadTurn, match="A request is pending"):
            session.fork()
        await agent.ask(session)
        with pytest.raises(BadTurn, match="Calls without a result: toolu_"):
            await session.context_for(MODEL, 100_000)
    with pytest.raises(BadTurn, match="not open"):
        await session.context_for(MODEL, 100_000)


async def test_an_agent_s_own_error_is_not_wrapped(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with opened(dsn, tmp_path):
            raise ZeroDivisionError


async def test_a_saved_history_continues_the_same_session(dsn: str, tmp_path: Path) -> None:
    async with open_agent({}) as agent:
        async with opened(dsn, tmp_path) as session:
            session.user_says("one")
            await agent.ask(session)
            kept = session.messages
        system, tools = "You are an agent.", [LOOK]
        async with Session("agent", system=system, tools=tools, messages=kept, dsn=dsn, data_dir=tmp_path) as again:
            again.user_says("two")
            await agent.ask(again)
        verified = await verify(dsn, tmp_path, "agent")
        assert (verified.verdict, verified.turns) == ("ok", 2)


async def test_an_unclosed_session_warns(dsn: str, tmp_path: Path) -> None:
    session = opened(dsn, tmp_path)
    stack = await session.__aenter__()
    inside = stack._stack
    assert inside is not None
    held = [session, stack]
    del session, stack
    with pytest.warns(ResourceWarning, match="agent: a session was not closed"):
        held.clear()
    await inside.aclose()
