"""A program that uses the Messages API directly, with a small system prompt, never pays more than two percent for its
memory tools, at any of its ends.

It is played through the proxy to the strict scripted provider under one tariff, observed or managed. Each turn sends
the result of a call; the model calls the next tool, and never a memory tool.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import attrs
import pytest

from campaigns.payers.playing import PAYERS, WITHIN, Payer
from campaigns.payers.test_bills import AS_OTHERS, by_tariff
from campaigns.scenarios.agent import Agent, call, text, think
from campaigns.scenarios.scene import Scene, in_memory
from campaigns.scenarios.spoken import Json
from mnemosyne.domain.cost.catalogue import price_of
from mnemosyne.domain.cost.prices import Price, Tokens, tokens_of
from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.replay.deciding import review
from mnemosyne_lab.evaluation.policy import LOCAL
from tests.plain.archive import MemoryArchive

LINE = "The parser of part {} reads line {} of its table, and what it finds there goes to the next one.\n"


@attrs.frozen(kw_only=True)
class Program:
    """The requests of a program: ``head`` tokens of system prompt, and ``step`` tokens with each of its ``turns``.
    ``marks`` says whether it marks its system prompt and its last message for caching. Before each turn in
    ``breaks`` this many seconds pass. The model calls its one ``tool`` in each turn: file reads are kept for longer
    than command output.
    """

    head: int
    turns: int
    step: int = 1_600
    marks: bool = True
    breaks: Mapping[int, float] = attrs.field(factory=dict)
    model: str = "claude-opus-4-5"
    tool: str = "Read"


@attrs.frozen(kw_only=True)
class Billed:
    """The usage of each request of a program, and the turn at which managing began; None if it did not."""

    used: Sequence[Tokens]
    managed_from: int | None

    def sums(self, payer: Payer, model: str) -> list[Fraction]:
        """The cumulative cost after each request, without the model's output, which is the same in any case."""
        price, total, found = price_of(model), Fraction(0), []
        for each in self.used:
            total += payer.judged.equivalents(attrs.evolve(each, output=0), price or Price(1_000, 5_000, read=100))
            found.append(total)
        return found


def dearest(watched: Billed, managed: Billed, payer: Payer, model: str) -> float:
    """The largest relative excess cost of managing over all ends."""
    pairs = zip(managed.sums(payer, model), watched.sums(payer, model), strict=True)
    return max(float(ours / theirs) for ours, theirs in pairs)


async def run(
    program: Program,
    payer: Payer,
    mode: Mode,
    *,
    manages_small: bool = False,
    window: int | None = None,
    check: Callable[[Scene], Awaitable[None]] | None = None,
) -> Billed:
    """The provider's bill. ``check`` is called at the end."""
    async with in_memory(
        "program", window=window, mode=mode, local=payer.local, tariff=payer.named, manages_small=manages_small
    ) as scene:
        agent, used = _make_agent(scene, program, payer), list[Tokens]()
        content = [text(_words(program.step, 0))]
        for turn in range(1, program.turns + 1):
            scene.clock.pause(program.breaks.get(turn, 20))
            path = f"/part{len(agent.history) + 1}.py"
            given = {"file_path": path} if program.tool == "Read" else {"command": f"run {path}"}
            agent.hears([think(), call(program.tool, **given)])
            reply = await agent.turn(*content)
            used.append(tokens_of({**reply.usages[0], **reply.usages[-1]}) or Tokens())
            words = _words(program.step, turn)
            content = [{**each, "content": words} for each in agent.results(reply)]
        tools = [len(each["tools"]) for each in scene.sent]
        if check is not None:
            await check(scene)
    joined = next((number for number, count in enumerate(tools, 1) if count > 1), None)
    assert len(tools) == program.turns
    return Billed(used=used, managed_from=joined)


@attrs.define(kw_only=True)
class ProgramAgent(Agent):
    """Without anything of Claude Code's around its own system prompt of ``head`` tokens and its messages."""

    head: int

    def system(self) -> list[Json]:
        own = text(f"You are Claude Code. [{self.name}] {_words(self.head, -1)}")
        return [{**own, "cache_control": self.marker} if self.marks else own]

    def add_prompt(self, *content: Json) -> None:
        self.history.append({"role": "user", "content": list(content)})


def _make_agent(scene: Scene, program: Program, payer: Payer) -> ProgramAgent:
    return ProgramAgent(
        scene=scene,
        name=scene.name,
        session=scene.name,
        model=payer.model or program.model,
        tools=[{"name": program.tool, "input_schema": {"type": "object"}}],
        members={"max_tokens": 1_000},
        betas="",
        headers={"user-agent": "", **payer.headers},
        ttl=payer.ttl,
        marks=int(program.marks),
        target="/v1/messages",
        head=program.head,
    )


def _words(tokens: int, number: int) -> str:
    line = LINE.format(number, 100)
    each = Estimator.of("claude-opus-4-5").tokens(features_of_text(line * 100)) / 100
    return "".join(LINE.format(number, 100 + line) for line in range(max(1, round(tokens / each))))


API = PAYERS[0]
SMALL = Program(head=100, turns=8, step=3_000, breaks={6: 4_000})
"""After a break in which any hosted cache forgot, it has 18,000 tokens."""


@by_tariff(but=AS_OTHERS)
async def test_small_program_is_observed_until_a_break_and_no_end_is_dearer(payer: Payer) -> None:
    async def review_decisions(scene: Scene) -> None:
        assert scene.log is not None
        decided = await review(MemoryArchive(scene.log), str(stream_of("t", scene.name)))
        assert (decided.differences, decided.skipped) == ([], [])

    watched = await run(SMALL, payer, Mode.OBSERVE)
    managed = await run(SMALL, payer, Mode.MANAGE, check=review_decisions)
    assert dearest(watched, managed, payer, SMALL.model) < 1 + WITHIN
    assert managed.managed_from == (None if payer.judged is LOCAL else 6)


@pytest.mark.parametrize(
    ("changes", "manages_small", "begins", "is_dearer"),
    [({"marks": False, "turns": 7, "breaks": {}}, False, 5, False), ({"turns": 2}, True, 1, True)],
    ids=["tools join once they are relatively small", "tools from the first request on"],
)
async def test_program_gets_tools_early_without_cache_markers_or_if_it_requests_them(
    changes: dict[str, Any], manages_small: bool, begins: int, is_dearer: bool
) -> None:
    program = attrs.evolve(SMALL, **changes)
    watched = await run(program, API, Mode.OBSERVE)
    managed = await run(program, API, Mode.MANAGE, manages_small=manages_small)
    assert managed.managed_from == begins
    assert (dearest(watched, managed, API, program.model) > 1 + WITHIN) is is_dearer
