"""The scenarios: short stories of what real clients, models and providers do, each a function that the judge watches.

A story says what happens and how it must end. That nothing is broken on the way it need not say: the judge looks at
every request (``judge``).
"""

import json
from collections.abc import Callable
from typing import Any

import attrs
import trio

from mnemosyne.domain.session.round_events import Mode
from mnemosyne.lab.provider.script import ScriptedReply
from tests.scenarios.agent import (
    BETAS,
    REMINDER,
    Agent,
    ask,
    call,
    fails,
    file_of,
    look_up,
    marks_in,
    read,
    redacted,
    release,
    restore,
    says,
    text,
    think,
    tool,
)
from tests.scenarios.messages import Json, ReadReply
from tests.scenarios.scene import WINDOW, Scene, Story

DROPPING = ",thinking-binding-controls-2026-08-01"

STORIES: dict[str, "Told"] = {}


@attrs.frozen(kw_only=True)
class Told:
    """A story. Where it ``costs`` it is long enough to be no dearer than without us, in a window that forces little.
    ``rewrites`` says that something leaves the window in it, if planning has its time. A ``long`` one is for campaigns:
    it takes long for what it shows beside a shorter one.
    """

    play: Story
    costs: bool = False
    rewrites: bool = False
    long: bool = False

    @property
    def window(self) -> int:
        """Tokens of the largest prompt."""
        return WINDOW * 2 if self.costs else WINDOW


def story(*, costs: bool = False, rewrites: bool = False, long: bool = False) -> Callable[[Story], Story]:
    """Puts a story into the table."""

    def told(play: Story) -> Story:
        STORIES[play.__name__.replace("_", "-")] = Told(play=play, costs=costs, rewrites=rewrites, long=long)
        return play

    return told


def saying(reply: ReadReply) -> str:
    """The last words of a reply that ended as the provider meant."""
    assert reply.ended, reply
    return str(reply.content[-1].get("text"))


async def reads(agent: Agent, files: int, first: int = 0, words: str = "Go through the files.") -> ReadReply:
    """The agent reads one file after the other, and is done."""
    agent.hears(*([think(f"File {number}."), read(f"/src/part_{number}.py")] for number in range(first, first + files)))
    reply = await agent.work(words)
    assert saying(reply) == "Done."
    return reply


async def writes(agent: Agent, files: int, first: int = 0) -> ReadReply:
    """Reads, and now and then writes what was read: what was gathered has been used then."""
    for number in range(first, first + files):
        agent.hears(
            [think(f"File {number}."), text("I read it."), read(f"/src/part_{number}.py")],
            [think(), call("Write", file_path=f"/src/out_{number}.py", content="x = 1\n" * 30)],
        )
    reply = await agent.work(f"Bring the files {first} to {first + files - 1} up to date.")
    assert saying(reply) == "Done."
    return reply


# Long loops


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
        assert saying(await agent.work(f"Step {number}, please.")) == f"Step {number}."


@story()
async def thinking_that_is_omitted(scene: Scene) -> None:
    agent = scene.agent()
    agent.members = {"thinking": {"type": "adaptive", "display": "omitted"}, "max_tokens": 32000}
    agent.hears([think(), ask(), think("more")], [think(), read("/a.py")], [think(), think(), text("Fine.")])
    assert saying(await agent.work("What was it?")) == "Fine."
    await writes(agent, 6)
    await reads(agent, 3, first=20)


@story()
async def a_client_that_does_not_stream(scene: Scene) -> None:
    agent = scene.agent(stream=False)
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()], [text("Fine.")])
    assert saying(await agent.work("What was it?")) == "Fine."
    await writes(agent, 6)


@story()
async def a_client_that_takes_gzip(scene: Scene) -> None:
    agent = scene.agent(headers={"accept-encoding": "gzip, deflate, br, zstd"})
    zipped = {"transport": {"gzip": True}}
    agent.hears(says(think(), ask(), **zipped), says(think(), read("/a.py"), **zipped), says(text("Fine."), **zipped))
    assert saying(await agent.work("What was it?")) == "Fine."


@story()
async def a_stream_in_single_bytes(scene: Scene) -> None:
    agent = scene.agent()
    bytewise = {"transport": {"framing": "byte"}}
    agent.hears(says(think(), text("Well."), ask(), **bytewise), says(think(), read("/a.py"), **bytewise))
    assert saying(await agent.work("What was it?")) == "Done."


@story(rewrites=True)
async def manual_thinking(scene: Scene) -> None:
    agent = scene.agent(model="claude-sonnet-4-6")
    agent.members = {"thinking": {"type": "enabled", "budget_tokens": 31999}, "max_tokens": 32000}
    for number in range(3):
        agent.hears([think(), ask()], [think(), read(f"/a{number}.py")], [read(f"/b{number}.py"), look_up()])
        assert saying(await agent.work(f"Step {number}")) == "Done."
        await writes(agent, 3, first=10 * number)


# Hidden calls of every shape


@story()
async def hidden_call_before_anything_left(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([ask()], [think(), look_up()], [restore("abc1234")], [text("I know it.")])
    assert saying(await agent.work("What did we decide?")) == "I know it."


@story()
async def hidden_calls_among_the_clients(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(
        [think(), text("Three."), read("/a.py"), ask(), call("Bash", command="ls")],
        [think(), look_up(), read("/b.py")],
        [think(), read("/c.py"), release("abc1234")],
        [think(), text("So."), look_up(), ask(), read("/d.py"), restore("abc1234"), read("/e.py")],
    )
    assert saying(await agent.work("Look at all.")) == "Done."
    await writes(agent, 4)


@story()
async def twelve_hidden_rounds_in_a_turn(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(*([think(f"{number}?"), ask(f"question {number}")] for number in range(11)), [text("Enough.")])
    assert saying(await agent.work("Ask on and on.")) == "Enough."
    assert saying(await agent.work("And again.")) == "Done."


@story()
async def a_model_that_never_stops_asking(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(*([think(f"{number}?"), ask(f"question {number}")] for number in range(12)))
    reply = await agent.prompt_with("Ask on and on.")
    assert reply.message["stop_reason"] == "end_turn"
    assert saying(await agent.work("Go on.")) == "Done."


@story()
async def twelve_hidden_calls_in_a_reply(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), *(ask(f"question {number}") for number in range(12))], [read("/a.py")])
    assert saying(await agent.work("Ask all at once.")) == "Done."


@story()
async def hidden_calls_with_strange_inputs(scene: Scene) -> None:
    agent = scene.agent()
    strange: list[Json] = [{}, {"question": 7}, {"object_id": ["x"]}, {"query": None}, {"q": "\N{GRINNING FACE}" * 400}]
    for name in ("memory_query", "memory_restore", "memory_release", "memory_search"):
        agent.hears([think(), *(call(name, **given) for given in strange)])
        assert saying(await agent.work(f"Call {name}.")) == "Done."
    await writes(agent, 4)


@story()
async def hidden_call_whose_json_is_broken(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(streamed(broken("memory_query", '{"question": "what wa')), [text("Well.")])
    assert saying(await agent.work("Ask.")) == "Well."
    agent.hears(streamed(text("I look."), broken("memory_query", '{"question"'), cut("Read", {"file_path": "/a.py"})))
    assert saying(await agent.work("Ask again.")) == "Done."
    await writes(agent, 4)


@story()
async def clients_call_whose_json_is_broken(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(streamed(text("I look."), broken("Read", '{"file_path": "/a')))
    reply = await agent.prompt_with("Read it.")
    assert reply.message["stop_reason"] == "tool_use"
    agent.history[-1]["content"][-1]["input"] = {}  # as Claude Code sends back what is not JSON
    assert saying(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def hidden_calls_cut_by_max_tokens(scene: Scene) -> None:
    agent = scene.agent()
    limit = {"stop_reason": "max_tokens"}
    for cut_reply in (
        says(think(), text("I look."), ask(), **limit),
        says(ask(), **limit),
        streamed(text("Now"), broken("memory_query", '{"que'), stop="max_tokens"),
        streamed(text("Now"), broken("Read", '{"file'), stop="max_tokens"),
    ):
        agent.hears(cut_reply)
        reply = await agent.prompt_with("Look.")
        assert reply.message["stop_reason"] == "max_tokens"
        calls = [block for block in agent.history[-1]["content"] if block["type"] == "tool_use"]
        for block in calls:
            block["input"] = block["input"] if isinstance(block["input"], dict) else {}
        assert saying(await agent.turn(*agent.results(reply), text("Please continue."))) == "Done."


@story()
async def the_end_is_what_the_provider_says(scene: Scene) -> None:
    agent = scene.agent()
    for stop in ("stop_sequence", "model_context_window_exceeded", "refusal", "max_tokens"):
        given: Json = {"stop_reason": stop}
        if stop == "stop_sequence":
            given["stop_sequence"] = "END"
        if stop == "refusal":
            given["stop_details"] = {"category": "cyber"}
        agent.hears([think(), ask()], says(think(), text("This far."), **given))
        reply = await agent.prompt_with("Go.")
        assert reply.message["stop_reason"] == stop
        assert saying(await agent.prompt_with("And on.")) == "Done."


@story()
async def a_reply_of_thinking_alone(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], says(think("I cannot say.")))
    reply = await agent.prompt_with("Go.")
    assert [block["type"] for block in reply.content[:2]] == ["thinking", "thinking"]
    assert saying(await agent.prompt_with("And on.")) == "Done."


@story()
async def what_left_is_asked_for_and_comes_back(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 6)
    marks = marks_in(scene.sent[-1]["messages"])
    for mark in marks[:3]:
        agent.hears([think("It left."), restore(mark)], [think(), look_up("value"), read("/x.py")], [text("Good.")])
        assert saying(await agent.work(f"What was in #{mark}?")) == "Good."
    await writes(agent, 6, first=20)
    agent.hears([think(), release(*marks[:2]), ask("part_3")], [text("Gone.")])
    assert saying(await agent.work("Let go.")) == "Gone."
    await writes(agent, 3, first=30)


# Faults

HURRY: Json = {"retry_after": 0.01}


@story()
async def overloaded_at_first(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), text("Fine.")])
    await agent.prompt_with("Hello.")
    for status in (429, 500, 529):
        agent.hears(fails(status, headers=[["retry-after", "7"], ["anthropic-ratelimit-unified-status", "rejected"]]))
        agent.say(text(f"After {status}?"))
        reply = await agent.send()
        assert reply.status == status
        assert saying(agent.take(await agent.send())) == "Done."


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
        assert saying(await agent.work("Go.")) == "Done."


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
        agent.hears([think(), text("I look."), ask()], says(text("Never."), faults=[fault]), [read(f"/a{number}.py")])
        assert saying(await agent.work("Go.")) == "Done."


@story()
async def hidden_rounds_that_stay_refused(scene: Scene) -> None:
    agent = scene.agent()
    for visible in ([], [text("I look.")]):
        agent.hears([think(), *visible, ask()], fails(403, "no"))
        agent.say(text("Go."))
        reply = await agent.send()
        assert reply.error == "permission_error"
        if reply.content:  # Claude Code goes on from what it saw
            agent.history.append({"role": "assistant", "content": reply.content})
            agent.say(text("Your response above was cut off mid-stream. Resume directly from where it stopped."))
        assert saying(agent.take(await agent.send())) == "Done."


@story()
async def a_stream_that_fails_in_the_middle(scene: Scene) -> None:
    agent = scene.agent()
    await agent.prompt_with("Hello.")
    for number, fault in enumerate(({"kind": "error_event", "at": 8}, {"kind": "cut", "at": 9, "inside": 20})):
        agent.hears(says(think(), text("This is what I found, and it is much."), ask(), read("/a.py"), faults=[fault]))
        agent.say(text(f"What is it? {number}"))
        reply = await agent.send()
        assert not reply.ended
        partial = [block for block in reply.content if block["type"] != "thinking"]
        if partial:
            agent.history.append({"role": "assistant", "content": partial})
            agent.say(text("Your response above was cut off mid-stream. Resume directly from where it stopped."))
        assert saying(agent.take(await agent.send())) == "Done."


@story()
async def a_stream_that_is_cut_at_every_place(scene: Scene) -> None:
    agent = scene.agent()
    for place in range(0, 23, 2):
        agent.hears(says(think("Well, well."), text("A text."), ask(), faults=[{"kind": "cut", "at": place}]))
        agent.say(text(f"Place {place}?"))
        reply = await agent.send()
        if reply.ended:  # the reply was whole; what broke was the connection that it came on
            assert saying(agent.take(reply)) == "Done."
            continue
        agent.hears([think(), text(f"It is {place}.")])
        assert saying(agent.take(await agent.send())) == f"It is {place}."


@story()
async def a_prompt_that_is_too_long(scene: Scene) -> None:
    agent = scene.agent()
    await reads(agent, 3)
    agent.hears(fails(400, "prompt is too long: 1010000 tokens > 1000000 maximum"))
    agent.say(text("More."))
    assert (await agent.send()).status == 400
    await compacted(agent)
    await reads(agent, 3, first=10)


@story()
async def a_provider_that_refuses_our_tools(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(fails(400, "tools.7.custom.name: memory_query is not allowed for this account"))
    assert saying(await agent.prompt_with("Hello.")) == "Done."
    assert "memory_query" not in json.dumps(scene.sent[-1])
    await writes(agent, 3)


@story()
async def a_provider_that_begins_to_refuse_our_tools(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], [think(), read("/a.py"), ask()])
    reply = await agent.prompt_with("Hello.")
    agent.hears(fails(400, "tools.8: memory_search is not allowed"))
    assert saying(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def a_key_that_is_refused(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears(fails(401, "invalid x-api-key"))
    agent.say(text("Hello."))
    assert (await agent.send()).status == 401
    assert saying(agent.take(await agent.send())) == "Done."


# What clients do


@story()
async def a_client_that_leaves_and_tries_again(scene: Scene) -> None:
    agent = scene.agent()
    await agent.work("Hello.")
    agent.hears(says(think(), text("A long story."), pace={"between": 3600, "characters": 4}), [think(), ask()])
    agent.say(text("Tell me."))
    await agent.leave(shown=b"content_block_start")
    assert saying(agent.take(await agent.send())) == "Done."


@story()
async def a_client_that_leaves_in_a_hidden_round(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), text("I look."), ask()], says(text("Late."), pace={"first": 3600}))
    agent.say(text("What was it?"))
    await agent.leave(rounds=2)
    agent.history.append({"role": "assistant", "content": [text("I look.")]})
    assert saying(await agent.turn(text("[Request interrupted by user]"), text("Leave it."))) == "Done."
    agent.hears([ask()], says(text("Late."), pace={"first": 3600}))
    agent.say(text("And that?"))
    await agent.leave(rounds=2)
    assert saying(agent.take(await agent.send())) == "Done."


@story()
async def a_reply_that_got_lost_and_is_asked_for_again(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    agent.say(text("Hello."))
    await agent.send()
    agent.hears([think("Once more."), look_up(), read("/b.py")])
    reply = agent.take(await agent.send())
    assert saying(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def two_requests_at_once(scene: Scene) -> None:
    agent = scene.agent()
    await agent.work("Hello.")
    agents = [agent, *(agent.sub_agent(f"s{number}") for number in range(3))]

    async def run(each: Agent) -> None:
        each.hears([think(), ask(), read("/a.py")], [think(), look_up()], [read("/b.py")])
        assert saying(await each.work("Look around.")) == "Done."

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
        assert saying(await agent.work(f"No, otherwise, from {prompt}.")) == "Done."
        await agent.work("And this.")
    await writes(agent, 3)


def rewind(agent: Agent, prompt: int) -> None:
    """Esc Esc: the prompt of that number is typed anew."""
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
    for kept in (len(agent.history) - 5, 6):  # stopped in the midst of its work, and told otherwise
        del agent.history[kept:]
        assert agent.history[-1]["role"] == "user"
        agent.history.append({"role": "assistant", "content": [text("I stop here.")]})
        agent.hears([think(), look_up(), read("/b.py")])
        assert saying(await agent.work(f"No, otherwise, from {kept}.")) == "Done."
        await writes(agent, 3, first=20 + kept)
    rewind(agent, 0)
    await writes(agent, 3, first=40)


async def compacted(agent: Agent) -> None:
    """What Claude Code does on /compact, and the first words after it."""
    before = list(agent.history)
    if before[-1]["role"] == "user":
        before.pop()
    words = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Write a <summary> of all of it."
    agent.history = [*before, {"role": "user", "content": [text(words)]}]
    agent.hears(says(think(), text("<summary>It was about files.</summary>")))
    summary = await agent.send()
    assert "summary" in saying(summary)
    after_compaction(agent, before[-1])
    agent.hears([think(), ask("the files")], [think(), text("Going on.")])
    assert saying(await agent.prompt_with("After the compaction.")) == "Going on."


def after_compaction(agent: Agent, last: Json) -> None:
    """The history as Claude Code has it then: the assistant's last words stay, and two messages of the user follow."""
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
    assert saying(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 6)
    await scene.restart(Mode.OBSERVE)
    await writes(agent, 3, first=10)


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
        assert saying(await each.work("And now?")) == "Done."
    await writes(again, 3, first=20)


@story(long=True)
async def models_that_change(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask()], [think(), read("/a.py")])
    await agent.work("Hello.")
    for number, model in enumerate(("claude-opus-5", "claude-opus-5-5", "claude-fable-5-2", "claude-opus-5-5")):
        agent.model = model
        agent.hears([think(), look_up()], [think(), read(f"/b{number}.py"), ask()])
        assert saying(await agent.work(f"Now with {model}.")) == "Done."
    await writes(agent, 4)
    agent.model = "claude-opus-5"
    await writes(agent, 3, first=10)


@story()
async def a_fallback_model_in_mid_loop(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), read("/a.py"), ask()], fails(529))
    reply = await agent.prompt_with("Hello.")
    agent.say(*agent.results(reply))
    assert (await agent.send()).status == 529
    agent.model = "claude-opus-4-8"
    agent.hears([think(), look_up()], [think(), read("/b.py")])
    reply = agent.take(await agent.send())
    assert saying(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def tools_that_come_and_go(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Hello.")
    own = list(agent.tools)
    more = [tool("mcp__db__query"), tool("mcp__db__schema")]
    for number, tools in enumerate(([*own, *more], [*own, more[1]], own[:5], own)):
        agent.tools = tools
        agent.hears([think(), look_up(), read(f"/b{number}.py")])
        assert saying(await agent.work("And now?")) == "Done."
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
    assert saying(reply) == "Done."
    await writes(agent, 4)


@story()
async def a_system_prompt_that_changes_at_midnight(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Hello.")
    agent.prompt = "You are an interactive agent; today is another day. "
    assert saying(await agent.work("And now?")) == "Done."
    await writes(agent, 3)


@story()
async def sub_agents(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), call("Task", prompt="Look."), ask(), call("Task", prompt="Look there.")])
    reply = await agent.prompt_with("Delegate.")
    for number in range(2):
        sub = agent.sub_agent(f"sub{number}")
        sub.hears([think(), ask()], [think(), read("/a.py"), look_up()])
        assert saying(await sub.work("Look around.")) == "Done."
        nested = sub.sub_agent(f"nested{number}")
        nested.headers = {"x-claude-code-parent-agent-id": str(sub.agent)}
        nested.hears([think(), look_up(), read("/b.py")])
        assert saying(await nested.work("Look deeper.")) == "Done."
    assert saying(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def titles_and_summaries_beside_it(scene: Scene) -> None:
    agent = scene.agent()
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    side = scene.agent(tools=[], model="claude-haiku-4-5")
    side.session, side.marks = agent.session, 0
    side.members = {"max_tokens": 512, "output_config": {"format": {"type": "json_schema", "schema": schema}}}
    side.history = [{"role": "user", "content": [text("<session>\nHello.\n</session>")]}]
    assert "title" in saying(await side.send())
    agent.hears([think(), ask(), read("/a.py")])
    reply = await agent.prompt_with("Hello.")
    side.members = {"max_tokens": 512}
    side.history = [{"role": "user", "content": [text("Summarise the output of the tool in five words.")]}]
    assert saying(await side.send())
    assert saying(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def tokens_that_are_counted(scene: Scene) -> None:
    agent = scene.agent()
    small = await agent.count(text("Hello."))
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Hello.")
    await writes(agent, 6)
    assert await agent.count(text("How long is this?")) > small


# What content there is

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
    assert saying(reply) == "Done."
    await writes(agent, 6)
    agent.hears([think(), *(restore(mark) for mark in marks_in(scene.sent[-1]["messages"])[:3])])
    assert saying(await agent.work("What was in the picture?")) == "Done."
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
        assert saying(await agent.work(f"Search for {number}.")) == "So it is."
        await writes(agent, 2, first=10 * number)


@story()
async def a_turn_that_the_provider_pauses(scene: Scene) -> None:
    agent = scene.agent()
    agent.marks = 0
    agent.tools = [*agent.tools, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]
    for number, hidden in enumerate(([], [ask()])):
        agent.hears(says(think(), *hidden, *searched(number)[:2], stop_reason="pause_turn"))
        reply = await agent.prompt_with("Search long.")
        assert reply.message["stop_reason"] == "pause_turn"
        agent.hears([think(), text("Found.")])
        assert saying(agent.take(await agent.send())) == "Found."
        agent.history[-2:] = [
            {"role": "assistant", "content": [*agent.history[-2]["content"], *agent.history[-1]["content"]]}
        ]
        assert saying(await agent.work("And?")) == "Done."


@story()
async def blocks_that_nobody_knows(scene: Scene) -> None:
    agent = scene.agent()
    unknown = {"type": "connector_text", "connector": "c1", "text": "As the connector says.", "more": {"x": [1.0, 2]}}
    agent.hears([think(), unknown, ask()], [unknown, text("So."), read("/a.py")])
    assert saying(await agent.work("Hello.")) == "Done."
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
    assert saying(await agent.work("Is that right?")) == "Done."
    await writes(agent, 3, first=20)


@story()
async def off_in_the_middle_of_a_hidden_round(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 4)
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), text("Fine.")])
    reply = await agent.prompt_with("Hello.")
    await scene.turn_off(agent.session)
    scene.replies[agent.name].clear()
    assert saying(await agent.turn(*agent.results(reply))) == "Done."
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
        assert saying(await agent.work(f"Step {number}")) == "Done."
        await writes(agent, 3, first=10 * number)


# What real clients and providers do besides


@story()
async def javascript_writes_it_again(scene: Scene) -> None:
    """Whole floats become integers, texts keep their white space, blank texts come back, keys stand elsewhere."""
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
        assert saying(reply) == "Said.\n"
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
    assert saying(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def the_user_interrupts_a_tool(scene: Scene) -> None:
    agent = scene.agent()
    for number in range(3):
        agent.hears([think(), text("I run it."), ask(), call("Bash", command="sleep 99"), read("/a.py")])
        reply = await agent.prompt_with("Run it.")
        results = agent.results(reply, lambda _: "The user doesn't want to proceed with this tool use.")
        stopped = text("[Request interrupted by user for tool use]")
        agent.say(*({**each, "is_error": True} for each in results), stopped)
        agent.history[-1]["content"].append(text(f"Do {number} instead."))
        agent.hears([think(), look_up()], [text("All right.")])
        assert saying(agent.take(await agent.send())) == "All right."
    await writes(agent, 3)


@story()
async def reminders_in_the_midst_of_a_loop(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    reply = await agent.prompt_with("Go.")
    for number in range(8):
        agent.hears([think(), *([look_up()] if number % 3 else []), read(f"/b{number}.py")])
        reminder = text(f"<system-reminder>The file /c{number}.py was changed by the user.</system-reminder>")
        agent.say(*agent.results(reply), reminder)
        agent.history.append({"role": "system", "content": [text(f"The todo list has {number} items.")]})
        reply = agent.take(await agent.send())
    assert saying(await agent.turn(*agent.results(reply))) == "Done."
    await writes(agent, 3)


@story()
async def thinking_that_is_turned_off_and_on(scene: Scene) -> None:
    agent = scene.agent()
    for number, thinks in enumerate((True, False, True)):
        agent.members = {"max_tokens": 32000, **({"thinking": {"type": "adaptive"}} if thinks else {})}
        thought = [think()] if thinks else []
        agent.hears([*thought, ask()], [*thought, read(f"/a{number}.py"), look_up()], [*thought, text("Well.")])
        assert saying(await agent.work(f"Step {number}")) == "Well."
        agent.members["output_config"] = {"effort": "high" if number else "low"}
        assert saying(await agent.prompt_with("Harder.")) == "Done."


@story()
async def a_model_that_takes_no_system_messages(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")])
    await agent.work("Go.")
    agent.model = "claude-sonnet-4-6"  # Claude Code puts the same text into the first message then
    first, operator, *rest = agent.history
    agent.history = [{"role": "user", "content": [first["content"][0], *operator["content"], *first["content"][1:]]}]
    agent.history += rest
    agent.members = {"thinking": {"type": "enabled", "budget_tokens": 31999}, "max_tokens": 32000}
    agent.hears([think(), ask()], [think(), read("/b.py"), look_up()])
    assert saying(await agent.work("And now?")) == "Done."
    await writes(agent, 3)
    agent.model, agent.history = "claude-opus-5-5", [first, operator, *agent.history[1:]]
    agent.members = {"thinking": {"type": "adaptive"}, "max_tokens": 32000}
    agent.hears([think(), ask()], [think(), read("/c.py")])
    assert saying(await agent.work("And back?")) == "Done."


@story()
async def a_client_that_asks_for_dropped_blocks(scene: Scene) -> None:
    agent = scene.agent()
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    agent.members, agent.betas = {"thinking": binding, "max_tokens": 32000}, BETAS + DROPPING
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), read("/b.py")])
    assert saying(await agent.work("Go.")) == "Done."
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
    assert saying(await agent.work("Go.")) == "Done."


@story()
async def a_program_without_a_session(scene: Scene) -> None:
    agent = scene.agent(betas="", target="/v1/messages")
    agent.headers = {"user-agent": "Anthropic/Python 2.11.0", "x-claude-code-session-id": None}
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()], [think(), text("Well.")])
    assert saying(await agent.work(f"Go, {scene.name}.")) == "Well."
    await writes(agent, 4)


@story()
async def probes_and_warm_ups(scene: Scene) -> None:
    agent = scene.agent()
    probe = scene.agent(tools=[], model="claude-haiku-4-5", marks=0)
    probe.session, probe.members = agent.session, {"max_tokens": 1}
    probe.history = [{"role": "user", "content": [text("quota")]}]
    assert (await probe.send()).ended
    agent.say(text("Go."))
    agent.members["max_tokens"] = 0
    agent.hears(says(stop_reason="max_tokens"))
    assert (await agent.send()).message["stop_reason"] == "max_tokens"
    agent.members["max_tokens"] = 32000
    agent.hears([think(), ask()], [think(), read("/a.py")])
    reply = agent.take(await agent.send())
    assert saying(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def a_provider_that_says_more_than_is_known(scene: Scene) -> None:
    agent = scene.agent()
    odd: Json = {
        "faults": [
            {"kind": "comment", "at": 2, "text": "keep-alive"},
            {"kind": "ping", "at": 4},
            {"kind": "ping", "at": 6},
        ]
    }
    agent.hears(says(think(), text("I look."), ask(), **odd), says(think(), read("/a.py"), **odd))
    assert saying(await agent.work("Go.")) == "Done."


@story(long=True)
async def compaction_in_the_midst_of_a_loop(scene: Scene) -> None:
    agent = scene.agent()
    await writes(agent, 3)
    agent.hears([think(), ask()], [think(), read("/a.py"), look_up()])
    reply = await agent.prompt_with("Look.")
    before = list(agent.history)
    words = text("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Write a <summary> of all of it.")
    agent.history.append({"role": "user", "content": [*agent.results(reply), words]})
    agent.hears(says(think(), text("<summary>It was about files.</summary>")))
    assert "summary" in saying(await agent.send())
    after_compaction(agent, before[-1])
    agent.hears([think(), restore("abc1234")], [think(), read("/b.py"), ask("the files")])
    assert saying(await agent.work("After the compaction.")) == "Done."
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
        assert saying(await agent.turn(*agent.results(reply))) == "Done."
        await writes(agent, 3, first=10 * number)


@story()
async def a_result_larger_than_the_window(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), read("/huge.log"), ask()], [think(), look_up()], [think(), read("/b.py")])
    reply = await agent.work("Read it.", lambda each: file_of(each, 1500 if "huge" in json.dumps(each) else 60))
    assert saying(reply) == "Done."
    await writes(agent, 3)
    agent.hears([think(), *(restore(mark) for mark in marks_in(scene.sent[-1]["messages"])[:2])])
    assert saying(await agent.work("What was in it?")) == "Done."


@story(long=True)
async def another_claude_md_over_night(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()])
    await agent.work("Go.")
    await writes(agent, 6)
    agent.history[0] = {"role": "user", "content": [text(REMINDER.replace("tabs", "spaces")), text("Go.")]}
    agent.hears([think(), ask()], [think(), read("/b.py"), look_up()])
    assert saying(await agent.work("And now?")) == "Done."
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
        assert saying(await each.turn(*each.results(second))) == "Done."


@story(long=True)
async def overloaded_again_and_again(scene: Scene) -> None:
    agent = scene.agent()
    await agent.prompt_with("Hello.")
    for number in range(4):
        agent.say(text(f"Step {number}"))
        agent.hears(*(fails(529) for _ in range(3)), [think(), ask()], fails(529, **HURRY), fails(429, **HURRY))
        agent.hears([think(), read("/a.py"), look_up()])
        for _ in range(3):
            assert (await agent.send()).status == 529
        reply = agent.take(await agent.send())
        assert saying(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def a_client_that_strips_its_thinking(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), text("So."), read("/b.py")])
    await agent.work("Go.")
    for message in agent.history:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    agent.hears([think(), ask(), read("/c.py")])
    assert saying(await agent.work("And on.")) == "Done."
    await writes(agent, 3)


@story(long=True)
async def agents_that_all_start_at_once(scene: Scene) -> None:
    agent = scene.agent()
    agent.hears([think(), *(call("Task", prompt=f"Part {number}") for number in range(5)), ask()])
    reply = await agent.prompt_with("Delegate.")
    subs = [agent.sub_agent(f"s{number}") for number in range(5)]

    async def run(sub: Agent) -> None:
        sub.hears([think(), ask(), read("/a.py")], [think(), look_up()], [think(), read("/b.py")])
        assert saying(await sub.work(f"Part of {sub.name}.")) == "Done."

    async with trio.open_nursery() as nursery:
        for sub in subs:
            nursery.start_soon(run, sub)
    agent.hears([think(), look_up()])
    assert saying(await agent.turn(*agent.results(reply))) == "Done."


@story()
async def a_paused_turn_with_a_hidden_call_behind_the_search(scene: Scene) -> None:
    agent = scene.agent(marks=0)
    agent.tools = [*agent.tools, {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]
    for number in range(2):
        agent.hears(
            [think(), *searched(10 * number), ask()],
            says(think(), text("More."), *searched(10 * number + 1)[:2], stop_reason="pause_turn"),
        )
        reply = await agent.prompt_with("Search long.")
        assert reply.message["stop_reason"] == "pause_turn"
        agent.hears([think(), ask()], [think(), look_up()], [think(), text("Found.")])
        assert saying(agent.take(await agent.send())) == "Found."
        await scene.restart()
        agent.history[-2:] = [
            {"role": "assistant", "content": [*agent.history[-2]["content"], *agent.history[-1]["content"]]}
        ]
        assert saying(await agent.work("And?")) == "Done."


# Replies that no script can make


def broken(name: str, fragment: str) -> Json:
    """A call whose input never became JSON."""
    return {"type": "tool_use", "id": f"toolu_{name}{abs(hash(fragment)) % 10**9}", "name": name, "fragment": fragment}


def cut(name: str, given: Json) -> Json:
    return broken(name, json.dumps(given))


def streamed(*content: Json, stop: str = "tool_use") -> ScriptedReply:
    """A literal stream of texts and calls."""
    usage = {"input_tokens": 9, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0, "output_tokens": 40}
    message: Json = {"id": f"msg_{abs(hash(json.dumps(content))) % 10**9}", "type": "message", "role": "assistant"}
    message |= {"model": "claude-opus-5-5", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(content):
        fragment = block.get("fragment")
        first = {**block, "text": ""} if fragment is None else {**block, "input": {}}
        first.pop("fragment", None)
        piece = {"type": "text_delta", "text": block.get("text")}
        delta = piece if fragment is None else {"type": "input_json_delta", "partial_json": fragment}
        events += [
            {"type": "content_block_start", "index": index, "content_block": first},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": stop, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return says(raw={"headers": [["content-type", "text/event-stream"]], "body": body})
