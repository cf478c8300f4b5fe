"""Hidden calls of every shape."""

from campaigns.scenarios.agent import (
    ask,
    call,
    look_up,
    marks_in,
    model_replies,
    read,
    release,
    restore,
    text,
    think,
)
from campaigns.scenarios.messages import Json
from campaigns.scenarios.raw_replies import broken, cut, streamed
from campaigns.scenarios.scene import Scene
from campaigns.scenarios.story_table import final_text, story, writes


@story()
async def hidden_call_before_any_eviction(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([ask()], [think(), look_up()], [restore("abc1234")], [text("I know it.")])
    assert final_text(await agent.work("What did we decide?")) == "I know it."


@story()
async def hidden_calls_among_the_clients(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(
        [think(), text("Three."), read("/a.py"), ask(), call("Bash", command="ls")],
        [think(), look_up(), read("/b.py")],
        [think(), read("/c.py"), release("abc1234")],
        [think(), text("So."), look_up(), ask(), read("/d.py"), restore("abc1234"), read("/e.py")],
    )
    assert final_text(await agent.work("Look at all.")) == "Done."
    await writes(agent, 4)


@story()
async def twelve_hidden_rounds_in_a_turn(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(*([think(f"{number}?"), ask(f"question {number}")] for number in range(11)), [text("Enough.")])
    assert final_text(await agent.work("Ask on and on.")) == "Enough."
    assert final_text(await agent.work("And again.")) == "Done."


@story()
async def a_model_that_never_stops_asking(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(*([think(f"{number}?"), ask(f"question {number}")] for number in range(12)))
    reply = await agent.prompt_with("Ask on and on.")
    assert reply.message["stop_reason"] == "end_turn"
    assert final_text(await agent.work("Go on.")) == "Done."


@story()
async def twelve_hidden_calls_in_a_reply(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), *(ask(f"question {number}") for number in range(12))], [read("/a.py")])
    assert final_text(await agent.work("Ask all at once.")) == "Done."


@story()
async def hidden_calls_with_strange_inputs(scene: Scene) -> None:
    agent = scene.agent()
    strange: list[Json] = [{}, {"question": 7}, {"object_id": ["x"]}, {"query": None}, {"q": "\N{GRINNING FACE}" * 400}]
    for name in ("memory_query", "memory_restore", "memory_release", "memory_search"):
        agent.hears([think(), *(call(name, **given) for given in strange)])
        assert final_text(await agent.work(f"Call {name}.")) == "Done."
    await writes(agent, 4)


@story()
async def hidden_call_whose_json_is_broken(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(streamed(broken("memory_query", '{"question": "what wa')), [text("Well.")])
    assert final_text(await agent.work("Ask.")) == "Well."
    agent.hears(streamed(text("I look."), broken("memory_query", '{"question"'), cut("Read", {"file_path": "/a.py"})))
    assert final_text(await agent.work("Ask again.")) == "Done."
    await writes(agent, 4)


@story()
async def clients_call_whose_json_is_broken(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(streamed(text("I look."), broken("Read", '{"file_path": "/a')))
    reply = await agent.prompt_with("Read it.")
    assert reply.message["stop_reason"] == "tool_use"
    agent.history[-1]["content"][-1]["input"] = {}  # as Claude Code sends back invalid JSON
    assert final_text(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def hidden_calls_cut_by_max_tokens(scene: Scene) -> None:
    agent = scene.agent()
    limit = {"stop_reason": "max_tokens"}
    for cut_reply in (
        model_replies(think(), text("I look."), ask(), **limit),
        model_replies(ask(), **limit),
        streamed(text("Now"), broken("memory_query", '{"que'), stop="max_tokens"),
        streamed(text("Now"), broken("Read", '{"file'), stop="max_tokens"),
    ):
        agent.hears(cut_reply)
        reply = await agent.prompt_with("Look.")
        assert reply.message["stop_reason"] == "max_tokens"
        calls = [block for block in agent.history[-1]["content"] if block["type"] == "tool_use"]
        for block in calls:
            block["input"] = block["input"] if isinstance(block["input"], dict) else {}
        assert final_text(await agent.turn(*agent.results(reply), text("Please continue."))) == "Done."


@story()
async def the_stop_reason_is_the_providers(scene: Scene) -> None:
    agent = scene.agent()
    for stop in ("stop_sequence", "model_context_window_exceeded", "refusal", "max_tokens"):
        given: Json = {"stop_reason": stop}
        if stop == "stop_sequence":
            given["stop_sequence"] = "END"
        if stop == "refusal":
            given["stop_details"] = {"category": "cyber"}
        agent.hears([think(), ask()], model_replies(think(), text("This far."), **given))
        reply = await agent.prompt_with("Go.")
        assert reply.message["stop_reason"] == stop
        assert final_text(await agent.prompt_with("And on.")) == "Done."


@story()
async def a_reply_of_thinking_alone(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], model_replies(think("I cannot say.")))
    reply = await agent.prompt_with("Go.")
    assert [block["type"] for block in reply.content[:2]] == ["thinking", "thinking"]
    assert final_text(await agent.prompt_with("And on.")) == "Done."


@story()
async def evicted_content_is_requested_and_restored(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 6)
    marks = marks_in(scene.sent[-1]["messages"])
    for mark in marks[:3]:
        agent.hears([think("It left."), restore(mark)], [think(), look_up("value"), read("/x.py")], [text("Good.")])
        assert final_text(await agent.work(f"What was in #{mark}?")) == "Good."
    await writes(agent, 6, first=20)
    agent.hears([think(), release(*marks[:2]), ask("part_3")], [text("Gone.")])
    assert final_text(await agent.work("Let go.")) == "Gone."
    await writes(agent, 3, first=30)
