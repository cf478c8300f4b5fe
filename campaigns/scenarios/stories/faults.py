"""Faults of the provider and of the connection to it."""

import json

from campaigns.scenarios.agent import (
    ask,
    fails,
    model_replies,
    read,
    text,
    think,
)
from campaigns.scenarios.messages import Json
from campaigns.scenarios.scene import Scene
from campaigns.scenarios.stories.clients import compacted
from campaigns.scenarios.story_table import final_text, reads, story, writes

HURRY: Json = {"retry_after": 0.01}


@story()
async def overloaded_at_first(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), text("Fine.")])
    await agent.prompt_with("Hello.")
    for status in (429, 500, 529):
        agent.hears(fails(status, headers=[["retry-after", "7"], ["anthropic-ratelimit-unified-status", "rejected"]]))
        agent.add_prompt(text(f"After {status}?"))
        reply = await agent.send()
        assert reply.status == status
        assert final_text(agent.take(await agent.send())) == "Done."


@story()
async def hidden_rounds_that_fail_and_pass(scene: Scene) -> None:
    agent = scene.agent()
    for number, fault in enumerate(
        (
            fails(429, **HURRY),
            fails(529, **HURRY),
            fails(500, headers=[["retry-after", "0"]]),
        )
    ):
        agent.hears([think(), text("I look."), ask()], fault, [think(), read(f"/a{number}.py")])
        assert final_text(await agent.work("Go.")) == "Done."


@story()
async def hidden_rounds_that_break_before_they_show_anything(scene: Scene) -> None:
    agent = scene.agent()
    for number, fault in enumerate(
        (
            {"kind": "error_event", "at": "content_block_start"},
            {"kind": "cut", "at": 1},
            {"kind": "cut_before_reply"},
        )
    ):
        agent.hears(
            [think(), text("I look."), ask()], model_replies(text("Never."), faults=[fault]), [read(f"/a{number}.py")]
        )
        assert final_text(await agent.work("Go.")) == "Done."


@story()
async def hidden_rounds_that_stay_refused(scene: Scene) -> None:
    agent = scene.agent()
    for visible in ([], [text("I look.")]):
        agent.hears([think(), *visible, ask()], fails(403, "no"))
        agent.add_prompt(text("Go."))
        reply = await agent.send()
        assert reply.error == "permission_error"
        if reply.content:  # Claude Code continues from the part that it saw
            agent.history.append({"role": "assistant", "content": reply.content})
            agent.add_prompt(text("Your response above was cut off mid-stream. Resume directly from where it stopped."))
        assert final_text(agent.take(await agent.send())) == "Done."


@story()
async def a_stream_that_fails_in_the_middle(scene: Scene) -> None:
    agent = scene.agent()
    await agent.prompt_with("Hello.")
    for number, fault in enumerate(({"kind": "error_event", "at": 8}, {"kind": "cut", "at": 9, "inside": 20})):
        agent.hears(
            model_replies(think(), text("This is what I found, and it is much."), ask(), read("/a.py"), faults=[fault])
        )
        agent.add_prompt(text(f"What is it? {number}"))
        reply = await agent.send()
        assert not reply.ended
        partial = [block for block in reply.content if block["type"] != "thinking"]
        if partial:
            agent.history.append({"role": "assistant", "content": partial})
            agent.add_prompt(text("Your response above was cut off mid-stream. Resume directly from where it stopped."))
        assert final_text(agent.take(await agent.send())) == "Done."


@story()
async def a_stream_that_is_cut_at_every_place(scene: Scene) -> None:
    agent = scene.agent()
    for place in range(0, 23, 2):
        agent.hears(model_replies(think("Well, well."), text("A text."), ask(), faults=[{"kind": "cut", "at": place}]))
        agent.add_prompt(text(f"Place {place}?"))
        reply = await agent.send()
        if reply.ended:  # the reply was complete; only its connection broke
            assert final_text(agent.take(reply)) == "Done."
            continue
        agent.hears([think(), text(f"It is {place}.")])
        assert final_text(agent.take(await agent.send())) == f"It is {place}."


@story()
async def a_prompt_that_is_too_long(scene: Scene) -> None:
    agent = scene.agent()
    await reads(agent, 3)
    agent.hears(fails(400, "prompt is too long: 1010000 tokens > 1000000 maximum"))
    agent.add_prompt(text("More."))
    assert (await agent.send()).status == 400
    await compacted(agent)
    await reads(agent, 3, first=10)


@story()
async def a_provider_that_refuses_our_tools(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(fails(400, "tools.7.custom.name: memory_query is not allowed for this account"))
    assert final_text(await agent.prompt_with("Hello.")) == "Done."
    assert "memory_query" not in json.dumps(scene.sent[-1])
    await writes(agent, 3)


@story()
async def a_provider_that_begins_to_refuse_our_tools(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], [think(), read("/a.py"), ask()])
    reply = await agent.prompt_with("Hello.")
    agent.hears(fails(400, "tools.8: memory_search is not allowed"))
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def a_key_that_is_refused(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(fails(401, "invalid x-api-key"))
    agent.add_prompt(text("Hello."))
    assert (await agent.send()).status == 401
    assert final_text(agent.take(await agent.send())) == "Done."
