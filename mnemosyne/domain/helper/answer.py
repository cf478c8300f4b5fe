"""The task that answers a question from sources: tool results, the user's prompts, and the model's conclusions.

The helper receives the sources that the index ranks first, as data: small ones whole, of long ones the parts that the
question is about. For each sentence it names the passage and quotes the words there that support it. A sentence is
accepted only if these words occur in the passage, and if it adds nothing to them and the question. So each accepted
sentence refers to a span of bytes of an object. Code cannot check whether the words support the sentence, so the answer
includes them.

A helper that finds no answer may name words that the right passage may contain. The index is searched for them and the
question, and the helper is asked once more, with other passages. Anything that the model has read may have suggested
these words, so they are neither shown nor recorded nor sent.
"""

import re
from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.helper.model import STRING, HelperPrompt, list_of, object_of
from mnemosyne.domain.helper.task import UNREADABLE, Accepted, HelperTask, Limits, Rejected, find_span, write_prompt
from mnemosyne.domain.session.input_events import GroundedSentence, HelperAnswer
from mnemosyne.domain.text.grounding import LEAST_GROUNDED, find_invented, measure_grounding
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.text.words import query_words, words

LONGEST_SENTENCE, MOST_SENTENCES = 400, 6
"""Maximum characters of a sentence, and maximum sentences of an answer."""

LEAST_QUOTED, LONGEST_QUOTED = 8, 1_000
"""Minimum and maximum characters of a supporting quote: a single word would prove anything."""

LONGEST_WORDS = 300
"""Maximum characters of the words for a second search."""

_ANSWER_TOKENS = 600
_WORD = re.compile(r"\w+(?:[.,]\w+)*")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


@attrs.frozen(kw_only=True)
class HelperPassage:
    """A passage for a helper: the bytes of an object's text from ``start`` on. ``name`` is the name of the record
    (``recall.memory_results.record_name``).
    """

    object: str
    start: int
    name: str
    text: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class HelperQuestion:
    """A question for a helper, with the passages that it may use. It is the second and last time if they were found
    with the words ``look_for``.
    """

    question: str
    passages: tuple[HelperPassage, ...]
    look_for: str = ""

    @property
    def searched(self) -> str:
        """The text to search for: with the question in it, a helper's wrong guesses hide none of its passages."""
        return f"{self.question} {self.look_for}".strip()


@attrs.frozen(kw_only=True)
class ComposedAnswer:
    """The accepted sentences of an answer, and how many were ``dropped``; or the words to ``look_for``."""

    sentences: tuple[GroundedSentence, ...] = ()
    dropped: int = 0
    look_for: str = ""


@attrs.frozen(kw_only=True, slots=False)
class LookAgain(HelperAnswer):
    """A helper found no answer, and asks for other passages, which contain the words ``look_for``."""

    look_for: str

    def add_second(self, second: HelperAnswer | None) -> HelperAnswer:
        """The result of the ``second`` call, if any, with the usage and cost of both calls."""
        last = HelperAnswer(helper=self.helper, prompt=self.prompt) if second is None else second
        return attrs.evolve(
            last,
            why=None if last.sentences else self.why,
            version=self.version,
            read=_add(self.read, last.read),
            written=_add(self.written, last.written),
            nanodollars=self.nanodollars + last.nanodollars,
        )


def _add(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


_SENTENCE = object_of({"text": STRING, "passage": {"type": "integer"}, "quote": STRING})
_PROPERTIES: Mapping[str, Any] = {"sentences": list_of(_SENTENCE), "look_for": STRING}

_SYSTEM = """\
You answer a question from passages of what a coding agent has read, run and written. Reply with one JSON object and \
nothing else: {"sentences": [{"text": string, "passage": integer, "quote": string}], "look_for": string}.

sentences: the answer in as few sentences as possible, each with one fact from one passage; an empty list if no \
passage answers the question.
text: the sentence, in the question's language. Copy names, paths, numbers and error messages exactly as they are in \
the quote. State nothing that the quote does not state; do not count, calculate or guess.
passage: the number of the passage.
quote: the words of that passage that support the sentence, copied exactly, in one piece, as short as possible.
If passages contradict each other, use the one that is not out of date.

look_for: if no passage answers the question, four to ten words that the right passage probably contains and the \
question lacks: names, commands, error messages, other words for what is asked. Otherwise an empty string."""


def _prompt(asked: HelperQuestion) -> HelperPrompt:
    texts = [(f"passage {number}: {each.name}", each.text) for number, each in enumerate(asked.passages, 1)]
    return write_prompt(_SYSTEM, {"question": asked.question}, texts, most_tokens=_ANSWER_TOKENS)


def _verify(asked: HelperQuestion, answer: Mapping[str, Any]) -> Accepted[ComposedAnswer] | Rejected:
    """Accept the grounded sentences, or words to look for. An answer with neither is valid: nothing was found."""
    members, look_for = answer["sentences"], answer["look_for"]
    if not isinstance(members, list) or not isinstance(look_for, str):
        return Rejected((UNREADABLE,))
    if members or asked.look_for or len(look_for) > LONGEST_WORDS:
        look_for = ""
    grounded = [(each, sentence) for each in members[:MOST_SENTENCES] if (sentence := _ground(asked, each)) is not None]
    if members and not grounded:
        return Rejected(("no sentence is supported by the passage that it names",))
    sentences = tuple(dict.fromkeys(sentence for _, sentence in grounded))
    composed = ComposedAnswer(sentences=sentences, dropped=len(members) - len(sentences), look_for=look_for.strip())
    return Accepted(composed, {"sentences": [each for each, _ in grounded], "look_for": look_for})


def _ground(asked: HelperQuestion, member: object) -> GroundedSentence | None:
    """The sentence with the span of its quote; None if there is no such span, or it adds something to the quote."""
    if not isinstance(member, dict):
        return None
    text, number, quote = member.get("text"), member.get("passage"), member.get("quote")
    if not (isinstance(text, str) and type(number) is int and isinstance(quote, str)):
        return None
    if not (0 < len(text) <= LONGEST_SENTENCE and 1 <= number <= len(asked.passages)):
        return None
    sentence, passage = plain(text.encode("utf-8", "replace").decode(), LONGEST_SENTENCE), asked.passages[number - 1]
    span = _find_quote(passage.text, quote)
    if span is None or not _adds_nothing(sentence, passage, passage.text[slice(*span)], asked.question):
        return None
    before, end = (len(passage.text[:at].encode()) for at in span)
    return GroundedSentence(text=sentence, object=passage.object, start=passage.start + before, end=passage.start + end)


def _find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """The span of a quote in a text, ignoring differences in whitespace."""
    length = len(" ".join(quote.split()))
    return find_span(text, quote) if LEAST_QUOTED <= length <= LONGEST_QUOTED else None


def _adds_nothing(sentence: str, passage: HelperPassage, quoted: str, question: str) -> bool:
    """Whether a sentence shares words with its quote, and contains no names and few words that are missing from its
    quote, its record's name and the question. Figures must occur in the quote: an assumption of the question is no
    answer, nor is a digit of the record's id.
    """
    named = f"{passage.name}\n{question}"
    known = f"{quoted}\n{named}"
    return (
        not set(query_words(sentence)).isdisjoint(words(quoted))
        and _figures(sentence, known=named) <= _figures(quoted)
        and not find_invented(known, sentence)
        and measure_grounding(known, sentence) >= LEAST_GROUNDED
    )


def _figures(text: str, known: str = "") -> frozenset[str]:
    """The figures of a text, except inside ``known`` names."""
    names = {each for each in _WORD.findall(known) if not _FIGURE.fullmatch(each)}
    rest = " ".join(each for each in _WORD.findall(text) if each not in names)
    return frozenset(each.replace(",", "") for each in _FIGURE.findall(rest))


ANSWER = HelperTask(
    name="answer",
    version=4,
    properties=_PROPERTIES,
    prompt=_prompt,
    verify=_verify,
    limits=Limits(seconds=2.0, pauses=()),
)
"""A turn waits for this task, so there is no second attempt. Without a helper, quotes of the sources are the answer."""
