"""Play the conversation through a managing proxy, in the test's own process or through a real server, and measure the
results.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from uuid import UUID

import attrs

from campaigns.northstar import conversation, model
from campaigns.northstar.conversation import LONG, Lengths, Prompt, PromptKind
from campaigns.scenarios.scene import Clock
from mnemosyne.app.storage import open_storage
from mnemosyne.domain.objects.events import FaultKind, ObjectFaulted
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.ports import ContentStore, Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import EpochBegan, RoundFinished
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.services.memories import fold
from mnemosyne_lab.provider.script import Script
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import STREAM, assembled
from tests.app.home import Home
from tests.http.managing import Client, Json, bare_stage, text

WINDOW = 40_000
"""Tokens of the largest prompt that may be sent: about a tenth of the whole conversation."""

TOOLS: list[Json] = [
    {"name": name, "description": f"{name}s.", "input_schema": {"type": "object"}} for name in ("Read", "Edit", "Bash")
]


@attrs.frozen(kw_only=True)
class Asked:
    """A question for a decision in a turn: the sentence that decided it, the answer, and the memory tools that were
    used.
    """

    turn: int
    expected: str
    answer: str
    tools: tuple[str, ...]

    @property
    def cited(self) -> str | None:
        """The object that the answer names; None if the answer is wrong."""
        said, _, sentence = self.answer.partition(": ")
        return said.rpartition("#")[2] if said.startswith("It stands in #") and sentence == self.expected else None


@attrs.define
class Play:
    """An agent that works through the prompts: it runs the tools and keeps the whole history, as any client does."""

    client: Client
    standin: Standin
    pause: Callable[[], None]
    edits: list[tuple[str, str, str]] = attrs.field(factory=list)
    decided: dict[str, str] = attrs.field(factory=dict)
    asked: list[Asked] = attrs.field(factory=list)

    async def run(self, prompts: Sequence[Prompt]) -> None:
        self.client.tools = TOOLS
        for prompt in prompts:
            before = len(self.standin.messages)
            message = await self._turn(text(prompt.text))
            while message["stop_reason"] == "tool_use":
                message = await self._turn(*map(self._result, model.calls_of(message)))
            self._record(prompt, message["content"][-1]["text"], before)

    async def _turn(self, *content: Json) -> Json:
        self.pause()
        message = await self.client.turn(*content)
        assert "error" not in message, message
        return message

    def _record(self, prompt: Prompt, answer: str, before: int) -> None:
        subject = str(prompt.subject)
        match prompt.says:
            case PromptKind.SETTLE | PromptKind.TELL:
                said = prompt.text if prompt.says is PromptKind.TELL else answer
                (decision,) = model.statements(said)
                assert prompt.option is not None
                assert prompt.option in decision.sentence
                self.decided[subject] = decision.sentence
            case PromptKind.RECALL:
                last = self.standin.messages[-1].json()["messages"]
                made = tuple(call["name"] for call, _ in model.read(last).done)
                assert len(self.standin.messages) - before == len(made) + 1
                turn = len(self.client.bodies)
                self.asked.append(Asked(turn=turn, expected=self.decided[subject], answer=answer, tools=made))

    def _result(self, call: Json) -> Json:
        return {"type": "tool_result", "tool_use_id": call["id"], "content": self._output(call["name"], call["input"])}

    def _output(self, name: str, given: Json) -> str:
        match name:
            case "Read":
                said = conversation.read(given["file_path"])
                edits = [edit[1:] for edit in self.edits if edit[0] == given["file_path"]]
                return reduce(lambda content, edit: content.replace(*edit), edits, said)
            case "Edit":
                self.edits.append((given["file_path"], given["old_string"], given["new_string"]))
                return f"The file {given['file_path']} was updated."
            case _:
                return conversation.run(given["command"], len(self.edits))


@attrs.frozen(kw_only=True)
class Figures:
    """The measured results. Sizes are tokens as the provider counted them. The decisions ``asked`` for were answered
    right, with an object that is ``named``, from the window (``resident``) or with one memory answer (``answered``).
    """

    prompts: int
    requests: int
    rounds: int
    without_us: int
    """Requests that the proxy forwarded as received."""
    whole: int
    largest: int
    epochs: dict[str, int]
    asked: int
    right: int
    named: int
    resident: int
    answered: int
    most_faults: int
    """Queries and restores in a turn that asks for a decision; ``most_quoted``: the objects that they showed."""
    most_quoted: int
    faults: dict[str, int]
    thrash: float
    billed: float
    """As a part of the bill without management."""

    def __str__(self) -> str:
        return "\n".join(f"{name:12} {value}" for name, value in attrs.asdict(self).items())


async def figures(play: Play, recorded: Sequence[Recorded[Event]], contents: ContentStore, stream: UUID) -> Figures:
    """The results of a play, from its session's log."""
    events = [each.envelope.event for each in recorded]
    session = fold(recorded)
    finished = [event for event in events if isinstance(event, RoundFinished)]
    faults = [event for event in events if isinstance(event, ObjectFaulted)]
    by_turn = Counter(fault.turn for fault in faults)
    turns = range(1, len(play.client.bodies) + 1)
    named = [await holds(session, contents, stream, each) for each in play.asked]
    return Figures(
        prompts=sum(message["content"][0]["type"] == "text" for message in play.client.history[::2]),
        requests=len(play.client.bodies),
        rounds=len(finished),
        without_us=len(play.client.bodies) - len({event.turn for event in finished}),
        whole=int(len(play.client.bodies[-1]) * 0.366),
        largest=max(sum(event.usage.get(key, 0) for key in _INPUT) for event in finished),
        epochs=dict(Counter(event.reason for event in events if isinstance(event, EpochBegan))),
        asked=len(play.asked),
        right=sum(each.cited is not None for each in play.asked),
        named=sum(named),
        resident=sum(not _FAULTING & set(each.tools) for each in play.asked),
        answered=sum(len(_FAULTING & set(each.tools)) == 1 for each in play.asked),
        most_faults=max(len([tool for tool in each.tools if tool in _FAULTING]) for each in play.asked),
        most_quoted=max(by_turn[each.turn] for each in play.asked),
        faults=dict(Counter(fault.kind.value for fault in faults)),
        thrash=max(_thrash(faults, session.memory, turn) for turn in turns),
        billed=float(session.ledger.billed / session.ledger.unmanaged),
    )


_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_FAULTING = frozenset({memory_tools.QUERY, memory_tools.RESTORE})


async def holds(session: Session, contents: ContentStore, stream: UUID, asked: Asked) -> bool:
    """Whether the object that an answer names exists and contains the decision."""
    named = session.memory.objects.get(asked.cited or "")
    if named is None or not named.places:
        return named is not None and asked.expected == named.stub
    content = await assembled(contents, recipe.apply(Recipe(), recipe.decode(named.content)), stream)
    return asked.expected in full_text(content)


def _thrash(faults: Sequence[ObjectFaulted], memory: Memory, turn: int) -> float:
    """Repeated faults per turn over the last five turns; the first fault of each file or command, and questions, do not
    count. At 0.5 and above the window is too small for its task.
    """
    recent = [each for each in faults if each.kind is not FaultKind.MICRO and turn - 5 < each.turn <= turn]
    found = (memory.objects[each.object] for each in recent if each.branch == "main")
    topics = Counter(each.source_key or each.id for each in found)
    return sum(count - 1 for count in topics.values()) / 5


@attrs.frozen
class Outcome:
    """A finished play, its results, and the violated wire rules."""

    play: Play
    figures: Figures
    violations: Sequence[str]


async def in_memory(lengths: Lengths = LONG) -> Outcome:
    """The whole proxy on a log in memory, without an index. Every round is rebuilt byte for byte, and the provider
    refuses prompts larger than the window.
    """
    clock = Clock()
    async with (
        open_standin(Script(window=WINDOW), clock=lambda: clock.now / 1e6, model=model.model) as standin,
        bare_stage(standin=standin, window=WINDOW, clock=clock) as stage,
    ):
        play = Play(Client(stage.url), standin, lambda: clock.pause(20))
        await play.run(conversation.conversation(lengths))
        await stage.rounds()
        found = await figures(play, await stage.log.read(STREAM), stage.log, STREAM)
        return Outcome(play, found, [str(each.violation) for each in standin.violations])


async def served(folder: Path) -> Outcome:
    r"""A server as a user runs it, with its database, index, summaries and limits, on a real clock.

    Every round is rebuilt byte for byte. Raises AssertionError if one is not.
    """
    async with open_standin(model=model.model) as standin:
        home = Home(folder, standin)
        async with home.served("manage", "--manage-window", str(WINDOW)) as running:
            play = Play(Client(running.url), standin, lambda: None)
            await play.run(conversation.conversation())
        session = play.client.session
        assert await home.events(session)  # which verify
        async with open_storage(home.config) as storage:
            stream = home.stream(session)
            found = await figures(play, await storage.events.read(stream), storage.contents, stream)
        return Outcome(play, found, [str(each.violation) for each in standin.violations])
