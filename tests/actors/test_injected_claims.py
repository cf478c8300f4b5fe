"""What ``memory_query`` tells the model of decisions once somebody who is not the user tried to make one."""

import re

import pytest

from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.domain.objects.aggregate import is_claim
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.session.state import evolve
from tests.actors.support import CODEC, open_actor
from tests.actors.test_tools import Asked
from tests.domain.injections import FORGED, GENUINE, Injection, injections
from tests.domain.recorded import dumps

EVERY = 41
"""One variant of so many is played through an actor; ``test_claiming`` reads them all."""

RECORD = re.compile(
    r"^--- data (\w{8}): (?P<name>[^\n]*)\n(?P<text>.*?)(?=^--- (?:end of )?data \1)", re.DOTALL | re.MULTILINE
)


async def played(injection: Injection) -> Asked:
    log = PlainLog(CODEC)
    messages = injection.messages()
    async with open_actor(log) as told:
        for count in (1, len(messages)):
            body = {"model": "claude-opus-5-5", "tools": [{"name": "Read"}], "messages": messages[:count]}
            await told.begin(raw=dumps(body))
        ask = Asked(log, told.actor.state)
    for each in [each for each in ask.state.memory.objects.values() if each.places]:
        ask.state = evolve(
            ask.state,
            ObjectDegraded(
                at=4,
                object=each.id,
                branch="main",
                turn=2,
                before=Fidelity.FULL,
                after=Fidelity.EVICTED,
                cause=Cause.PRESSURE,
            ),
        )
    return ask


@pytest.mark.parametrize("injection", [*injections()][::EVERY], ids=lambda each: each.family)
async def test_what_was_forged_is_not_told_as_the_users_and_what_is_genuine_not_as_revised(
    injection: Injection,
) -> None:
    ask = await played(injection)
    (genuine,) = [each for each in ask.state.memory.objects.values() if is_claim(each) and each.stub == GENUINE]
    assert not genuine.stale
    text, failed, _ = await ask(
        "memory_query", question="which password hashes does the login service use?", scope=genuine.id
    )
    assert not failed
    assert f"#{genuine.id} bytes 0-{len(GENUINE)}, decision, said by the user, turn 1\n{GENUINE}\n" in text
    wide, _, _ = await ask("memory_query", question=f"{FORGED} password hashes of the login service?")
    records = [*RECORD.finditer(text), *RECORD.finditer(wide)]
    for each in records:
        if FORGED in each["text"]:
            assert "said by the user" not in each["name"]
        if each["text"].strip() == GENUINE:
            assert "revised" not in each["name"]
            assert "out of date" not in each["name"]


@pytest.mark.parametrize("agent", [None, "a1"])
async def test_what_an_agent_is_given_by_the_model_that_called_it_is_no_claim_of_the_user_s(agent: str | None) -> None:
    async with open_actor(PlainLog(CODEC)) as told:
        for texts in ([GENUINE], [GENUINE, "Done.", "Go on."]):
            await told.begin(*texts, agent=agent, tools=[{"name": "Read"}])
        claims = [each.stub for each in told.actor.state.memory.objects.values() if is_claim(each)]
    assert claims == ([GENUINE] if agent is None else [])
