"""Operator text (system messages, client notes, project rules, tool definitions) goes upstream complete and in its
place in every epoch, through a complete managing proxy.
"""

import json

from mnemosyne.domain.objects.ids import NOTE
from tests.http.managing import Client, Json, Stage, open_stage, text
from tests.http.test_epochs import MINUTES, SMALL, TOOLS, Clock, answer, epochs_of, read, reads, results_of, violations

RULES = "# claudeMd\n" + "".join(
    f"Rule {number}: never touch file_{number}.py without a test.\n" for number in range(60)
)
PROJECT = f"<system-reminder>\nAs you answer, you can use this context:\n{RULES}</system-reminder>"
DEFERRED = "<system-reminder>\nThese tools are deferred:\n" + "WebFetch\nNotebookEdit\n" * 80 + "</system-reminder>"
ENVIRONMENT = "Working directory: /src. " + "Agents, skills and what you must never do. " * 200
LATER = "<system-reminder>\n" + "The mode is plan: you MUST NOT edit. " * 60 + "</system-reminder>"


def as_claude_code(stage_url: str) -> Client:
    """A client that begins as Claude Code does: notes and the prompt, then a system message."""
    client = Client(stage_url, tools=TOOLS)
    client.history = [
        {"role": "user", "content": [text(PROJECT), text(DEFERRED), text("Review all of these files.")]},
        {"role": "system", "content": [text(ENVIRONMENT)]},
    ]
    return client


async def first_turn(client: Client) -> Json:
    message = await client.send()
    client.history.append({"role": "assistant", "content": message["content"]})
    return message


def texts(message: Json) -> list[str]:
    content = message["content"]
    return [block["text"] for block in content if block["type"] == "text"] if isinstance(content, list) else [content]


async def test_operator_text_stays_complete_and_in_its_place_in_every_epoch() -> None:
    clock = Clock()
    async with (
        open_stage(window=SMALL, clock=clock) as stage,
    ):
        client = as_claude_code(stage.url)
        answer(stage, [text("I look."), {"type": "tool_use", "name": "Read", "input": {"file_path": "/src/a.py"}}])
        message = await first_turn(client)
        message = await reads(client, stage, message, 4)
        note = await client.turn(*results_of(message), text(LATER))
        await reads(client, stage, note, 22, first=5)
        clock.now += 60 * MINUTES
        message = client.history[-1]
        await reads(client, stage, message, 1, first=50)
        assert len(await epochs_of(stage)) >= 3
        assert violations(stage) == []
        for body in stage.upstream:
            messages = body["messages"]
            assert texts(messages[0])[:3] == [PROJECT, DEFERRED, "Review all of these files."]
            assert (messages[1]["role"], texts(messages[1])) == ("system", [ENVIRONMENT])
            assert [each["role"] for each in messages].count("system") == 1
        said_later = [LATER in texts(each) for each in stage.upstream[-1]["messages"]]
        assert said_later.count(True) == 1
        assert stage.upstream[-1]["messages"][said_later.index(True)]["role"] == "user"
        await stage.rounds()


async def test_tool_definitions_loaded_by_a_search_stay_for_the_whole_conversation() -> None:
    found = {"type": "tool_reference", "tool_name": "Bash"}
    async with open_stage(window=SMALL) as stage:
        client = as_claude_code(stage.url)
        answer(stage, [{"type": "tool_use", "name": "ToolSearch", "input": {"query": "run a command"}}])
        (call,) = (await first_turn(client))["content"]
        answer(stage, [{"type": "tool_use", "name": "Read", "input": {"file_path": "/src/a.py"}}])
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": [found]}
        message = await client.turn(result)
        await reads(client, stage, message, 14)
        assert await epochs_of(stage)
        assert violations(stage) == []
        sent = stage.upstream[-1]["messages"]
        assert [block for each in sent for block in each["content"] if block.get("tool_use_id") == call["id"]] == [
            result
        ]


async def test_file_read_for_a_task_is_still_visible_at_its_answer() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = as_claude_code(stage.url)
        message = await asked_to_read(stage, client, 0)
        for number in range(1, 25):
            answer(stage, [text(f"Step {number}."), read(f"/src/part_{number}.py")])
            message = await client.turn(*results_of(message))
        clock.now += 60 * MINUTES  # a rewrite that evicts everything it may
        answer(stage, [text("All of them are fine.")])
        await client.turn(*results_of(message))
        answer(stage, [text("You are welcome.")])
        clock.now += 60 * MINUTES
        await client.turn(text("Thank you."))
        review, after = stage.upstream[-2:]
        assert json.dumps(review).count("value_1 = ") == 25
        assert json.dumps(after).count("value_1 = ") < 20  # nothing was changed since, so the rest stays for now
        assert len(await epochs_of(stage)) == 1
        assert violations(stage) == []


async def test_no_user_message_with_only_memory_notes_follows_the_assistant() -> None:
    async with open_stage(window=SMALL) as stage:
        client = as_claude_code(stage.url)
        message = await asked_to_read(stage, client, 0)
        for number in range(1, 30):
            answer(stage, [text(f"Step {number}."), read(f"/src/part_{number}.py")])
            message = await client.turn(*results_of(message))
        assert await epochs_of(stage)
        assert violations(stage) == []
        for body in stage.upstream:
            for said in body["messages"]:
                ours = [block for block in said["content"] if block.get("text", "").startswith(NOTE)]
                assert said["role"] == "user" or not ours
                assert len(ours) < len(said["content"]) or not ours
            assert "tool_result" not in {block["type"] for block in body["messages"][0]["content"]}


async def asked_to_read(stage: Stage, client: Client, number: int) -> Json:
    answer(stage, [text(f"Step {number}."), read(f"/src/part_{number}.py")])
    return await first_turn(client)


async def test_rewrite_keeps_only_the_last_of_identical_reminders_and_removes_none_earlier() -> None:
    async with open_stage(window=SMALL) as stage:
        client = as_claude_code(stage.url)
        answer(stage, [read("/src/a.py")])
        message = await first_turn(client)
        for number in range(3):
            answer(stage, [read(f"/src/small_{number}.py")])
            message = await client.turn(*results_of(message, 3), text(LATER), text(f"{LATER}{number}"))
        assert await epochs_of(stage) == []
        assert json.dumps(stage.upstream[-1]["messages"]).count(json.dumps(LATER)) == 3
        await reads(client, stage, message, 12)
        (began, *_) = await epochs_of(stage)
        sent = stage.upstream[began.turn - 1]["messages"]
        assert json.dumps(sent).count(json.dumps(LATER)) == 1
        said_once = [words for each in sent for words in texts(each) if words.startswith(LATER) and words != LATER]
        assert said_once == [f"{LATER}{number}" for number in range(3)]
        assert violations(stage) == []
        await stage.rounds()


async def test_rewrite_keeps_only_the_last_of_repeated_system_messages() -> None:
    reminder = "The tools for tasks have not been used lately. " * 20
    async with open_stage(window=SMALL) as stage:
        client = as_claude_code(stage.url)
        answer(stage, [read("/src/a.py")])
        message = await first_turn(client)
        for number in range(3):
            answer(stage, [read(f"/src/small_{number}.py")])
            client.history.append({"role": "user", "content": results_of(message, 3)})
            client.history.append({"role": "system", "content": [text(reminder)]})
            message = await first_turn(client)
        assert [each["role"] for each in stage.upstream[-1]["messages"]].count("system") == 4
        await reads(client, stage, message, 12)
        (began, *_) = await epochs_of(stage)
        sent = stage.upstream[began.turn - 1]["messages"]
        assert [words for each in sent if each["role"] == "system" for words in texts(each)] == [ENVIRONMENT, reminder]
        assert violations(stage) == []
        await stage.rounds()
