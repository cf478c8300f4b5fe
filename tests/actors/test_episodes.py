"""Episodes survive a restart, and the model finds one by its topic and asks about its parts."""

import json
import threading

import pytest

from mnemosyne.actors import deferred_work
from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.texts import ObjectTexts
from mnemosyne.actors.tools import CallContext, MemoryToolExecutor
from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode, parts_of
from mnemosyne.domain.objects.events import ObjectEvent, TurnAssessed
from mnemosyne.domain.objects.faults import RecallBudget
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.segmentation.ingest import Remember, remember
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.wire.reply import HiddenCall
from tests.actors.support import CODEC, STREAM, StoppableLog, open_actor
from tests.domain.recorded import requests
from tests.domain.remembered import degraded
from tests.domain.talks import on_topics
from tests.plain.log import PlainLog

BODIES = list(requests(on_topics("parser", "billing", "parser")))


async def talked(log: PlainLog, *ends: int) -> Session:
    """The session after all requests, with another actor after each of the ``ends``."""
    state = Session()
    for first, last in zip((0, *ends), (*ends, len(BODIES)), strict=True):
        async with open_actor(log) as teller:
            for body in BODIES[first:last]:
                await teller.begin(raw=body)
            state = teller.actor.state
    return state


def episodes(state: Session) -> list[MemoryObject]:
    return [each for each in state.memory.objects.values() if is_episode(each)]


@pytest.mark.release
async def test_another_process_continues_the_same_episodes() -> None:
    once, restarted = [episodes(await talked(PlainLog(CODEC), *ends)) for ends in ((), (20, 50, 53, 66))]
    assert len(once) == 2
    assert [(each.id, each.stub, each.links) for each in once] == [
        (each.id, each.stub, each.links) for each in restarted
    ]


def with_a_stub(state: Session) -> Session:
    """The session after an object was evicted: before that there is nothing to ask about."""
    first = next(each for each in state.memory.objects.values() if each.places)
    return evolve(state, degraded(first.id, Fidelity.STUB, 3))


async def ask(log: PlainLog, state: Session, name: str, **given: object) -> str:
    outside, address = ActorServices(), Address("main", len(BODIES), 1)
    texts = ObjectTexts(Bodies(STREAM, log, log), outside)
    of_round = MemoryToolExecutor(texts, outside, with_a_stub(state), address, CallContext(at=5, budget=RecallBudget()))
    answers = await of_round.answer([HiddenCall("c", name, json.dumps(given))])
    content = json.loads(answers.results["c"])["content"]
    assert isinstance(content, str)
    return content


async def test_an_episode_is_found_by_its_topic_and_asked_by_its_parts(log: StoppableLog) -> None:
    state = await talked(log)
    parser, billing = episodes(state)
    result = await ask(log, state, "memory_search", query="episode about billing_helper", kind="conversation_phase")
    assert f"#{billing.id} episode, turns {billing.first_turn}-{billing.last_turn}, made of #" in result
    assert f"#{parts_of(billing)[0]}" in result
    assert f"and {len(parts_of(billing)) - 10} more" in result
    assert parser.stub not in result.partition(billing.stub)[0]
    for scope, is_found in ((f"#{billing.id}", True), (parser.id, False)):
        result = await ask(log, state, "memory_query", question="billing_node_3?", scope=scope)
        assert ("billing_node_3" in result) is is_found


async def test_other_sessions_do_not_wait_while_many_objects_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[int] = []

    def counted(command: Remember, state: Session) -> tuple[ObjectEvent | TurnAssessed, ...]:
        ran.append(threading.get_ident())
        return remember(command, state)

    monkeypatch.setattr(deferred_work, "remember", counted)
    monkeypatch.setattr(deferred_work, "MANY", 5)
    async with open_actor(PlainLog(CODEC)) as teller:
        for body in BODIES[:12]:
            await teller.begin(raw=body)
            await teller.begin(raw=body)  # by then the objects of the one before are made
    loop = threading.get_ident()
    assert ran[0] == loop
    assert loop not in ran[-3:]
