"""Memory beyond sessions is its owner's: another key on the same port does not read it, and the owner keeps
it across new tokens, new keys and new servers.
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
from tests.http.managing import Stage, open_stage, said, text
from tests.http.test_knowledge_told import PROJECT, USER, Working, blocks, contents, know
from tests.waiting import DEADLINE

KEY = MemoryKey(b"of this data directory")
CLOCK = itertools.count(1)
"""It goes on where a server is started anew."""
RULE = "From now on always use tabs in the billing service."
ASK = "Change the billing service."


@asynccontextmanager
async def serving(log: StoppableLog, mode: Mode = Mode.MANAGE) -> AsyncIterator[Stage]:
    """A server of this data directory, started anew on a log."""
    rules = {"reply": said(text("Done."))}
    async with open_stage(rules, log=log, mode=mode, clock=CLOCK, memory_tokens=600, owners=MemoryOwners(KEY)) as stage:
        yield stage


def client(stage: Stage, session: str, **headers: str) -> Working:
    return Working(stage.url, session=session, headers={name.replace("_", "-"): each for name, each in headers.items()})


async def talk(stage: Stage, session: str, **headers: str) -> None:
    """Have a session of several turns."""
    one = client(stage, session, **headers)
    for prompt in ("Hello.", RULE, "Thanks."):
        await one.work(prompt)


async def is_told(stage: Stage, session: str, **headers: str) -> bool:
    """Whether a session that begins now is told of the rule."""
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
    await know(stage.log, PROJECT, RULE, kind=EntryKind.CONSTRAINT)


async def admit(log: StoppableLog, credential: str) -> None:
    command = AdmitCredential(at=1, write="w", fingerprint=KEY.fingerprint(credential), how=OwnerProof.COMMAND)
    await KnowledgeStore(log, log).write(USER, command, "c")


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.MANAGE])
@pytest.mark.parametrize(
    "strangers",
    [{"x_api_key": "theirs"}, {"x_api_key": ""}, {"x_api_key": "theirs", "x_mnemosyne_owner_token": "guess"}],
    ids=["another key", "no key", "a wrong token"],
)
async def test_a_stranger_who_names_the_same_folder_does_not_read(mode: Mode, strangers: dict[str, str]) -> None:
    async with serving(StoppableLog(), mode) as stage:
        await talk(stage, "mine", x_api_key="mine")
        await save_rule_of(stage, "mine")
        await talk(stage, "theirs", **strangers)
        assert not await is_told(stage, "theirs, later", **strangers)
        assert await contents(stage.log, PROJECT) == [RULE]
        assert await is_told(stage, "mine, at last", x_api_key="mine")


async def test_an_owner_who_presents_the_token_is_known_by_every_new_credential_and_after_a_restart() -> None:
    log = StoppableLog()
    for number in range(2):
        async with serving(log) as stage:
            bearer = {"x_api_key": "", "authorization": f"Bearer token-{number}"}
            await talk(stage, f"s{number}", **bearer, x_mnemosyne_owner_token=KEY.token)
            await save_rule_of(stage, f"token-{number}")
            refreshed = {**bearer, "authorization": f"Bearer token-{number}-again"}
            assert await is_told(stage, f"t{number}", **refreshed, x_mnemosyne_owner_token=KEY.token)
            assert not await is_told(stage, f"u{number}", x_api_key="theirs")


async def test_a_credential_that_was_presented_once_counts_without_the_token() -> None:
    log = StoppableLog()
    async with serving(log) as stage:
        await talk(stage, "s", x_api_key="mine", x_mnemosyne_owner_token=KEY.token)
        await save_rule_of(stage, "mine")
    async with serving(log) as stage:
        assert await is_told(stage, "t", x_api_key="mine")


async def test_a_new_key_counts_once_its_owner_admits_it_and_one_that_was_removed_no_longer() -> None:
    log = StoppableLog()
    async with serving(log) as stage:
        await talk(stage, "s", x_api_key="old")
        await save_rule_of(stage, "old")
        assert not await is_told(stage, "t", x_api_key="new")
        await admit(log, "new")
        assert await is_told(stage, "u", x_api_key="new")
        assert await is_told(stage, "v", x_api_key="old")
        command = DismissCredential(at=2, write="w", wanted=KEY.fingerprint("old"))
        await KnowledgeStore(log, log).write(USER, command, "c")
        assert not await is_told(stage, "w", x_api_key="old")
        assert await is_told(stage, "x", x_api_key="new")


async def test_memory_without_an_owner_is_for_who_presents_the_token_and_not_for_the_first_to_speak() -> None:
    log = StoppableLog()
    await know(log, PROJECT, RULE, kind=EntryKind.CONSTRAINT)
    async with serving(log) as stage:
        await talk(stage, "s", x_api_key="theirs")
        assert not await is_told(stage, "t", x_api_key="theirs")
        assert await is_told(stage, "u", x_api_key="mine", x_mnemosyne_owner_token=KEY.token)
        await until_admitted(stage, KEY.fingerprint("mine"))
        assert await is_told(stage, "v", x_api_key="mine")
        assert not await is_told(stage, "w", x_api_key="theirs")
        assert await contents(log, PROJECT) == [RULE]


async def test_a_session_that_a_hook_presents_is_the_owner_s_for_the_credential_that_comes_next() -> None:
    log = StoppableLog()
    await know(log, PROJECT, RULE, kind=EntryKind.CONSTRAINT)
    async with serving(log) as stage:
        owners = stage.process.opener.owners
        assert owners is not None
        owners.present("mine")
        assert await is_told(stage, "mine", x_api_key="token-1")
        await until_admitted(stage, KEY.fingerprint("token-1"))
        assert await is_told(stage, "another", x_api_key="token-1")
        assert not await is_told(stage, "theirs", x_api_key="theirs")


async def test_nothing_of_a_credential_or_of_the_token_is_stored_or_sent_on() -> None:
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
