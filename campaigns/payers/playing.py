r"""A recorded session played through the proxy under one tariff, and the provider's bill.

The client sends the recorded messages, at the recorded times, with the markers of Claude Code; the model gives the
recorded replies. Neither reacts to the managing, so the model calls no memory tool: as under `evaluate`, if no reply
needs evicted content.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import attrs

from campaigns.scenarios.agent import Agent, model_replies, tool
from campaigns.scenarios.scene import Scene, in_memory
from campaigns.scenarios.spoken import read_reply
from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.cost.tariffs import Caching
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.policies import POLICIES, UNMANAGED
from mnemosyne_lab.evaluation.policy import API_1H, API_5M, LOCAL, OPENAI, OPENAI_BEFORE, QUOTA, JudgedTariff, Settings
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.running import own_model
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import trace_of
from mnemosyne_lab.provider.cache import LocalServer
from tests.http.managing import bare

Json = dict[str, Any]

(OURS,) = (policy for policy in POLICIES if policy.name == "mnemosyne")

WITHIN = 0.02
"""A bill may be so far from what was said, as a part of that."""

PROMPT = "You are an interactive agent that helps with software, and this is what you know of it. " * 10

PIECES = 4_000
"""Characters in one delta of a reply: these replies are long, and their pieces are nobody's question here."""


@attrs.frozen(kw_only=True)
class Payer:
    """A client that pays by a ``judged`` tariff: how its requests identify the tariff, and the provider behind the
    proxy. ``named`` is the tariff in the server's settings if requests do not identify it.
    """

    judged: JudgedTariff
    ttl: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    model: str | None = None
    named: str | None = None
    local: LocalServer | None = None


LOGGED_IN = {"x-api-key": "", "authorization": "Bearer sk-ant-oat01-any"}

PAYERS = (
    Payer(judged=API_5M),
    Payer(judged=API_1H, ttl="1h"),
    Payer(judged=QUOTA, ttl="1h", headers=LOGGED_IN),
    Payer(judged=OPENAI, model="gpt-5.6"),
    Payer(judged=OPENAI_BEFORE, model="gpt-5.5"),
    Payer(judged=LOCAL, named="local", local=LocalServer()),
)


@attrs.frozen(kw_only=True)
class Played:
    """A played session: the usage of each reply, and the client's recorded messages."""

    used: Sequence[Tokens]
    session: Json
    rewrites: int


@attrs.frozen(kw_only=True)
class Deviation:
    """The provider's bill for a session and the result of `evaluate`, in tokens of plain input."""

    billed: Fraction
    said: Fraction

    @property
    def share(self) -> float:
        """The excess of the bill over the estimate, as a fraction of the estimate."""
        return float(self.billed / self.said - 1)


@attrs.frozen(kw_only=True)
class Held:
    """A session under a tariff, observed and managed. ``dollars`` are the cost of the managed one, at list prices."""

    unmanaged: Deviation
    managed: Deviation
    dollars: Deviation
    rewrites: int
    turns: int


async def hold(payer: Payer, session: Json, *, window: int | None = None) -> Held:
    """Play a session twice, once observed and once managed, and compare the bills with `evaluate`."""
    watched = await play(payer, session, Mode.OBSERVE, window=window)
    managed = await play(payer, session, Mode.MANAGE, window=window)
    recorded = recording(payer.judged.name, watched.session)
    model = own_model(recorded.model)
    sized = Sized(trace_of(recorded), Settings(tariff=payer.judged, model=model, memory_tools=True))
    reality = simulate(sized, (), UNMANAGED)
    ours = simulate(sized, (), OURS, reality)
    price = sized.settings.price

    def compare(used: Sequence[Tokens], said: Fraction) -> Deviation:
        billed = sum((payer.judged.equivalents(each, price) for each in used), Fraction(0))
        return Deviation(billed=billed, said=said)

    in_dollars = Fraction(sum(price.nanodollars(each) for each in managed.used))
    return Held(
        unmanaged=compare(watched.used, reality.billed),
        managed=compare(managed.used, ours.billed),
        dollars=Deviation(billed=in_dollars, said=Fraction(ours.nanodollars or 1)),
        rewrites=managed.rewrites,
        turns=len(managed.used),
    )


async def play(payer: Payer, session: Json, mode: Mode, *, window: int | None = None) -> Played:
    async with in_memory("played", window=window, mode=mode, tariff=payer.named, local=payer.local) as scene:
        agent = scene.agent(
            model=payer.model or session["model"],
            ttl=payer.ttl,
            headers=dict(payer.headers),
            tools=[tool(each) for each in _tool_names(session)],
            prompt=PROMPT,
        )
        same_line = payer.judged.tariff.caching is Caching.PREFIX and mode is Mode.OBSERVE
        told = [await _turn(scene, agent, *each, same_line=same_line) for each in _turns_of(session)]
        exchanges = [
            read_reply(each.status or 0, _headers(each), bytes(each.payload)) for each in scene.standin.messages
        ]
        used = [tokens_of({**each.usages[0], **each.usages[-1]}) for each in exchanges]
        rewrites = scene.judge.rewrites
    assert len(used) == len(told)
    return Played(
        used=[each for each in used if each is not None],
        rewrites=rewrites,
        session={
            "name": session["name"],
            "model": session["model"],
            "messages": bare(agent.history),
            "head": {"system": bare(agent.system()), "tools": agent.tools},
            "turns": [{**each, **_read_usage(spent)} for each, spent in zip(told, used, strict=True)],
        },
    )


async def play_turns(scene: Scene, session: Json) -> None:
    agent = scene.agent(model=session["model"], tools=[tool(each) for each in _tool_names(session)], prompt=PROMPT)
    for each in _turns_of(session):
        await _turn(scene, agent, *each, same_line=False)


async def _turn(
    scene: Scene, agent: Agent, at: int, said: Sequence[Json], answer: Sequence[Json], *, same_line: bool
) -> Json:
    """One request at its time; its number of messages, and when it was sent. ``same_line``: with a billing entry
    that never changes, unlike Claude Code's, which changes with each prompt.
    """
    agent.hears(model_replies(*answer, pace={"characters": PIECES}))
    scene.clock.now = max(scene.clock.now, at)
    agent.add_prompt(*said)
    agent.prompts = 0 if same_line else agent.prompts
    told = {"msg": len(agent.history), "ts": datetime.fromtimestamp(scene.clock.now / 1e6, UTC).isoformat()}
    agent.take(await agent.send())
    return told


def _headers(exchange: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in exchange.reply_headers}


def _read_usage(spent: Tokens | None) -> Json:
    assert spent is not None
    written = spent.write_5m + spent.write_1h
    usage = {"input": spent.input, "cache_write": written, "cache_read": spent.read}
    return {"usage": usage, "output": spent.output}


def _tool_names(session: Json) -> list[str]:
    called = (block["name"] for each in session["messages"] for block in _blocks(each) if block["type"] == "tool_use")
    return list(dict.fromkeys(called))


def _turns_of(session: Json) -> list[tuple[int, list[Json], list[Json]]]:
    """The time of each request, the client's messages since the previous reply, and the model's reply."""
    recorded = recording("recorded", session)
    messages, found, before = session["messages"], [], 0
    for request in recorded.requests:
        said = [
            block for each in messages[before : request.messages] if each["role"] == "user" for block in _blocks(each)
        ]
        answer = _blocks(messages[request.messages]) if request.messages < len(messages) else []
        found.append((request.at, said, [_unsigned(block) for block in answer] or [{"type": "text", "text": "Done."}]))
        before = request.messages + 1
    return found


def _unsigned(block: Json) -> Json:
    return {key: value for key, value in block.items() if key not in ("signature", "cache_control")}


def _blocks(message: Json) -> list[Json]:
    return [each for each in content_blocks(message["content"]) if each["type"] != "text" or each["text"].strip()]
