"""Access to a session's memory, through a complete managing proxy: a request may see what its own history proves or,
where its client dropped that, what the same credential sent there before.
"""

import copy
import json
from itertools import product
from typing import Any

import pytest

from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.session.directory import operator_stream
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog, events_of
from tests.http.managing import Client, Json, Stage, open_stage, recall, restore, results, text
from tests.http.managing import look_for as search
from tests.http.test_epochs import SMALL as WINDOW
from tests.http.test_epochs import TOOLS, answer, read, reads
from tests.profiles import rarely

SECRET, SOURCE = "heliotrope", "/src/vault.py"
"""What was read, and where: a search tells only of the latter."""
KEY = "the-first-ones-key"
QUESTION = "what is the code of the vault"
HELLO = "Go on."
SUMMARIZE = "CRITICAL: Respond with TEXT ONLY. Summarize."
SUMMARY = "\n".join(
    f"{number}. The parts of the program were read, and number {number} is next." for number in range(9)
)
OTHER_SUMMARY = SUMMARY.replace("parts of the program", "first words of it")
CONTINUED = "This session is being continued from a previous conversation that ran out of context."
CALLS = {"query": recall(QUESTION), "search": search(QUESTION), "restore": restore("")}


def stranger(client: Client, credential: str, **given: Any) -> Client:
    """Another client with a credential that knows the name of the first client's session, if it has one."""
    headers = {"x-api-key": client.headers["x-api-key"] if credential == "same" else "of-another"}
    known: dict[str, Any] = {"url": client.url, "session": client.session, "headers": headers}
    return Client(tools=TOOLS, **known | given)


async def tell_secret(stage: Stage, *, named: bool) -> Client:
    """A conversation that contains a secret, and whose client then has its history summarized."""
    client = stage.client(tools=TOOLS, session="s" if named else "", headers={"x-api-key": KEY})
    message = await reads(client, stage, {"content": []}, 3)
    answer(stage, [read(SOURCE)])
    message = await client.turn(*results(message))
    (call,) = (block["id"] for block in message["content"] if block["type"] == "tool_use")
    answer(stage, [read("/src/after.py")])
    code = "".join(f"{number:6}\tThe code of the vault, line {number}, is {SECRET}\n" for number in range(18))
    message = await client.turn({"type": "tool_result", "tool_use_id": call, "content": code})
    await reads(client, stage, message, 8, first=10)
    answer(stage, [text(SUMMARY)])
    last = client.history.pop()
    await client.turn(text(SUMMARIZE))
    client.history[-2:] = [last]
    return client


async def secret_id(stage: Stage) -> str:
    found = [
        event.object
        for stream in await stage.log.streams()
        if stream != operator_stream("t")
        for event in await events_of(stage.log, stream)
        if isinstance(event, ObjectCreated) and SOURCE in repr(event)
    ]
    assert found
    return found[0]


async def asks(stage: Stage, client: Client, call: Json, *first: Json) -> str:
    """The memory's answer to a call of the model in a turn that begins this way."""
    if call["name"] == "memory_restore":
        call = restore(await secret_id(stage))
    answer(stage, [call], [text("Done.")])
    before = len(stage.upstream)
    await client.turn(*first)
    assert len(stage.upstream) == before + 2, "the tool was not called"
    return json.dumps(stage.upstream[-1]["messages"][-1])


NAMED, UNNAMED, SUMMED, REPEATED, MADE, PREFIX, WHOLE = (
    "named",
    "unnamed",
    "summary",
    "repeated summary",
    "summary of its own",
    "prefix",
    "whole",
)

SEES = {
    NAMED: {"other": False, "same": False},
    UNNAMED: {"other": False, "same": False},
    SUMMED: {"other": False, "same": True},
    REPEATED: {"other": True, "same": True},
    MADE: {"other": False, "same": True},
    PREFIX: {"other": False, "same": False},
    WHOLE: {"other": True, "same": True},
}
"""Why a request is taken to belong to the session, and with which credential it may see the secret."""


async def newcomer(stage: Stage, client: Client, by: str, credential: str, tool: str) -> tuple[Client, Json]:
    """A client that connects this way, and its first message."""
    other = stranger(client, credential)
    match by:
        case "unnamed":
            return other, text(HELLO)
        case "summary":
            return other, text(f"{CONTINUED} It was about a vault, says {tool} with this {credential} key.")
        case "repeated summary":
            return other, text(f"{CONTINUED}\n\n<summary>\n{SUMMARY}\n</summary>\nGo on with {tool}.")
        case "summary of its own":
            made = f"{OTHER_SUMMARY}\nIt has the {credential} key."
            answer(stage, [text(made)])
            other.history = copy.deepcopy(client.history[:2])
            other.history += [{"role": "user", "content": [*results(other.history[-1]), text(SUMMARIZE)]}]
            await other.send()
            other.history.clear()
            return other, text(f"{CONTINUED}\n\n{made}\n{tool}")
        case "prefix" | "whole":
            history = copy.deepcopy(client.history[:6] if by == PREFIX else client.history[:-1])
            other = stranger(client, credential, session=f"{credential}-{tool}", history=history)
        case _:
            pass
    return other, text(f"Something else, for {tool} with the {credential} key.")


@pytest.mark.parametrize("by", [PREFIX, *rarely(each for each in SEES if each != PREFIX)])
async def test_access_needs_proof_by_history_or_credential(by: str) -> None:
    async with open_stage(window=WINDOW) as stage:
        client = await tell_secret(stage, named=by != UNNAMED)
        for (credential, sees), (tool, call) in product(SEES[by].items(), CALLS.items()):
            other, first = await newcomer(stage, client, by, credential, tool)
            called = results(other.history[-1]) if other.history else []
            answered = await asks(stage, other, call, *called, first)
            assert (SECRET in answered or SOURCE in answered) is sees, (credential, tool, answered[:2000])
        assert [each.status for each in stage.standin.messages if each.status != 200] == []


@pytest.mark.release
@pytest.mark.parametrize(
    ("words", "sees"), [*rarely([("It was about a vault.", False)]), (SUMMARY, True)], ids=["own", "recorded"]
)
async def test_restarted_server_recognizes_a_client_by_the_recorded_summary(words: str, sees: bool) -> None:
    async with open_standin({"rules": []}) as standin:
        log = StoppableLog()
        async with open_stage(log=log, standin=standin, window=WINDOW) as stage:
            client = await tell_secret(stage, named=True)
        async with open_stage(log=log, standin=standin, window=WINDOW) as stage:
            other = stranger(client, "same", url=stage.url)
            answered = await asks(stage, other, CALLS["query"], text(f"{CONTINUED}\n\n{words}"))
            assert (SECRET in answered) is sees, answered[:2000]
