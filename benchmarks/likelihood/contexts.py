"""Contexts of recorded actions, cut around one object, in each way of keeping that object.

A context has the typed prompt, one round as an example, the object's call and result, and the last rounds before the
action, with long texts cut. Everything but the object is the same in each way; only clearing and masking also treat the
last rounds by their rules. Forms of an object, notes and memory answers are rendered by the product's own functions.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any

import attrs

from benchmarks.likelihood.model import Tokenizer
from benchmarks.recordings import result_text
from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.faults import RecallBudget
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import is_its_own_detail
from mnemosyne.domain.recall.answering import quote_sources
from mnemosyne.domain.recall.memory_results import answer_text
from mnemosyne.domain.recall.sources import Source
from mnemosyne.domain.tools.memory_tools import ANSWER_TOKENS, QUERY
from mnemosyne.domain.window.assembly import assemble
from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne_lab.evaluation.policies import CLEARED
from mnemosyne_lab.evaluation.sizing import rendering_of
from mnemosyne_lab.evaluation.trace import Item, Trace
from tests.domain.remembered import created, remembered

Message = dict[str, Any]

FULL, EVICTED, GRADED, STUB, ANSWERED = "full", "thrifty", "graded", "stub", "answer"
RECALLED = "stub answer"
MASKED, NATIVE, CUT, SUMMARY = "masking", "clearing", "cutting", "summary"
GROUPS = ((FULL, GRADED, STUB, RECALLED, MASKED, NATIVE), (EVICTED, ANSWERED), (SUMMARY,))
"""The ways whose contexts begin alike."""

WAYS = (FULL, EVICTED, GRADED, STUB, ANSWERED, RECALLED, MASKED, NATIVE, CUT, SUMMARY)

MASK = "Old environment output: ({} lines omitted)"
"""What SWE-agent writes instead of an old result."""

KEPT_MASKED, KEPT_NATIVE = 5, 3

SMALLEST, LARGEST = 1_500, 2_600
"""Characters of an object. Smaller ones have no L1."""

ACTION, RECENT = 64, 180
"""Tokens of an action that are scored, and of the rounds before it."""

MOST = 1_400
"""Tokens of a context, without a client's summary."""

PROMPT, WORDS, ARGUMENT, RESULT = 200, 160, 120, 200
"""Characters kept of a prompt, of an assistant's text, of an argument and of a result."""

OPEN = "<|im_start|>assistant\n"


@attrs.frozen(kw_only=True)
class Case:
    """One action and an object before it. ``texts`` are the contexts by way, ``object_text`` the result's text in the
    full one. ``needed`` are the numbers of the action's tokens that the object alone holds in the context.
    """

    session: str
    developer: str
    message: int
    object: str
    distance: int
    needed: Sequence[int]
    action: str
    object_text: str
    texts: Mapping[str, str]


def rank_of(session: str, *numbers: int) -> str:
    """A hash that orders the places of a session by chance."""
    return sha256(f"{session} {numbers}".encode()).hexdigest()


# Rendering


def render_message(message: Mapping[str, Any]) -> str:
    """A message as the model reads it. Thinking is left out."""
    texts = [text for block in content_blocks(message["content"]) if (text := render_block(block))]
    return f"<|im_start|>{message['role']}\n" + "\n".join(texts) + "<|im_end|>\n"


def render_block(block: Mapping[str, Any]) -> str:
    """A block's text; a call is its name and one argument a line, without JSON's escapes."""
    if is_call(block):
        given = block.get("input")
        lines = [f"{name}: {_plain(value)}" for name, value in given.items()] if isinstance(given, dict) else []
        return "\n".join(["<tool_call>", str(block.get("name")), *lines, "</tool_call>"])
    if is_result(block):
        return f"<tool_response>\n{result_text(block)}\n</tool_response>"
    return str(block.get("text", "")) if block.get("type") == "text" else ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


def shorten_message(message: Mapping[str, Any]) -> Message:
    """A message without thinking and with long texts cut to their beginnings."""
    most = PROMPT if message["role"] == "user" else WORDS
    blocks = [shorten_block(block, ARGUMENT, RESULT, most) for block in content_blocks(message["content"])]
    return {"role": message["role"], "content": [block for block in blocks if block]}


def shorten_block(block: Mapping[str, Any], argument: int, result: int, text: int) -> Message:
    """A block with at most so many characters of each argument, of its result or of its text; empty if blank."""
    if is_call(block):
        given = block.get("input")
        named = given.items() if isinstance(given, dict) else ()
        return {**block, "input": {name: shorten(_plain(value), argument) for name, value in named}}
    if is_result(block):
        return {**block, "content": shorten(result_text(block), result)}
    words = str(block.get("text", "")).strip() if block.get("type") == "text" else ""
    return {"type": "text", "text": shorten(words, text)} if words else {}


# Where each run of tokens occurs

RUN, RARE = 4, 3
"""Tokens of a run that an action repeats from an object, and the most blocks before the action that may hold it: an
idiom of the language is in more.
"""


class Runs:
    """The blocks of a session's history in which each run of ``RUN`` tokens occurs."""

    def __init__(self, messages: Sequence[Mapping[str, Any]], tokenizer: Tokenizer) -> None:
        self._places: dict[tuple[int, ...], list[BlockPlace]] = {}
        for number, message in enumerate(messages):
            for index, block in enumerate(content_blocks(message["content"])):
                text = result_text(block) if is_result(block) else render_block(block)
                for run in set(runs_of(tokenizer.encode(text))):
                    self._places.setdefault(run, []).append(BlockPlace(number, index))

    def list_rare(self, tokens: Sequence[int], before: int) -> dict[BlockPlace, set[int]]:
        """The numbers at which rare runs begin in tokens, by each block before a message that holds them."""
        found: dict[BlockPlace, set[int]] = {}
        for number, run in enumerate(runs_of(tokens)):
            places = [place for place in self._places.get(run, ()) if place.message < before]
            for place in places if len(places) <= RARE else ():
                found.setdefault(place, set()).add(number)
        return found


def runs_of(tokens: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The runs of tokens, in order."""
    return zip(*(tokens[number:] for number in range(RUN)), strict=False)


# Choosing

MOST_CASES = {True: 8, False: 2}
"""The most cases of a session by whether they need their object. Few need it, so these are chosen first."""


def cases_of(trace: Trace, developer: str, tokenizer: Tokenizer) -> list[Case]:
    """The cases of a session."""
    return list(_Chooser(trace, developer, tokenizer).choose())


class _Chooser:
    def __init__(self, trace: Trace, developer: str, tokenizer: Tokenizer) -> None:
        self._trace, self._developer, self._tokenizer = trace, developer, tokenizer
        self._messages = trace.messages
        self._runs = Runs(trace.messages, tokenizer)
        self._items = {item.places[1]: item for item in trace.items if self._is_usable(item)}

    def _is_usable(self, item: Item) -> bool:
        """Whether the object is one call and its result of the right size, and has an L1."""
        if len(item.places) != 2 or is_its_own_detail(item.tags) or Fidelity.DETAILED not in item.texts:
            return False
        call, result = (self._block(place) for place in item.places)
        return is_call(call) and is_result(result) and SMALLEST <= len(result_text(result)) <= LARGEST

    def _block(self, place: BlockPlace) -> Mapping[str, Any]:
        block: Mapping[str, Any] = content_blocks(self._messages[place.message]["content"])[place.block]
        return block

    def choose(self) -> Iterator[Case]:
        """First the cases that need their object, then others; an object is in one case."""
        taken: set[str] = set()
        name = self._trace.name
        said = ((number, each) for number, each in enumerate(self._messages) if each["role"] == "assistant")
        actions = [number for number, each in said if any(map(is_call, content_blocks(each["content"])))]
        for needs, most in MOST_CASES.items():
            cases = (
                case
                for number in sorted(actions, key=lambda each: rank_of(name, each))
                for case in self._list_cases(number, needs, taken)
            )
            for case in islice(cases, most):
                taken.add(case.object)
                yield case

    def _list_cases(self, number: int, needs: bool, taken: Collection[str]) -> Iterator[Case]:
        """The first case of an action with an object that is not taken and that it needs, or does not; if any."""
        tokens = self._tokenizer.encode(render_action(self._messages[number]))[:ACTION]
        rare = self._runs.list_rare(tokens, number)
        places = [place for place in self._items if (place in rare) is needs]
        for place in sorted(places, key=lambda each: rank_of(self._trace.name, number, each.message)):
            item = self._items[place]
            if item.id in taken or self._results_between(place, number) < KEPT_MASKED:
                continue
            if case := self._make(number, item, tokens, rare.get(place, set())):
                yield case
                return

    def _results_between(self, place: BlockPlace, before: int) -> int:
        if place.message >= before:
            return -1
        between = self._messages[place.message + 1 : before]
        return sum(is_result(block) for each in between for block in content_blocks(each["content"]))

    def _make(self, number: int, item: Item, tokens: Sequence[int], begins: set[int]) -> Case | None:
        recent, typed = self._recent(number), self._typed(number)
        if not recent or recent[0] <= item.places[1].message:
            return None
        before = [each for each in typed if each < item.places[0].message][-1:]
        after = [each for each in typed if item.places[1].message < each < recent[0]][-1:]
        call, result = item.places
        head = [shorten_message(self._messages[each]) for each in (*before, *self._earlier(call.message, before))]
        round_ = [_only(self._messages[call.message], call.block), _only(self._messages[result.message], result.block)]
        tail = [shorten_message(self._messages[each]) for each in (*after, *recent)]
        between = [*head, *round_, *tail]
        elsewhere = "".join(map(render_message, [*head, round_[0], *tail]))
        held = set(runs_of(self._tokenizer.encode(elsewhere)))
        runs = list(runs_of(tokens))
        own = {at + offset for at in begins if runs[at] not in held for offset in range(RUN)}
        if begins and not own:
            return None
        last_words = self._last_words(item, number)
        ours = partial(_ours, between, len(head), item)
        built = {
            FULL: assemble(between, {}),
            EVICTED: ours(Fidelity.EVICTED),
            GRADED: ours(Fidelity.DETAILED),
            STUB: ours(Fidelity.STUB),
            ANSWERED: [*ours(Fidelity.EVICTED), *_ask(item, last_words)],
            RECALLED: [*ours(Fidelity.STUB), *_ask(item, last_words)],
            MASKED: _clear(between, len(head) + 1, KEPT_MASKED, lambda text: MASK.format(len(text.splitlines()))),
            NATIVE: _clear(between, len(head) + 1, KEPT_NATIVE, lambda _: CLEARED),
        }
        for reset in (each for each in self._trace.resets if result.message < each.kept_from <= number):
            summary = {"role": "user", "content": [{"type": "text", "text": reset.summary}]}
            kept = [shorten_message(self._messages[each]) for each in recent if each >= reset.kept_from]
            built[SUMMARY] = [summary, *kept]  # of the last compaction
        texts = {way: "".join(map(render_message, messages)) + OPEN for way, messages in built.items()}
        if len(self._tokenizer.encode(texts[FULL])) + len(tokens) > MOST:
            return None
        return Case(
            session=self._trace.name,
            developer=self._developer,
            message=number,
            object=item.id,
            distance=self._results_between(result, number),
            needed=sorted(own),
            action=self._tokenizer.decode(tokens),
            object_text=result_text(self._block(result)),
            texts=texts,
        )

    def _last_words(self, item: Item, number: int) -> str:
        """What the assistant last said before an action, or the last prompt: a question that knows nothing of it."""
        numbers = range(number - 1, item.places[1].message, -1)
        said = (text for each in numbers for text in _texts(shorten_message(self._messages[each])))
        return next(said, "") or "the text"

    def _earlier(self, call: int, typed: Sequence[int]) -> list[int]:
        """The numbers of the round before an object's call: as in a long history, its call is not the only example."""
        pair = list(range(max(0, call - 2), call))
        is_round = [self._messages[each]["role"] for each in pair] == ["assistant", "user"]
        return pair if is_round and (not typed or typed[-1] < pair[0]) else []

    def _recent(self, number: int) -> list[int]:
        """The numbers of the last rounds before an action."""
        first, room, results = number, RECENT, KEPT_MASKED
        while first >= 2 and self._messages[first - 2]["role"] == "assistant":
            pair = [shorten_message(each) for each in self._messages[first - 2 : first]]
            room -= sum(len(self._tokenizer.encode(render_message(each))) for each in pair)
            results -= sum(is_result(block) for block in pair[1]["content"])
            if first < number and (room < 0 or results < 0):
                break
            first -= 2
        return list(range(first, number))

    def _typed(self, before: int) -> list[int]:
        """The numbers of the user's messages without results."""
        numbers = [each for each in range(before) if self._messages[each]["role"] == "user"]
        return [each for each in numbers if not any(map(is_result, content_blocks(self._messages[each]["content"])))]


def render_action(message: Mapping[str, Any]) -> str:
    """An assistant's reply as the model would continue."""
    return render_message(message).removeprefix(OPEN)


def _texts(message: Mapping[str, Any]) -> list[str]:
    return [block["text"] for block in message["content"] if block.get("type") == "text"]


def _only(message: Mapping[str, Any], index: int) -> Message:
    """A message with only one of its blocks; arguments are cut, the result is whole."""
    block = content_blocks(message["content"])[index]
    whole = {**block, "content": result_text(block)}
    shown = shorten_block(block, ARGUMENT, RESULT, WORDS) if is_call(block) else whole
    return {"role": message["role"], "content": [shown]}


def _ours(messages: Sequence[Message], first: int, item: Item, fidelity: Fidelity) -> list[Message]:
    """The messages with the object, whose call is message number ``first``, at a fidelity."""
    rendering = rendering_of(item, fidelity)
    return assemble(messages, {BlockPlace(first + number, 0): rendering for number in range(2)})


def _clear(messages: Sequence[Message], old: int, kept: int, instead: Callable[[str], str]) -> list[Message]:
    """The messages with the result in message number ``old``, and all but the last results, replaced."""
    results = [block for message in messages[old + 1 :] for block in message["content"] if is_result(block)]
    cleared = {id(block) for block in (*messages[old]["content"], *results[:-kept])}

    def show(block: Message) -> Message:
        return {**block, "content": instead(block["content"])} if id(block) in cleared else block

    return assemble([{**each, "content": [*map(show, each["content"])]} for each in messages], {})


def _ask(item: Item, question: str) -> list[Message]:
    """The round of a memory question about the object."""
    source = Source(id=item.id, text=item.text, spans=((0, len(item.text)),))
    quotes = quote_sources(question, [source], ANSWER_TOKENS, _count_tokens, fill=True)
    spent = sum(tokens for _, tokens in quotes)
    same = {name: getattr(item, name) for name in ("kind", "role", "source_key", "tags", "last_turn")}
    memory = remembered(created(item.id, **same))
    text = answer_text([each for each, _ in quotes], memory, spent, RecallBudget().after(spent))
    call = {"type": "tool_use", "id": "ask", "name": QUERY, "input": {"question": question, "scope": f"#{item.id}"}}
    return [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "ask", "content": text}]},
    ]


def _count_tokens(text: str) -> int:
    return Estimator.of(None).tokens(features_of_text(text))
