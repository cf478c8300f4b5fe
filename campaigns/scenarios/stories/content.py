"""Kinds of content."""

import json

from campaigns.scenarios.agent import (
    ask,
    call,
    look_up,
    marks_in,
    model_replies,
    read,
    restore,
    text,
    think,
)
from campaigns.scenarios.messages import Json
from campaigns.scenarios.scene import Scene
from campaigns.scenarios.story_table import final_text, story, writes

PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS}}
PDF: Json = {
    "type": "document",
    "title": "spec.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK" * 60},
}


@story(rewrites=True)
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
    agent.hears([think(), *(restore(mark) for mark in marks_in(scene.sent[-1]["messages"])[:3])])
    assert final_text(await agent.work("What was in the picture?")) == "Done."
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


@story(rewrites=True)
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


@story()
async def a_turn_that_the_provider_pauses(scene: Scene) -> None:
    agent = scene.agent()
    agent.marks = 0
    agent.tools = [*agent.tools, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]
    for number, hidden in enumerate(([], [ask()])):
        agent.hears(model_replies(think(), *hidden, *searched(number)[:2], stop_reason="pause_turn"))
        reply = await agent.prompt_with("Search long.")
        assert reply.message["stop_reason"] == "pause_turn"
        agent.hears([think(), text("Found.")])
        assert final_text(agent.take(await agent.send())) == "Found."
        agent.history[-2:] = [
            {"role": "assistant", "content": [*agent.history[-2]["content"], *agent.history[-1]["content"]]}
        ]
        assert final_text(await agent.work("And?")) == "Done."


@story()
async def unknown_blocks(scene: Scene) -> None:
    agent = scene.agent()
    unknown = {"type": "connector_text", "connector": "c1", "text": "As the connector says.", "more": {"x": [1.0, 2]}}
    agent.hears([think(), unknown, ask()], [unknown, text("So."), read("/a.py")])
    assert final_text(await agent.work("Hello.")) == "Done."
    await writes(agent, 4)


@story()
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


@story()
async def off_in_the_middle_of_a_hidden_round(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 4)
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), text("Fine.")])
    reply = await agent.prompt_with("Hello.")
    await scene.turn_off(agent.session)
    scene.replies[agent.name].clear()
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3, first=10)


@story(rewrites=True)
async def a_client_like_opencode(scene: Scene) -> None:
    agent = scene.agent(marks=2, betas="fine-grained-tool-streaming-2025-05-14", target="/v1/messages")
    agent.headers = {
        "user-agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14",
        "x-session-id": agent.session,
        "x-claude-code-session-id": None,
    }
    agent.members = {"max_tokens": 32000}
    for number in range(3):
        agent.hears([ask()], [text("I look."), read(f"/a{number}.py"), look_up()])
        assert final_text(await agent.work(f"Step {number}")) == "Done."
        await writes(agent, 3, first=10 * number)
