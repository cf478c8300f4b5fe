"""Behaviour of clients."""

import trio

from campaigns.scenarios.agent import (
    Agent,
    ask,
    call,
    fails,
    file_of,
    look_up,
    model_replies,
    read,
    text,
    think,
    tool,
)
from campaigns.scenarios.messages import Json
from campaigns.scenarios.scene import Scene
from campaigns.scenarios.story_table import final_text, reads, story, writes
from mnemosyne.domain.session.round_events import Mode


@story()
async def a_client_that_disconnects_and_retries(scene: Scene) -> None:
    agent = scene.agent()
    await agent.work("Hello.")
    agent.hears(
        model_replies(think(), text("A long story."), pace={"between": 3600, "characters": 4}), [think(), ask()]
    )
    agent.add_prompt(text("Tell me."))
    await agent.disconnect(shown=b"content_block_start")
    assert final_text(agent.take(await agent.send())) == "Done."


@story()
async def a_client_that_disconnects_in_a_hidden_round(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), text("I look."), ask()], model_replies(text("Late."), pace={"first": 3600}))
    agent.add_prompt(text("What was it?"))
    await agent.disconnect(rounds=2)
    agent.history.append({"role": "assistant", "content": [text("I look.")]})
    assert final_text(await agent.turn(text("[Request interrupted by user]"), text("Leave it."))) == "Done."
    agent.hears([ask()], model_replies(text("Late."), pace={"first": 3600}))
    agent.add_prompt(text("And that?"))
    await agent.disconnect(rounds=2)
    assert final_text(agent.take(await agent.send())) == "Done."


@story()
async def a_lost_reply_that_is_requested_again(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    agent.add_prompt(text("Hello."))
    await agent.send()
    agent.hears([think("Once more."), look_up(), read("/b.py")])
    reply = agent.take(await agent.send())
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def two_requests_at_once(scene: Scene) -> None:
    agent = scene.agent()
    await agent.work("Hello.")
    agents = [agent, *(agent.sub_agent(f"s{number}") for number in range(3))]

    async def run(each: Agent) -> None:
        each.hears([think(), ask(), read("/a.py")], [think(), look_up()], [read("/b.py")])
        assert final_text(await each.work("Look around.")) == "Done."

    async with trio.open_nursery() as nursery:
        for each in agents:
            nursery.start_soon(run, each)


@story(long=True)
async def rewinds(scene: Scene) -> None:
    agent = scene.agent()
    for words in ("First.", "Second.", "Third."):
        agent.hears([think(), ask()], [think(), read("/a.py"), ask()], [think(), text("One.")])
        await agent.work(words)
    for prompt in (2, 1, 0):
        rewind(agent, prompt)
        agent.hears([think(), look_up(), read("/b.py")], [text("So."), ask(), read("/c.py")])
        assert final_text(await agent.work(f"No, otherwise, from {prompt}.")) == "Done."
        await agent.work("And this.")
    await writes(agent, 3)


def rewind(agent: Agent, prompt: int) -> None:
    """Esc Esc: the prompt of that number is typed again."""
    typed = [
        number
        for number, message in enumerate(agent.history)
        if message["role"] == "user" and message["content"][0]["type"] != "tool_result"
    ]
    del agent.history[typed[prompt] :]


@story(rewrites=True)
async def rewinds_to_before_an_epoch(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 6)
    await writes(agent, 3, first=10)
    for kept in (len(agent.history) - 5, 6):  # interrupted in its work with another instruction
        del agent.history[kept:]
        assert agent.history[-1]["role"] == "user"
        agent.history.append({"role": "assistant", "content": [text("I stop here.")]})
        agent.hears([think(), look_up(), read("/b.py")])
        assert final_text(await agent.work(f"No, otherwise, from {kept}.")) == "Done."
        await writes(agent, 3, first=20 + kept)
    rewind(agent, 0)
    await writes(agent, 3, first=40)


async def compacted(agent: Agent) -> None:
    """Claude Code's /compact, and the first message after it."""
    before = list(agent.history)
    if before[-1]["role"] == "user":
        before.pop()
    words = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Write a <summary> of all of it."
    agent.history = [*before, {"role": "user", "content": [text(words)]}]
    agent.hears(model_replies(think(), text("<summary>It was about files.</summary>")))
    summary = await agent.send()
    assert "summary" in final_text(summary)
    after_compaction(agent, before[-1])
    agent.hears([think(), ask("the files")], [think(), text("Going on.")])
    assert final_text(await agent.prompt_with("After the compaction.")) == "Going on."


def after_compaction(agent: Agent, last: Json) -> None:
    """Claude Code's history after a compaction: the assistant's last text stays, and two user messages follow."""
    first = "This session is being continued from a previous conversation that ran out of context. It was about files."
    kept = [block for block in last["content"] if block["type"] != "tool_use"]
    agent.history = [
        {"role": "user", "content": [text(first)]},
        {"role": "system", "content": [], "output_config": {"effort": "medium"}},
        {"role": "assistant", "content": kept},
        {"role": "user", "content": [text("<system-reminder>The file /a.py was read before.</system-reminder>")]},
    ]


@story()
async def compaction_by_the_user(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()])
    await agent.work("Hello.")
    await writes(agent, 3)
    await compacted(agent)
    await writes(agent, 3, first=10)
    await compacted(agent)
    await reads(agent, 3, first=20)


@story()
async def a_client_that_clears_old_results_itself(scene: Scene) -> None:
    agent = scene.agent()
    await reads(agent, 4)
    for message in agent.history[:5]:
        for block in message["content"]:
            if block["type"] == "tool_result":
                block["content"] = "[Old tool result content cleared]"
    await writes(agent, 3, first=10)


@story()
async def a_conversation_that_is_resumed(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    reply = await agent.prompt_with("Hello.")
    await scene.restart()
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 6)
    await scene.restart(Mode.OBSERVE)
    await writes(agent, 3, first=10)


@story()
async def a_turn_that_is_refused_and_fails_before_a_restart(scene: Scene) -> None:
    """The first attempt is refused for its thinking, sent again without, and fails without any output."""
    agent = scene.agent()
    for words in ("First.", "Second."):
        agent.hears([think(), text("Done.")])
        await agent.prompt_with(words)
    agent.tools = [*agent.tools, tool("mcp__db__query")]
    rewind(agent, 1)
    agent.hears(fails(429))
    agent.add_prompt(text("Otherwise."))
    assert (await agent.send()).status == 429
    assert final_text(agent.take(await agent.send())) == "Done."
    await scene.restart()
    agent.hears([think(), ask()])
    assert final_text(await agent.prompt_with("And on.")) == "Done."


@story(long=True)
async def forks_of_forks(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()])
    await agent.work("Hello.")
    await writes(agent, 4)
    fork = agent.fork(f"{agent.session}-fork")
    await writes(fork, 2, first=10)
    again = fork.fork(f"{agent.session}-fork-fork")
    for each in (again, agent, fork, again):
        each.hears([think(), look_up(), ask()])
        assert final_text(await each.work("And now?")) == "Done."
    await writes(again, 3, first=20)


@story(long=True)
async def models_that_change(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], [think(), read("/a.py")])
    await agent.work("Hello.")
    for number, model in enumerate(("claude-opus-5", "claude-opus-5-5", "claude-fable-5-2", "claude-opus-5-5")):
        agent.model = model
        agent.hears([think(), look_up()], [think(), read(f"/b{number}.py"), ask()])
        assert final_text(await agent.work(f"Now with {model}.")) == "Done."
    await writes(agent, 4)
    agent.model = "claude-opus-5"
    await writes(agent, 3, first=10)


@story()
async def a_fallback_model_in_mid_loop(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), read("/a.py"), ask()], fails(529))
    reply = await agent.prompt_with("Hello.")
    agent.add_prompt(*agent.results(reply))
    assert (await agent.send()).status == 529
    agent.model = "claude-opus-4-8"
    agent.hears([think(), look_up()], [think(), read("/b.py")])
    reply = agent.take(await agent.send())
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def tools_that_change(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Hello.")
    own = list(agent.tools)
    more = [tool("mcp__db__query"), tool("mcp__db__schema")]
    for number, tools in enumerate(([*own, *more], [*own, more[1]], own[:5], own)):
        agent.tools = tools
        agent.hears([think(), look_up(), read(f"/b{number}.py")])
        assert final_text(await agent.work("And now?")) == "Done."
    await writes(agent, 3)
    agent.tools = [*own, *more]
    await writes(agent, 2, first=10)


@story()
async def deferred_tools_that_are_searched_for(scene: Scene) -> None:
    agent = scene.agent()
    agent.tools = [*agent.tools, tool("ToolSearch"), tool("WebSearch", defer_loading=True)]
    found = [{"type": "tool_reference", "tool_name": "WebSearch"}]
    agent.hears([think(), call("ToolSearch", query="web"), ask()], [think(), call("WebSearch", query="x"), look_up()])
    reply = await agent.work("Search.", lambda each: found if each["name"] == "ToolSearch" else file_of(each))
    assert final_text(reply) == "Done."
    await writes(agent, 4)


@story()
async def a_system_prompt_that_changes_at_midnight(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Hello.")
    agent.prompt = "You are an interactive agent; today is another day. "
    assert final_text(await agent.work("And now?")) == "Done."
    await writes(agent, 3)


@story()
async def sub_agents(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), call("Task", prompt="Look."), ask(), call("Task", prompt="Look there.")])
    reply = await agent.prompt_with("Delegate.")
    for number in range(2):
        sub = agent.sub_agent(f"sub{number}")
        sub.hears([think(), ask()], [think(), read("/a.py"), look_up()])
        assert final_text(await sub.work("Look around.")) == "Done."
        nested = sub.sub_agent(f"nested{number}")
        nested.headers = {"x-claude-code-parent-agent-id": str(sub.agent)}
        nested.hears([think(), look_up(), read("/b.py")])
        assert final_text(await nested.work("Look deeper.")) == "Done."
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def titles_and_summaries_alongside(scene: Scene) -> None:
    agent = scene.agent()
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    side = scene.agent(tools=[], model="claude-haiku-4-5")
    side.session, side.marks = agent.session, 0
    side.members = {"max_tokens": 512, "output_config": {"format": {"type": "json_schema", "schema": schema}}}
    side.history = [{"role": "user", "content": [text("<session>\nHello.\n</session>")]}]
    assert "title" in final_text(await side.send())
    agent.hears([think(), ask(), read("/a.py")])
    reply = await agent.prompt_with("Hello.")
    side.members = {"max_tokens": 512}
    side.history = [{"role": "user", "content": [text("Summarise the output of the tool in five words.")]}]
    assert final_text(await side.send())
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def tokens_that_are_counted(scene: Scene) -> None:
    agent = scene.agent()
    small = await agent.count(text("Hello."))
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Hello.")
    await writes(agent, 6)
    assert await agent.count(text("How long is this?")) > small
