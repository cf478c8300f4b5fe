r"""A program that uses the Messages API directly, with a system prompt of any size, and the provider's bill.

It is played through the proxy to the strict scripted provider under one tariff, observed or managed. Each turn sends
the result of a call; the model calls the next tool, and never a memory tool.
"""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import attrs

from campaigns.payers.playing import Payer
from campaigns.scenarios.agent import call, model_replies, think
from campaigns.scenarios.scene import Clock
from mnemosyne.domain.cost.catalogue import price_of
from mnemosyne.domain.cost.prices import Price, Tokens, tokens_of
from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.session.round_events import Mode
from mnemosyne_lab.provider.script import Script, ScriptedReply
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Client, Json, bare, bare_stage, text

SESSION = "program"
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
    log: StoppableLog | None = None,
) -> Billed:
    """The provider's bill."""
    clock, log = Clock(), log or StoppableLog()

    def model(body: Any) -> ScriptedReply:
        path = f"/part{len(body['messages'])}.py"
        given = {"file_path": path} if program.tool == "Read" else {"command": f"run {path}"}
        return model_replies(think(), call(program.tool, **given))

    async with (
        open_standin(Script(), clock=lambda: clock.now / 1e6, model=model, local=payer.local) as standin,
        bare_stage(
            standin=standin,
            log=log,
            window=window,
            tariff=payer.named,
            clock=clock,
            mode=mode,
            manages_small=manages_small,
        ) as stage,
    ):
        client, used = ProgramClient.of(program, payer, stage.url), list[Tokens]()
        content = [text(_words(program.step, 0))]
        for turn in range(1, program.turns + 1):
            clock.pause(program.breaks.get(turn, 20))
            message = await client.turn(*content)
            used.append(tokens_of(message["usage"]) or Tokens())
            content = [
                {"type": "tool_result", "tool_use_id": each["id"], "content": _words(program.step, turn)}
                for each in message["content"]
                if each["type"] == "tool_use"
            ]
        tools = [len(each.json()["tools"]) for each in standin.messages]
    joined = next((number for number, count in enumerate(tools, 1) if count > 1), None)
    assert len(tools) == program.turns
    return Billed(used=used, managed_from=joined)


@attrs.define(kw_only=True)
class ProgramClient(Client):
    """Without a name of its own; it marks its system prompt and its last message, or nothing."""

    system: Json
    marker: Json

    @classmethod
    def of(cls, program: Program, payer: Payer, url: str) -> "ProgramClient":
        marker = {"type": "ephemeral", **({"ttl": payer.ttl} if payer.ttl else {})}
        return cls(
            url=url,
            session=SESSION,
            model=payer.model or program.model,
            tools=[{"name": program.tool, "input_schema": {"type": "object"}}],
            headers={"user-agent": "", **payer.headers},
            system=text(_words(program.head, -1)),
            marker={"cache_control": marker} if program.marks else {},
        )

    def body(self) -> bytes:
        *before, last = bare(self.history)
        *blocks, end = last["content"]
        said = [*before, {**last, "content": [*blocks, {**end, **self.marker}]}]
        asked = {"model": self.model, "max_tokens": 1_000, "system": [{**self.system, **self.marker}]}
        return json.dumps({**asked, "messages": said, "tools": self.tools}).encode()


def _words(tokens: int, number: int) -> str:
    """A text of about this many tokens."""
    line = LINE.format(number, 100)
    each = Estimator.of("claude-opus-4-5").tokens(features_of_text(line * 100)) / 100
    return "".join(LINE.format(number, 100 + line) for line in range(max(1, round(tokens / each))))
