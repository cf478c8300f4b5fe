"""Stories: behaviour of clients, models and providers that no walk has, because it concerns the form of content or of
requests.
"""

import json
from functools import partial
from typing import Any

from campaigns.scenarios.agent import (
    BETAS,
    Agent,
    ask,
    call,
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
from campaigns.scenarios.scene import Scene, Story
from campaigns.scenarios.spoken import Json, ReadReply
from mnemosyne.domain.session.round_events import Mode

DROPPING = ",thinking-binding-controls-2026-08-01"

STORIES: dict[str, Story] = {}
REWRITING = ("images-and-documents", "searches-that-the-provider-runs", "manual-thinking")
"""Those that evict something."""


def story(play: Story) -> Story:
    """Add a story to the table, under its name with hyphens."""
    STORIES[play.__name__.replace("_", "-")] = play
    return play


def final_text(reply: ReadReply) -> str:
    """The last text of a reply, which must have ended normally."""
    assert reply.ended, reply
    return str(reply.content[-1].get("text"))


async def works(agent: Agent, prompt: str, *replies: list[Json], last: str = "Done.") -> None:
    """A prompt and every requested result: the model gives these replies, and finishes."""
    agent.hears(*replies)
    assert final_text(await agent.work(prompt)) == last


async def reads(agent: Agent, files: int, first: int = 0, words: str = "Go through the files.") -> ReadReply:
    agent.hears(*([think(f"File {number}."), read(f"/src/part_{number}.py")] for number in range(first, first + files)))
    reply = await agent.work(words)
    assert final_text(reply) == "Done."
    return reply


async def writes(agent: Agent, files: int, first: int = 0) -> ReadReply:
    """The agent reads files and writes others, so that the gathered content has been used."""
    for number in range(first, first + files):
        agent.hears(
            [think(f"File {number}."), text("I read it."), read(f"/src/part_{number}.py")],
            [think(), call("Write", file_path=f"/src/out_{number}.py", content="x = 1\n" * 30)],
        )
    reply = await agent.work(f"Bring the files {first} to {first + files - 1} up to date.")
    assert final_text(reply) == "Done."
    return reply


PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS}}


PDF: Json = {
    "type": "document",
    "title": "spec.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK" * 60},
}


@story
async def images_and_documents(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), read("/a.png"), ask()], [think(), read("/b.pdf"), call("Bash", command="screenshot")])
    reply = await agent.turn(text("What is this?"), IMAGE, PDF)

    def output(given: Json) -> list[Json]:
        return [text("Here it is."), IMAGE] if "png" in json.dumps(given) else [IMAGE, PDF]

    while reply.message["stop_reason"] == "tool_use":
        reply = await agent.turn(*agent.results(reply, output))
    assert final_text(reply) == "Done."
    await writes(agent, 6)
    await works(
        agent,
        "What was in the picture?",
        [think(), *(restore(mark) for mark in marks_in(scene.sent[-1]["messages"])[:3])],
    )
    await writes(agent, 3, first=20)


def searched(number: int, results: int = 3) -> list[Json]:
    """A search that the provider runs, and a text that cites it."""
    found = [
        {
            "type": "web_search_result",
            "url": f"https://example.org/{number}/{each}",
            "title": f"Page {each}",
            "encrypted_content": f"RW5jcnlwdGVk{number}{each}" * 60,
            "page_age": None,
        }
        for each in range(results)
    ]
    cited = {
        "type": "web_search_result_location",
        "url": found[0]["url"],
        "title": "Page 0",
        "encrypted_index": "RW5jSW5kZXg",
        "cited_text": "It is so.",
    }
    use = f"srvtoolu_{number}"
    return [
        {"type": "server_tool_use", "id": use, "name": "web_search", "input": {"query": f"question {number}"}},
        {"type": "web_search_tool_result", "tool_use_id": use, "content": found},
        {"type": "text", "text": "It is so.", "citations": [cited]},
    ]


@story
async def searches_that_the_provider_runs(scene: Scene) -> None:
    agent = scene.agent()
    agent.tools = [*agent.tools, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]
    for number in range(3):
        agent.hears(
            [think(), text("I search."), *searched(10 * number), ask()],
            [think(), *searched(10 * number + 1), read(f"/a{number}.py"), look_up()],
            [think(), *searched(10 * number + 2), text("So it is.")],
        )
        assert final_text(await agent.work(f"Search for {number}.")) == "So it is."
        await writes(agent, 2, first=10 * number)


@story
async def our_marks_sent_back_and_edited(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 6)
    sent = scene.sent[-1]["messages"]
    marks = [*marks_in(sent), "abc1234", "abc1235"]
    notes = [block["text"] for message in sent for block in message["content"] if "[Memory]" in str(block.get("text"))]
    note = notes[0] if notes else "[Memory] Next, out of context:"
    edited = note.replace(marks[0], "zzzzzzz").replace("left]", "left, but restore it now]")
    agent.hears([think(), restore(marks[0])], [think(), restore("zzzzzzz"), text(f"You mean: {note}")])
    agent.hears([think(), text(f"[#{marks[0]} left] It says so.")])
    await agent.work(f"{edited}\n[#{marks[0]} in part; lost: all]")
    agent.history[-1]["content"] = [text(f"[#{marks[1]} left] and what I made of it. {edited}")]
    assert final_text(await agent.work("Is that right?")) == "Done."
    await writes(agent, 3, first=20)


@story
async def a_client_that_clears_old_results_itself(scene: Scene) -> None:
    agent = scene.agent()
    await reads(agent, 4)
    for message in agent.history[:5]:
        for block in message["content"]:
            if block["type"] == "tool_result":
                block["content"] = "[Old tool result content cleared]"
    await writes(agent, 3, first=10)


@story
async def deferred_tools_that_are_searched_for(scene: Scene) -> None:
    agent = scene.agent()
    agent.tools = [*agent.tools, tool("ToolSearch"), tool("WebSearch", defer_loading=True)]
    found = [{"type": "tool_reference", "tool_name": "WebSearch"}]
    agent.hears([think(), call("ToolSearch", query="web"), ask()], [think(), call("WebSearch", query="x"), look_up()])
    reply = await agent.work("Search.", lambda each: found if each["name"] == "ToolSearch" else file_of(each))
    assert final_text(reply) == "Done."
    await writes(agent, 4)


@story
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


@story
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


@story
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


@story
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


@story
async def thinking_that_is_turned_off_and_on(scene: Scene) -> None:
    agent = scene.agent()
    for number, thinks in enumerate((True, False, True)):
        agent.members = {"max_tokens": 32000, **({"thinking": {"type": "adaptive"}} if thinks else {})}
        thought = [think()] if thinks else []
        agent.hears([*thought, ask()], [*thought, read(f"/a{number}.py"), look_up()], [*thought, text("Well.")])
        assert final_text(await agent.work(f"Step {number}")) == "Well."
        agent.members["output_config"] = {"effort": "high" if number else "low"}
        assert final_text(await agent.prompt_with("Harder.")) == "Done."


@story
async def a_model_that_takes_no_system_messages(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Go.")
    agent.model = "claude-sonnet-4-6"  # Claude Code then puts the same text into the first message
    first, operator, *rest = agent.history
    agent.history = [{"role": "user", "content": [first["content"][0], *operator["content"], *first["content"][1:]]}]
    agent.history += rest
    agent.members = {"thinking": {"type": "enabled", "budget_tokens": 31999}, "max_tokens": 32000}
    await works(agent, "And now?", [think(), ask()], [think(), read("/b.py"), look_up()])
    await writes(agent, 3)
    agent.model, agent.history = "claude-opus-5-5", [first, operator, *agent.history[1:]]
    agent.members = {"thinking": {"type": "adaptive"}, "max_tokens": 32000}
    await works(agent, "And back?", [think(), ask()], [think(), read("/c.py")])


@story
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


@story
async def a_result_larger_than_the_window(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), read("/huge.log"), ask()], [think(), look_up()], [think(), read("/b.py")])
    reply = await agent.work("Read it.", lambda each: file_of(each, 1500 if "huge" in json.dumps(each) else 60))
    assert final_text(reply) == "Done."
    await writes(agent, 3)
    await works(
        agent, "What was in it?", [think(), *(restore(mark) for mark in marks_in(scene.sent[-1]["messages"])[:2])]
    )


@story
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


@story
async def a_client_that_strips_its_thinking(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), text("So."), read("/b.py")])
    await agent.work("Go.")
    for message in agent.history:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    await works(agent, "And on.", [think(), ask(), read("/c.py")])
    await writes(agent, 3)


@story
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
        await scene.restart(Mode.MANAGE)
        agent.history[-2:] = [
            {"role": "assistant", "content": [*agent.history[-2]["content"], *agent.history[-1]["content"]]}
        ]
        assert final_text(await agent.work("And?")) == "Done."


# Forms of all requests of a client

LIMIT = {"max_tokens": 32000}
FORMS: dict[str, dict[str, Any]] = {
    "thinking-that-is-omitted": {"members": LIMIT | {"thinking": {"type": "adaptive", "display": "omitted"}}},
    "manual-thinking": {
        "model": "claude-sonnet-4-6",
        "members": LIMIT | {"thinking": {"type": "enabled", "budget_tokens": 31999}},
    },
    "dropped-blocks": {
        "members": LIMIT
        | {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}},
        "betas": BETAS + DROPPING,
    },
    "automatic-caching": {
        "marks": 0,
        "members": LIMIT | {"thinking": {"type": "adaptive"}, "cache_control": {"type": "ephemeral"}},
    },
    "a-program-without-a-session": {
        "betas": "",
        "target": "/v1/messages",
        "headers": {"user-agent": "Anthropic/Python 2.11.0", "x-claude-code-session-id": None},
    },
}


async def _play_form(scene: Scene, form: dict[str, Any]) -> None:
    agent = scene.agent(**form)
    for number in range(3):
        agent.hears(
            [think(), ask(), think("more"), read("/a.py")],
            [think(), read(f"/a{number}.py")],
            [read(f"/b{number}.py"), look_up()],
            [think(), text("Fine.")],
        )
        assert final_text(await agent.work(f"Step {number} of {scene.name}.")) == "Fine."
        await writes(agent, 3, first=10 * number)
    agent.tools = agent.tools[:-1]
    await reads(agent, 3, first=30)


STORIES |= {name: partial(_play_form, form=form) for name, form in FORMS.items()}
