"""Long loops of tools."""

from campaigns.scenarios.agent import (
    ask,
    call,
    look_up,
    model_replies,
    read,
    redacted,
    text,
    think,
)
from campaigns.scenarios.scene import Scene
from campaigns.scenarios.story_table import final_text, reads, story, writes


@story(rewrites=True, long=True)
async def long_loop_of_signed_thinking(scene: Scene) -> None:
    agent = scene.agent()
    for number in range(4):
        await writes(agent, 4, first=4 * number)


@story(costs=True, long=True)
async def long_loop_that_is_no_dearer(scene: Scene) -> None:
    agent = scene.agent()
    for number in range(9):
        await writes(agent, 4, first=4 * number)
        scene.pause(30)


@story(costs=True, long=True)
async def long_loop_with_markers_of_an_hour(scene: Scene) -> None:
    agent = scene.agent(ttl="1h")
    for number in range(7):
        await writes(agent, 4, first=4 * number)
        scene.pause(1200)


@story(costs=True, rewrites=True)
async def long_loop_with_pauses_for_lunch(scene: Scene) -> None:
    agent = scene.agent()
    for number in range(6):
        await writes(agent, 3, first=3 * number)
        scene.pause(1800)


@story(rewrites=True)
async def parallel_tools_and_thinking_between_them(scene: Scene) -> None:
    agent = scene.agent()
    for number in range(6):
        agent.hears(
            [think("Both."), redacted(), text("Two at once."), read(f"/a{number}.py"), read(f"/b{number}.py")],
            [think("So."), text("And three."), *(call("Grep", pattern=f"p{number}{each}") for each in "abc")],
            [redacted(), think("Aha."), text(f"Step {number}.")],
        )
        assert final_text(await agent.work(f"Step {number}, please.")) == f"Step {number}."


@story()
async def thinking_that_is_omitted(scene: Scene) -> None:
    agent = scene.agent()
    agent.members = {"thinking": {"type": "adaptive", "display": "omitted"}, "max_tokens": 32000}
    agent.hears([think(), ask(), think("more")], [think(), read("/a.py")], [think(), think(), text("Fine.")])
    assert final_text(await agent.work("What was it?")) == "Fine."
    await writes(agent, 6)
    await reads(agent, 3, first=20)


@story()
async def a_client_that_does_not_stream(scene: Scene) -> None:
    agent = scene.agent(stream=False)
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()], [text("Fine.")])
    assert final_text(await agent.work("What was it?")) == "Fine."
    await writes(agent, 6)


@story()
async def a_client_that_takes_gzip(scene: Scene) -> None:
    agent = scene.agent(headers={"accept-encoding": "gzip, deflate, br, zstd"})
    zipped = {"transport": {"gzip": True}}
    agent.hears(
        model_replies(think(), ask(), **zipped),
        model_replies(think(), read("/a.py"), **zipped),
        model_replies(text("Fine."), **zipped),
    )
    assert final_text(await agent.work("What was it?")) == "Fine."


@story()
async def a_stream_in_single_bytes(scene: Scene) -> None:
    agent = scene.agent()
    bytewise = {"transport": {"framing": "byte"}}
    agent.hears(
        model_replies(think(), text("Well."), ask(), **bytewise), model_replies(think(), read("/a.py"), **bytewise)
    )
    assert final_text(await agent.work("What was it?")) == "Done."


@story(rewrites=True)
async def manual_thinking(scene: Scene) -> None:
    agent = scene.agent(model="claude-sonnet-4-6")
    agent.members = {"thinking": {"type": "enabled", "budget_tokens": 31999}, "max_tokens": 32000}
    for number in range(3):
        agent.hears([think(), ask()], [think(), read(f"/a{number}.py")], [read(f"/b{number}.py"), look_up()])
        assert final_text(await agent.work(f"Step {number}")) == "Done."
        await writes(agent, 3, first=10 * number)
