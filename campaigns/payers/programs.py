r"""A program that uses the Messages API directly, with a system prompt of any size, and the provider's bill.

It is played through the proxy to the strict scripted provider under one tariff, observed or managed. Each turn sends
the result of a call; the model calls the next tool, and never a memory tool.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from fractions import Fraction

import attrs

from campaigns.payers.playing import Payer
from campaigns.scenarios.agent import Agent, call, text, think
from campaigns.scenarios.scene import Scene, in_memory
from campaigns.scenarios.spoken import Json
from mnemosyne.domain.cost.catalogue import price_of
from mnemosyne.domain.cost.prices import Price, Tokens, tokens_of
from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.session.round_events import Mode

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
    """A text of about this many tokens."""
    line = LINE.format(number, 100)
    each = Estimator.of("claude-opus-4-5").tokens(features_of_text(line * 100)) / 100
    return "".join(LINE.format(number, 100 + line) for line in range(max(1, round(tokens / each))))
