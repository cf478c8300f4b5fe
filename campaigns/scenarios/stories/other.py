"""Other behaviour of real clients and providers."""

import json
from typing import Any

import trio

from campaigns.scenarios.agent import (
    BETAS,
    REMINDER,
    Agent,
    ask,
    call,
    fails,
    file_of,
    look_up,
    marks_in,
    model_replies,
    read,
    restore,
    text,
    think,
    tool,
)
from campaigns.scenarios.messages import Json
from campaigns.scenarios.scene import Scene
from campaigns.scenarios.stories.clients import after_compaction, rewind
from campaigns.scenarios.stories.content import searched
from campaigns.scenarios.stories.faults import HURRY
from campaigns.scenarios.story_table import DROPPING, final_text, story, writes


@story()
async def javascript_writes_it_again(scene: Scene) -> None:
    """Whole floats become integers, texts keep their white space, blank texts return, keys change their order."""
    agent = scene.agent()
    for number in range(3):
        agent.hears(
            [think(), text("\n\n"), ask(), call("Bash", timeout=60000.0, nested={"b": 1.0, "a": [2.0]}, command="ls")],
            [think(), text("  So.  \n"), look_up(), read("/a.py")],
            [think(), text("Said.\n")],
        )
        reply = await agent.prompt_with(f"Step {number}")
        while reply.message["stop_reason"] == "tool_use":
            for block in agent.history[-1]["content"]:
                if block["type"] == "tool_use":
                    block["input"] = json.loads(json.dumps(block["input"]).replace(".0", ""))
                    block["caller"] = block.pop("caller", {"type": "direct"})
            reply = await agent.turn(*agent.results(reply))
        assert final_text(reply) == "Said.\n"
        await writes(agent, 2, first=10 * number)


@story()
async def results_of_every_kind(scene: Scene) -> None:
    agent = scene.agent()
    kinds: list[Any] = [
        {"content": ""},
        {"content": []},
        {},
        {"content": "No such file.", "is_error": True},
        {"content": [text("one"), text("two")]},
        {"content": "\u0000 and \u202e turned, \N{GRINNING FACE}"},
        {"content": "x" * 30_000},
        {"content": [{"type": "search_result", "source": "s", "title": "t", "content": [text("found")]}]},
    ]
    agent.hears([think(), *(read(f"/{number}") for number in range(len(kinds))), ask()])
    reply = await agent.prompt_with("Read all.")
    results = [{**each, **kind} for each, kind in zip(agent.results(reply), kinds, strict=True)]
    for each, kind in zip(results, kinds, strict=True):
        if "content" not in kind:
            del each["content"]
    agent.hears([think(), look_up(), read("/x.py")])
    reply = await agent.turn(*reversed(results))
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def the_user_interrupts_a_tool(scene: Scene) -> None:
    agent = scene.agent()
    for number in range(3):
        agent.hears([think(), text("I run it."), ask(), call("Bash", command="sleep 99"), read("/a.py")])
        reply = await agent.prompt_with("Run it.")
        results = agent.results(reply, lambda _: "The user doesn't want to proceed with this tool use.")
        stopped = text("[Request interrupted by user for tool use]")
        agent.add_prompt(*({**each, "is_error": True} for each in results), stopped)
        agent.history[-1]["content"].append(text(f"Do {number} instead."))
        agent.hears([think(), look_up()], [text("All right.")])
        assert final_text(agent.take(await agent.send())) == "All right."
    await writes(agent, 3)


@story()
async def reminders_in_the_midst_of_a_loop(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    reply = await agent.prompt_with("Go.")
    for number in range(8):
        agent.hears([think(), *([look_up()] if number % 3 else []), read(f"/b{number}.py")])
        reminder = text(f"<system-reminder>The file /c{number}.py was changed by the user.</system-reminder>")
        agent.add_prompt(*agent.results(reply), reminder)
        agent.history.append({"role": "system", "content": [text(f"The todo list has {number} items.")]})
        reply = agent.take(await agent.send())
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def thinking_that_is_turned_off_and_on(scene: Scene) -> None:
    agent = scene.agent()
    for number, thinks in enumerate((True, False, True)):
        agent.members = {"max_tokens": 32000, **({"thinking": {"type": "adaptive"}} if thinks else {})}
        thought = [think()] if thinks else []
        agent.hears([*thought, ask()], [*thought, read(f"/a{number}.py"), look_up()], [*thought, text("Well.")])
        assert final_text(await agent.work(f"Step {number}")) == "Well."
        agent.members["output_config"] = {"effort": "high" if number else "low"}
        assert final_text(await agent.prompt_with("Harder.")) == "Done."


@story()
async def a_model_that_takes_no_system_messages(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Go.")
    agent.model = "claude-sonnet-4-6"  # Claude Code then puts the same text into the first message
    first, operator, *rest = agent.history
    agent.history = [{"role": "user", "content": [first["content"][0], *operator["content"], *first["content"][1:]]}]
    agent.history += rest
    agent.members = {"thinking": {"type": "enabled", "budget_tokens": 31999}, "max_tokens": 32000}
    agent.hears([think(), ask()], [think(), read("/b.py"), look_up()])
    assert final_text(await agent.work("And now?")) == "Done."
    await writes(agent, 3)
    agent.model, agent.history = "claude-opus-5-5", [first, operator, *agent.history[1:]]
    agent.members = {"thinking": {"type": "adaptive"}, "max_tokens": 32000}
    agent.hears([think(), ask()], [think(), read("/c.py")])
    assert final_text(await agent.work("And back?")) == "Done."


@story()
async def a_client_that_asks_for_dropped_blocks(scene: Scene) -> None:
    agent = scene.agent()
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    agent.members, agent.betas = {"thinking": binding, "max_tokens": 32000}, BETAS + DROPPING
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), read("/b.py")])
    assert final_text(await agent.work("Go.")) == "Done."
    agent.tools = agent.tools[:-1]
    await writes(agent, 4)


@story()
async def automatic_caching_and_four_markers(scene: Scene) -> None:
    agent = scene.agent(marks=2)
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Go.")
    agent.marks = 0
    agent.members["cache_control"] = {"type": "ephemeral"}
    agent.hears([think(), look_up(), read("/b.py")])
    await agent.work("And on.")
    await writes(agent, 4)


@story(long=True)
async def markers_of_both_lifetimes(scene: Scene) -> None:
    agent = scene.agent()
    head, tail = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral", "ttl": "5m"}
    agent.tools = [*agent.tools[:-1], {**agent.tools[-1], "cache_control": head}]
    agent.tail = tail
    agent.ttl = "1h"
    for number in range(3):
        agent.hears([think(), ask(), read("/a.py")], [think(), look_up()])
        await agent.work("Go.")
        await writes(agent, 3, first=10 * number)
        scene.pause(900)


@story()
async def a_client_with_a_tool_of_our_name(scene: Scene) -> None:
    agent = scene.agent()
    agent.tools = [*agent.tools, tool("mcp__memory__query")]
    agent.hears([think(), call("mcp__memory__query", q="x"), ask()], [think(), read("/a.py")])
    assert final_text(await agent.work("Go.")) == "Done."


@story()
async def a_program_without_a_session(scene: Scene) -> None:
    agent = scene.agent(betas="", target="/v1/messages")
    agent.headers = {"user-agent": "Anthropic/Python 2.11.0", "x-claude-code-session-id": None}
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()], [think(), text("Well.")])
    assert final_text(await agent.work(f"Go, {scene.name}.")) == "Well."
    await writes(agent, 4)


@story()
async def probes_and_warm_ups(scene: Scene) -> None:
    agent = scene.agent()
    probe = scene.agent(tools=[], model="claude-haiku-4-5", marks=0)
    probe.session, probe.members = agent.session, {"max_tokens": 1}
    probe.history = [{"role": "user", "content": [text("quota")]}]
    assert (await probe.send()).ended
    agent.add_prompt(text("Go."))
    agent.members["max_tokens"] = 0
    agent.hears(model_replies(stop_reason="max_tokens"))
    assert (await agent.send()).message["stop_reason"] == "max_tokens"
    agent.members["max_tokens"] = 32000
    agent.hears([think(), ask()], [think(), read("/a.py")])
    reply = agent.take(await agent.send())
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def a_provider_that_sends_unknown_fields(scene: Scene) -> None:
    agent = scene.agent()
    odd: Json = {
        "faults": [
            {"kind": "comment", "at": 2, "text": "keep-alive"},
            {"kind": "ping", "at": 4},
            {"kind": "ping", "at": 6},
        ]
    }
    agent.hears(model_replies(think(), text("I look."), ask(), **odd), model_replies(think(), read("/a.py"), **odd))
    assert final_text(await agent.work("Go.")) == "Done."


@story(long=True)
async def compaction_in_the_midst_of_a_loop(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 3)
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()])
    reply = await agent.prompt_with("Look.")
    before = list(agent.history)
    words = text("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Write a <summary> of all of it.")
    agent.history.append({"role": "user", "content": [*agent.results(reply), words]})
    agent.hears(model_replies(think(), text("<summary>It was about files.</summary>")))
    assert "summary" in final_text(await agent.send())
    after_compaction(agent, before[-1])
    agent.hears([think(), restore("abc1234")], [think(), read("/b.py"), ask("the files")])
    assert final_text(await agent.work("After the compaction.")) == "Done."
    await writes(agent, 3, first=10)
    agent.history = before[:-1]  # and back to before it
    rewind(agent, 0)
    await writes(agent, 2, first=20)


@story(long=True)
async def a_conversation_that_waits_over_night(scene: Scene) -> None:
    agent = scene.agent()
    for number in range(3):
        agent.hears([think(), ask(), read("/a.py")])
        reply = await agent.prompt_with("Go.")
        scene.pause(8 * 3600)
        assert final_text(await agent.turn(*agent.results(reply))) == "Done."
        await writes(agent, 3, first=10 * number)


@story()
async def a_result_larger_than_the_window(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), read("/huge.log"), ask()], [think(), look_up()], [think(), read("/b.py")])
    reply = await agent.work("Read it.", lambda each: file_of(each, 1500 if "huge" in json.dumps(each) else 60))
    assert final_text(reply) == "Done."
    await writes(agent, 3)
    agent.hears([think(), *(restore(mark) for mark in marks_in(scene.sent[-1]["messages"])[:2])])
    assert final_text(await agent.work("What was in it?")) == "Done."


@story(long=True)
async def another_claude_md_over_night(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()])
    await agent.work("Go.")
    await writes(agent, 6)
    agent.history[0] = {"role": "user", "content": [text(REMINDER.replace("tabs", "spaces")), text("Go.")]}
    agent.hears([think(), ask()], [think(), read("/b.py"), look_up()])
    assert final_text(await agent.work("And now?")) == "Done."
    await writes(agent, 3, first=10)


@story()
async def a_fork_while_a_hidden_call_waits(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 3)
    agent.hears([think(), text("Both."), ask(), read("/a.py"), look_up()])
    reply = await agent.prompt_with("Go.")
    fork = agent.fork(f"{agent.session}-fork")
    for each in (fork, agent):
        each.hears([think(), look_up()], [think(), read("/b.py"), ask()])
        second = await each.turn(*each.results(reply))
        assert final_text(await each.turn(*each.results(second))) == "Done."


@story(long=True)
async def overloaded_again_and_again(scene: Scene) -> None:
    agent = scene.agent()
    await agent.prompt_with("Hello.")
    for number in range(4):
        agent.add_prompt(text(f"Step {number}"))
        agent.hears(*(fails(529) for _ in range(3)), [think(), ask()], fails(529, **HURRY), fails(429, **HURRY))
        agent.hears([think(), read("/a.py"), look_up()])
        for _ in range(3):
            assert (await agent.send()).status == 529
        reply = agent.take(await agent.send())
        assert final_text(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def a_client_that_strips_its_thinking(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), text("So."), read("/b.py")])
    await agent.work("Go.")
    for message in agent.history:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    agent.hears([think(), ask(), read("/c.py")])
    assert final_text(await agent.work("And on.")) == "Done."
    await writes(agent, 3)


@story(long=True)
async def agents_that_all_start_at_once(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), *(call("Task", prompt=f"Part {number}") for number in range(5)), ask()])
    reply = await agent.prompt_with("Delegate.")
    subs = [agent.sub_agent(f"s{number}") for number in range(5)]

    async def run(sub: Agent) -> None:
        sub.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), read("/b.py")])
        assert final_text(await sub.work(f"Part of {sub.name}.")) == "Done."

    async with trio.open_nursery() as nursery:
        for sub in subs:
            nursery.start_soon(run, sub)
    agent.hears([think(), look_up()])
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def a_paused_turn_with_a_hidden_call_behind_the_search(scene: Scene) -> None:
    agent = scene.agent(marks=0)
    agent.tools = [*agent.tools, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]
    for number in range(2):
        agent.hears(
            [think(), *searched(10 * number), ask()],
            model_replies(think(), text("More."), *searched(10 * number + 1)[:2], stop_reason="pause_turn"),
        )
        reply = await agent.prompt_with("Search long.")
        assert reply.message["stop_reason"] == "pause_turn"
        agent.hears([think(), ask()], [think(), look_up()], [think(), text("Found.")])
        assert final_text(agent.take(await agent.send())) == "Found."
        await scene.restart()
        agent.history[-2:] = [
            {"role": "assistant", "content": [*agent.history[-2]["content"], *agent.history[-1]["content"]]}
        ]
        assert final_text(await agent.work("And?")) == "Done."
