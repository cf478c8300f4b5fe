"""Knowledge across sessions belongs to its owner: another key on the same port cannot read it, and the owner keeps
it across new tokens, keys and servers.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mnemosyne.actors.owners import MemoryOwners
from mnemosyne.domain.knowledge.decide import AdmitCredential, DismissCredential
from mnemosyne.domain.knowledge.kinds import EntryKind, OwnerProof
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.memory_key import MemoryKey
from tests.actors.support import StoppableLog, events_of
from tests.http.managing import Stage, model_says, open_stage, text
from tests.http.test_session_knowledge import PROJECT, USER, Working, blocks, contents, save_knowledge
from tests.waiting import DEADLINE

KEY = MemoryKey(b"of this data directory")
CLOCK = itertools.count(1)
"""It goes on where a server is started anew."""
RULE = "From now on always use tabs in the billing service."
ASK = "Change the billing service."


@asynccontextmanager
async def serving(log: StoppableLog, mode: Mode = Mode.MANAGE) -> AsyncIterator[Stage]:
    """A server of this data directory, restarted on a log."""
    rules = {"reply": model_says(text("Done."))}
    async with open_stage(rules, log=log, mode=mode, clock=CLOCK, memory_tokens=600, owners=MemoryOwners(KEY)) as stage:
        yield stage


def client(stage: Stage, session: str, **headers: str) -> Working:
    return Working(stage.url, session=session, headers={name.replace("_", "-"): each for name, each in headers.items()})


async def talk(stage: Stage, session: str, **headers: str) -> None:
    """Run a session of several turns."""
    one = client(stage, session, **headers)
    for prompt in ("Hello.", RULE, "Thanks."):
        await one.work(prompt)


async def reads_rule(stage: Stage, session: str, **headers: str) -> bool:
    """Whether a session that begins now gets the rule."""
    await client(stage, session, x_mnemosyne_mode="manage", **headers).work(ASK)
    return any(RULE in each for each in blocks(stage.upstream[-1]))


async def until_admitted(stage: Stage, fingerprint: str) -> None:
    with trio.fail_after(DEADLINE):
        position = 0
        while fingerprint not in (await KnowledgeStore(stage.log, stage.log).read(USER)).admitted:
            position = await stage.process.journal.committed.beyond(position)


async def save_rule_of(stage: Stage, credential: str) -> None:
    """Save the rule once the credential is admitted."""
    await until_admitted(stage, KEY.fingerprint(credential))
    await save_knowledge(stage.log, PROJECT, RULE, kind=EntryKind.CONSTRAINT)


async def admit(log: StoppableLog, credential: str) -> None:
    command = AdmitCredential(at=1, write="w", fingerprint=KEY.fingerprint(credential), how=OwnerProof.COMMAND)
    await KnowledgeStore(log, log).write(USER, command, "c")


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.MANAGE])
@pytest.mark.parametrize(
    "strangers",
    [{"x_api_key": "theirs"}, {"x_api_key": ""}, {"x_api_key": "theirs", "x_mnemosyne_owner_token": "guess"}],
    ids=["another key", "no key", "a wrong token"],
)
async def test_stranger_in_the_same_folder_cannot_read_the_knowledge(mode: Mode, strangers: dict[str, str]) -> None:
    async with serving(StoppableLog(), mode) as stage:
        await talk(stage, "mine", x_api_key="mine")
        await save_rule_of(stage, "mine")
        await talk(stage, "theirs", **strangers)
        assert not await reads_rule(stage, "theirs, later", **strangers)
        assert await contents(stage.log, PROJECT) == [RULE]
        assert await reads_rule(stage, "mine, at last", x_api_key="mine")


async def test_owner_who_presents_the_token_is_recognized_with_every_new_credential_and_after_a_restart() -> None:
    log = StoppableLog()
    for number in range(2):
        async with serving(log) as stage:
            bearer = {"x_api_key": "", "authorization": f"Bearer token-{number}"}
            await talk(stage, f"s{number}", **bearer, x_mnemosyne_owner_token=KEY.token)
            await save_rule_of(stage, f"token-{number}")
            refreshed = {**bearer, "authorization": f"Bearer token-{number}-again"}
            assert await reads_rule(stage, f"t{number}", **refreshed, x_mnemosyne_owner_token=KEY.token)
            assert not await reads_rule(stage, f"u{number}", x_api_key="theirs")


async def test_credential_presented_once_counts_without_the_token() -> None:
    log = StoppableLog()
    async with serving(log) as stage:
        await talk(stage, "s", x_api_key="mine", x_mnemosyne_owner_token=KEY.token)
        await save_rule_of(stage, "mine")
    async with serving(log) as stage:
        assert await reads_rule(stage, "t", x_api_key="mine")


async def test_new_key_counts_once_admitted_and_no_longer_once_removed() -> None:
    log = StoppableLog()
    async with serving(log) as stage:
        await talk(stage, "s", x_api_key="old")
        await save_rule_of(stage, "old")
        assert not await reads_rule(stage, "t", x_api_key="new")
        await admit(log, "new")
        assert await reads_rule(stage, "u", x_api_key="new")
        assert await reads_rule(stage, "v", x_api_key="old")
        command = DismissCredential(at=2, write="w", wanted=KEY.fingerprint("old"))
        await KnowledgeStore(log, log).write(USER, command, "c")
        assert not await reads_rule(stage, "w", x_api_key="old")
        assert await reads_rule(stage, "x", x_api_key="new")


async def test_knowledge_without_an_owner_goes_to_the_token_holder_and_not_to_the_first_client() -> None:
    log = StoppableLog()
    await save_knowledge(log, PROJECT, RULE, kind=EntryKind.CONSTRAINT)
    async with serving(log) as stage:
        await talk(stage, "s", x_api_key="theirs")
        assert not await reads_rule(stage, "t", x_api_key="theirs")
        assert await reads_rule(stage, "u", x_api_key="mine", x_mnemosyne_owner_token=KEY.token)
        await until_admitted(stage, KEY.fingerprint("mine"))
        assert await reads_rule(stage, "v", x_api_key="mine")
        assert not await reads_rule(stage, "w", x_api_key="theirs")
        assert await contents(log, PROJECT) == [RULE]


async def test_session_presented_by_a_hook_belongs_to_the_owner_with_its_next_credential() -> None:
    log = StoppableLog()
    await save_knowledge(log, PROJECT, RULE, kind=EntryKind.CONSTRAINT)
    async with serving(log) as stage:
        owners = stage.process.opener.owners
        assert owners is not None
        owners.present("mine")
        assert await reads_rule(stage, "mine", x_api_key="token-1")
        await until_admitted(stage, KEY.fingerprint("token-1"))
        assert await reads_rule(stage, "another", x_api_key="token-1")
        assert not await reads_rule(stage, "theirs", x_api_key="theirs")


async def test_neither_credential_nor_token_is_stored_or_forwarded() -> None:
    async with serving(StoppableLog()) as stage:
        await talk(stage, "s", x_api_key="sk-ant-api03-mine-and-long", x_mnemosyne_owner_token=KEY.token)
        await save_rule_of(stage, "sk-ant-api03-mine-and-long")
        streams = [*await stage.log.streams(), *await stage.log.knowledge_streams()]
        recorded = repr([await events_of(stage.log, stream) for stream in streams])
        assert KEY.fingerprint("sk-ant-api03-mine-and-long") in recorded
        assert "mine-and-long" not in recorded
        assert KEY.token not in recorded
        sent = repr([each.headers for each in stage.standin.messages])
        assert "mine-and-long" in sent
        assert KEY.token not in sent
        assert "owner" not in sent
