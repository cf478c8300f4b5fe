"""Make the generated part of ``questions.jsonl`` from recorded sessions.

Each generator turns the structure of a session (who sent a block, which call, which result, what the agent repeated
later) into questions. None knows how Mnemosyne shortens or indexes a text. The choice is random with a fixed seed, so
the same sessions give the same questions.
"""

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import attrs

from tests.replay.message_streams import blocks_of

LEAST_TURNS = 25
"""Sessions with fewer requests hardly outgrow any window."""

AHEAD = 8
"""A question is asked at least so many requests after its answer appeared."""

OF_SESSION = 9
"""Maximum number of questions of one generator from one session."""

OF_DEVELOPER = 14
"""Maximum number of sessions of one developer, or of one source that names none."""

CLEAR = 16
"""Minimum length in characters of the beginning of a line that a question gives."""

SHORTEST, LONGEST = 8, 160
"""Length of an answer in characters."""


@attrs.frozen(kw_only=True)
class Block:
    """A block of a session: its message, its index there, and its text (of a call: the strings of its input, the last
    of which is ``written``).
    """

    message: int
    index: int
    kind: str
    text: str = attrs.field(repr=False)
    failed: bool = False
    call: str = ""
    name: str = ""
    written: str = attrs.field(default="", repr=False)


@attrs.frozen(kw_only=True)
class Question:
    """A question of class ``of`` before request ``turn`` (from 1); its answer ``gold`` has this span of UTF-8 bytes in
    the text of a block. A *paraphrase* was written by a reader. A *foreign* question is about another session: its
    answer is empty.
    """

    session: str
    of: str
    generator: str
    question: str
    turn: int
    message: int
    block: int
    start: int
    end: int
    gold: str

    @property
    def id(self) -> str:
        """A name that stays the same as long as the question does."""
        return sha256(f"{self.session} {self.turn} {self.question}".encode()).hexdigest()[:12]


@attrs.frozen
class Recorded:
    """A session: its blocks in order, and the number of messages in each request."""

    name: str
    blocks: Sequence[Block]
    requests: Sequence[int]

    def turn_of(self, message: int) -> int:
        """The first request that holds a message."""
        return bisect_right(self.requests, message) + 1

    def turn_after(self, message: int) -> int | None:
        """The middle one of the requests that are at least ``AHEAD`` after the first one with this message."""
        least = self.turn_of(message) + AHEAD
        return (least + len(self.requests)) // 2 if least <= len(self.requests) else None


def strings_of(value: object) -> Iterator[str]:
    """All strings in a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from strings_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings_of(each)


def text_of(block: Mapping[str, Any]) -> str:
    """The text of a block; spans of answers count its bytes."""
    if block["type"] == "tool_use":
        return "\n".join(strings_of(block["input"]))
    if block["type"] == "tool_result":
        content = block.get("content") or ""
        return content if isinstance(content, str) else "\n".join(each.get("text", "") for each in content)
    return str(block.get("text", ""))


def read_session(recorded: Mapping[str, Any]) -> Recorded:
    """The blocks of a session, without thinking."""
    kinds = {"tool_use": "call", "tool_result": "result"}
    blocks = [
        Block(
            message=number,
            index=index,
            kind=kinds.get(part["type"], message["role"]),
            text=text_of(part),
            failed=bool(part.get("is_error")),
            call=str(part.get("id") or part.get("tool_use_id") or ""),
            name=str(part.get("name") or ""),
            written=next(reversed([*strings_of(part.get("input"))]), ""),
        )
        for number, message in enumerate(recorded["messages"])
        for index, part in enumerate(blocks_of(message))
        if part["type"] in {*kinds, "text"}
    ]
    return Recorded(recorded["name"], blocks, [turn["msg"] for turn in recorded["turns"]])


# Generators: each yields all questions that it can make


def ask_for_values(session: Recorded, chance: random.Random) -> Iterator[Question]:
    """The rest of a line of a result, given its beginning and the call."""
    for call, result in _calls_with_results(session):
        lines = [line for line in result.text.splitlines() if 30 <= len(line.strip()) <= 200]
        if lines and not result.failed:
            beginning, gold = (half.strip() for half in _halve(chance.choice(lines)))
            asked = f"The result of {_render(call)} has a line that begins with `{beginning}`. How does it go on?"
            if _is_clear(session, beginning):
                yield from _make(session, "value", asked, result, gold)


def ask_for_errors(session: Recorded, chance: random.Random) -> Iterator[Question]:
    """A line of a failed result that is rare in the session, given the call."""
    counts = Counter(line.strip() for each in session.blocks for line in each.text.splitlines())
    calls = Counter(_render(each) for each in session.blocks if each.kind == "call")
    for call, result in _calls_with_results(session):
        lines = [line.strip() for line in result.text.splitlines() if SHORTEST <= len(line.strip()) <= LONGEST]
        lines = [line for line in lines if counts[line] == 1]
        if result.failed and lines and calls[_render(call)] == 1:
            gold = chance.choice(lines[-5:])
            yield from _make(session, "error", f"What was the error of {_render(call)}?", result, gold)


def ask_for_changes(session: Recorded, chance: random.Random) -> Iterator[Question]:
    """A line that an edit wrote, given the line before it. The last string of such a call is what it writes."""
    for call in (each for each in session.blocks if each.name in {"Edit", "Write", "MultiEdit"}):
        lines = [line.strip() for line in call.written.split("\n")]
        pairs = [
            (before, after)
            for before, after in pairwise(lines)
            if min(len(before), len(after)) >= 20 and max(len(before), len(after)) <= LONGEST and before != after
        ]
        if pairs:
            before, after = chance.choice(pairs)
            path = call.text.split("\n")[0]
            asked = f"In what {call.name} wrote for {path}, which line follows `{before}`?"
            yield from _make(session, "change", asked, call, after)


def ask_for_paths(session: Recorded, chance: random.Random) -> Iterator[Question]:
    """The file in which a search found a line, given the call and the rest of the line."""
    for call, result in _calls_with_results(session):
        lines = [line.strip() for line in result.text.splitlines() if "/" in line and len(line) <= 2 * LONGEST]
        lines = [] if call.name == "Read" else lines
        found = [line.split(":", 2) for line in lines if line.count(":") >= 2]
        counts = Counter(rest for _, _, rest in found)
        places = [(place, rest) for place, _, rest in found if len(rest) >= 15 and counts[rest] == 1]
        places = [(place, rest) for place, rest in places if "/" in place and not any(map(str.isspace, place))]
        if places:
            place, rest = chance.choice(places)
            asked = f"In which file did {_render(call)} find `{rest.strip()[:LONGEST]}`?"
            yield from _make(session, "change", asked, result, place)


def ask_for_order(session: Recorded, chance: random.Random) -> Iterator[Question]:
    """The call that came right after another one."""
    calls = [each for each in session.blocks if each.kind == "call" and each.text.strip()]
    counts = Counter(_render(each) for each in calls)
    for before, after in pairwise(calls):
        gold = after.text.strip().split("\n")[0][:LONGEST]
        if counts[_render(before)] == 1:
            asked = f"The agent called {_render(before)}. What did it call next, a {after.name} of what?"
            yield from _make(session, "order", asked, after, gold)


def ask_for_conclusions(session: Recorded, chance: random.Random) -> Iterator[Question]:
    """The second half of a sentence of a reply that ends an exchange, given its first half."""
    calling = {each.message for each in session.blocks if each.kind == "call"}
    for reply in (each for each in session.blocks if each.kind == "assistant" and each.message not in calling):
        sentences = [each for line in reply.text.splitlines() for each in line.split(". ") if 50 <= len(each) <= 300]
        yield from _ask_for_half(session, "What did the agent conclude", reply, sentences, chance)


def ask_for_instructions(session: Recorded, chance: random.Random) -> Iterator[Question]:
    """The second half of a sentence that the user typed, given its first half."""
    for prompt in (each for each in session.blocks if each.kind == "user" and not each.text.startswith(("<", "["))):
        lines = [line for line in prompt.text.splitlines() if 40 <= len(line) <= 300]
        if len(prompt.text) <= 4_000:
            yield from _ask_for_half(session, "What did the user ask for", prompt, lines, chance)


def _ask_for_half(
    session: Recorded, asked: str, block: Block, sentences: Sequence[str], chance: random.Random
) -> Iterator[Question]:
    if sentences:
        beginning, rest = _halve(chance.choice(sentences))
        if _is_clear(session, beginning):
            yield from _make(session, "decision", f"{asked}: `{beginning} …`?", block, rest[:LONGEST])


def _halve(line: str) -> tuple[str, str]:
    """Two halves of a line, by its words."""
    words = line.split(" ")
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


Generator = Callable[[Recorded, random.Random], Iterator[Question]]

GENERATORS: Sequence[Generator] = (
    ask_for_values,
    ask_for_errors,
    ask_for_changes,
    ask_for_paths,
    ask_for_order,
    ask_for_conclusions,
    ask_for_instructions,
)


def choose_sessions(sessions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Long sessions of as many developers and sources as there are, without those whose user dropped the history."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for each in sessions:
        if len(each["turns"]) >= LEAST_TURNS:
            groups.setdefault(each.get("developer") or each["source"], []).append(each)
    return [
        each
        for name, group in sorted(groups.items())
        for each in random.Random(name).sample(group, min(OF_DEVELOPER, len(group)))
        if not any(reset.get("trigger") == "manual" for reset in each["resets"])
    ]


def generate(sessions: Iterable[Mapping[str, Any]], numbers: Mapping[str, int]) -> list[Question]:
    """So many questions of each class, spread over the sessions and the generators of the class."""
    pools: dict[str, list[list[Question]]] = {}
    for recorded in sessions:
        session = read_session(recorded)
        for generator in GENERATORS:
            chance = random.Random(f"{session.name} {generator.__name__}")
            made = (attrs.evolve(each, generator=generator.__name__) for each in generator(session, chance))
            found = list({each.question: each for each in made}.values())
            if found:
                pool = chance.sample(found, min(OF_SESSION, len(found)))
                pools.setdefault(pool[0].of, []).append(pool)
    chosen: list[Question] = []
    for of, number in numbers.items():
        random.Random(of).shuffle(pools[of])
        chosen += [pool[turn] for turn in range(OF_SESSION) for pool in pools[of] if turn < len(pool)][:number]
    return sorted(chosen, key=lambda each: (each.session, each.message, each.block, each.start, each.question))


def list_foreign(questions: Sequence[Question], sessions: Sequence[Mapping[str, Any]], number: int) -> list[Question]:
    """Questions about sessions of other sources or developers, asked at the end of each session in turn."""
    groups = {each["name"]: each.get("developer") or each["source"] for each in sessions}
    found: list[Question] = []
    for place, question in enumerate(random.Random("foreign").sample(list(questions), number)):
        others = [each for each in sessions if groups[each["name"]] != groups[question.session]]
        here = others[place % len(others)]
        asked = attrs.evolve(question, session=here["name"], of="foreign", turn=len(here["turns"]), gold="")
        found.append(attrs.evolve(asked, message=0, block=0, start=0, end=0))
    return found


def _calls_with_results(session: Recorded) -> Iterator[tuple[Block, Block]]:
    calls = {each.call: each for each in session.blocks if each.kind == "call"}
    for each in session.blocks:
        if each.kind == "result" and each.call in calls:
            yield calls[each.call], each


def _is_clear(session: Recorded, beginning: str) -> bool:
    """Whether a line's beginning is long enough and occurs once in a session."""
    return len(beginning.strip()) >= CLEAR and sum(each.text.count(beginning) for each in session.blocks) == 1


def _render(call: Block) -> str:
    """The tool's name and the first line of its input, which is a path, a command or a pattern."""
    return f"{call.name} `{call.text.strip().split(chr(10))[0][:LONGEST]}`"


def _make(session: Recorded, of: str, asked: str, block: Block, gold: str) -> Iterator[Question]:
    """The question, if its answer is only in one block or its result, not in the question, and can be asked later."""
    when = session.turn_after(block.message)
    at = block.text.find(gold)
    if when is None or at < 0 or not SHORTEST <= len(gold) <= LONGEST or gold in asked:
        return
    others = (each for each in session.blocks if each.message < session.requests[when - 1])
    if any(gold in each.text for each in others if each is not block and each.call != (block.call or None)):
        return
    start = len(block.text[:at].encode())
    span = {"start": start, "end": start + len(gold.encode()), "gold": gold}
    place = {"message": block.message, "block": block.index}
    yield Question(session=session.name, of=of, generator="", question=asked, turn=when, **place, **span)
