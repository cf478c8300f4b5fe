"""The helper task ``judge``: does a shortened context serve the recorded next action as well as the full one?

A place is a request whose window lacks or shortens objects. The judge reads the full texts of these objects, their
replacements, and the agent's next action. A difference counts only if it quotes text that the window lacks.
"""

import json
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any

import attrs

from mnemosyne import credentials
from mnemosyne.domain.helper.model import HelperPrompt
from mnemosyne.domain.helper.task import Accepted, HelperTask, Limits, Rejected, find_span, write_prompt
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.text.grounding import find_invented
from mnemosyne.domain.text.stubs import render_count
from mnemosyne.domain.wire.blocks import has_results
from mnemosyne.figures import printable
from mnemosyne_lab.evaluation.demand import Demand, plain, texts_of
from mnemosyne_lab.evaluation.sizing import Sized, SizedItem
from mnemosyne_lab.evaluation.trace import TraceRequest

PLACES_OF_SESSION = 10

LONGEST_TEXTS, LONGEST_TEXT = 24_000, 8_000
"""Maximum length in characters of all full texts that a model reads, and of one of them."""

LONGEST_ACTION, LONGEST_TASK = 4_000, 2_000

SHORTEST_QUOTE = 12
"""Minimum length of a quotation without white space; shorter ones are found everywhere."""

MOST_DIFFERENCES, LONGEST_REASON, LONGEST_QUOTE = 8, 400, 2_000
MOST_TOKENS = 150 * MOST_DIFFERENCES + 100

PATIENT = Limits(seconds=300.0)
"""Limits of a judge: a local model may read a long prompt on a processor, and nothing else waits for it."""

EQUIVALENT = "equivalent"
VERDICTS = (EQUIVALENT, "not equivalent")

_DIFFERENCE = {"why": {"type": "string"}, "quote": {"type": "string"}}


def properties_of(verdicts: Sequence[str]) -> Mapping[str, Any]:
    """The members of a judge's answer: one of these verdicts, and its reasons."""
    reason = {"type": "object", "properties": _DIFFERENCE, "required": list(_DIFFERENCE), "additionalProperties": False}
    return {"verdict": {"type": "string", "enum": list(verdicts)}, "differences": {"type": "array", "items": reason}}


PROPERTIES = properties_of(VERDICTS)

_INSTRUCTIONS = f"""\
You compare two contexts of a coding agent. In the second context, some texts are shortened or removed; everything \
else is the same. Reply with one JSON object and nothing else: {{"verdict": "equivalent" or "not equivalent", \
"differences": [{{"why": string, "quote": string}}]}}.

equivalent: with the second context, the agent could have taken the given next action equally well. Then differences \
is empty.
not equivalent: the action needs something that the second context lacks. For each such thing: why the action needs \
it, in one sentence, and a quotation of at least {SHORTEST_QUOTE} characters from a full text, copied exactly.
A text that the action does not need makes no difference."""


@attrs.frozen(kw_only=True)
class JudgedPlace:
    """A ``turn`` of a session whose window lacks lines of objects: their ``full`` texts and the text ``instead`` of
    each. ``task`` is the user's latest prompt, ``action`` the recorded reply. ``present`` has the lines of the full
    texts that are also elsewhere in the window. Further objects, for which the prompt has no room, are left out.
    """

    session: str
    turn: int
    task: str = attrs.field(repr=False)
    action: str = attrs.field(repr=False)
    full: tuple[str, ...] = attrs.field(repr=False)
    instead: tuple[str, ...] = attrs.field(repr=False)
    present: str = attrs.field(repr=False)


@attrs.frozen
class Difference:
    """Why a ``quote`` matters, which has this ``span`` in the text number ``text`` (from 0)."""

    why: str
    quote: str
    text: int
    span: tuple[int, int]


def _prompt(place: JudgedPlace) -> HelperPrompt:
    texts = [("task of the session", place.task), ("next action", place.action)]
    for number, (full, instead) in enumerate(zip(place.full, place.instead, strict=True), 1):
        texts += [(f"first context, text {number}", full), (f"second context, instead of text {number}", instead)]
    asked = {"texts": len(place.full)}
    return write_prompt(_INSTRUCTIONS, asked, texts, most_tokens=MOST_TOKENS)


def _verify(place: JudgedPlace, answer: Mapping[str, Any]) -> Accepted[Sequence[Difference]] | Rejected:
    window = "\n".join((*place.instead, place.present))
    grounds = "\n".join((place.task, place.action, *place.full, *place.instead))
    return verify_differences(answer, VERDICTS, [(full, window) for full in place.full], grounds)


def verify_differences(
    answer: Mapping[str, Any], verdicts: Sequence[str], texts: Sequence[tuple[str, str]], grounds: str
) -> Accepted[Sequence[Difference]] | Rejected:
    """Verify a judge's answer: EQUIVALENT without differences, or another of these verdicts with at least one that
    quotes the first text of a pair and is not in the second. ``grounds`` contain all specifics of its reason.
    """
    verdict, given = answer.get("verdict"), answer.get("differences")
    if verdict not in verdicts or not isinstance(given, list) or len(given) > MOST_DIFFERENCES:
        return Rejected(("the answer does not match the schema",))
    if verdict == EQUIVALENT:
        return Rejected(("the answer is equivalent, but lists differences",)) if given else Accepted((), answer)
    kept = [found for each in given if (found := _read_difference(each, texts, grounds)) is not None]
    if not kept:
        return Rejected(("it states no difference with words that the other context lacks",))
    dropped = len(given) - len(kept)
    return Accepted(
        kept,
        {"verdict": verdict, "differences": [{"why": each.why, "quote": each.quote} for each in kept]},
        (f"{render_count(dropped, 'difference')} without support",) if dropped else (),
    )


def _read_difference(given: object, texts: Sequence[tuple[str, str]], grounds: str) -> Difference | None:
    """The difference; None if its quotation is in no text or also in the other one, or its reason invents."""
    match given:
        case {"why": str(why), "quote": str(quote)} if (
            why.strip() and len(why) <= LONGEST_REASON and len(quote) <= LONGEST_QUOTE
        ):
            pass
        case _:
            return None
    if len("".join(quote.split())) < SHORTEST_QUOTE or find_invented(grounds, why):
        return None
    lines = [line for line in quote.splitlines() if line.strip()]
    for number, (text, other) in enumerate(texts):
        span = find_span(text, quote)
        if span and not all(find_span(other, line) for line in lines):
            return Difference(why, quote, number, span)
    return None


JUDGE = HelperTask(name="judge", version=1, properties=PROPERTIES, prompt=_prompt, verify=_verify, limits=PATIENT)


@attrs.frozen
class Judgement:
    place: JudgedPlace
    verdict: Accepted[Sequence[Difference]] | Rejected


@attrs.frozen(kw_only=True)
class JudgeResult:
    """The places of a ``policy`` that a ``helper`` judged, of ``sampled`` ones. The others were not sent to it, because
    its budget was used up or it kept failing. ``nanodollars`` is the cost of all answers.
    """

    policy: str
    helper: str
    sampled: int
    judgements: Sequence[Judgement]
    nanodollars: int = 0

    @property
    def different(self) -> Sequence[tuple[JudgedPlace, Sequence[Difference]]]:
        """The places that are not equivalent, with the reasons."""
        accepted = [(each.place, each.verdict) for each in self.judgements if isinstance(each.verdict, Accepted)]
        return [(place, verdict.result) for place, verdict in accepted if verdict.result]

    @property
    def rejected(self) -> Sequence[tuple[JudgedPlace, Sequence[str]]]:
        """The places without a usable answer, with the reasons."""
        return [(each.place, each.verdict.reasons) for each in self.judgements if isinstance(each.verdict, Rejected)]

    @property
    def equivalent(self) -> int:
        return len(self.judgements) - len(self.different) - len(self.rejected)


class PlaceSample:
    """The places of one session with the lowest hashes of name and turn, at most PLACES_OF_SESSION."""

    def __init__(self, sized: Sized) -> None:
        self._sized = sized
        self._kept: list[tuple[str, JudgedPlace]] = []

    @property
    def places(self) -> tuple[JudgedPlace, ...]:
        """The places, lowest hash first."""
        return tuple(place for _, place in self._kept)

    def add(
        self,
        request: TraceRequest,
        shortened: Mapping[str, Fidelity],
        window: Callable[[], Iterable[str]],
        demands: Sequence[Demand],
    ) -> None:
        """Consider a request whose window has objects below full fidelity: ``shortened``, by key."""
        reply = self._sized.messages[request.messages] if request.messages < len(self._sized.messages) else None
        rank = rank_of(self._sized.trace.name, request.turn)
        is_full = len(self._kept) == PLACES_OF_SESSION
        if not shortened or reply is None or reply["role"] != "assistant" or (is_full and rank > self._kept[-1][0]):
            return
        place = self._make(request, reply, shortened, window, demands)
        if place.full:
            insort(self._kept, (rank, place), key=lambda each: each[0])
        del self._kept[PLACES_OF_SESSION:]

    def _make(
        self,
        request: TraceRequest,
        reply: Mapping[str, Any],
        shortened: Mapping[str, Fidelity],
        window: Callable[[], Iterable[str]],
        demands: Sequence[Demand],
    ) -> JudgedPlace:
        texts = list(window())
        there = _list_lines("\n".join(texts)) | {""}
        unmet = [demand for demand in demands if not any(demand.text in text for text in texts)]
        needed = {source: demand.text for demand in reversed(unmet) for source in demand.sources}
        latest = reversed([each for each in self._sized.objects if each.item.id in shortened])
        lost = [each for each in latest if each.item.id in needed or _lacks_most(there, plain(each.item.text))]
        shown = list(_fit(sorted(lost, key=lambda each: each.item.id not in needed), needed))
        before = reversed(self._sized.messages[: request.messages])
        prompts = (each for each in before if each["role"] == "user" and not has_results(each["content"]))
        typed = ("\n".join(texts_of([each]))[-LONGEST_TASK:] for each in prompts)
        present = {line for _, text in shown for line in _list_lines(text) & there}
        instead = (self._sized.show(each.item.id, shortened[each.item.id]).text for each, _ in shown)
        return JudgedPlace(
            session=self._sized.trace.name,
            turn=request.turn,
            task=credentials.mask(next(typed, "")),
            action=credentials.mask(_render_action(reply))[:LONGEST_ACTION],
            full=tuple(credentials.mask(text) for _, text in shown),
            instead=tuple(credentials.mask(text) for text in instead),
            present=credentials.mask("\n".join(sorted(present))),
        )


def rank_of(session: str, turn: int) -> str:
    """The hash that decides which places are judged."""
    return sha256(f"{session}\0{turn}".encode("utf-8", "surrogatepass")).hexdigest()


def choose_places(sessions: Iterable[Sequence[JudgedPlace]], count: int) -> list[JudgedPlace]:
    """At most ``count`` places of many sessions: first one of each session, then a second of each, and so on."""
    ranked = [
        (number, rank_of(each.session, each.turn), each) for places in sessions for number, each in enumerate(places)
    ]
    return [place for *_, place in sorted(ranked, key=lambda each: each[:2])[:count]]


def _fit(ordered: Iterable[SizedItem], needed: Mapping[str, str]) -> Iterator[tuple[SizedItem, str]]:
    """The objects with their full texts, as long as there is room. A long text is cut around the needed text."""
    room = LONGEST_TEXTS
    for each in ordered:
        text = plain(each.item.text)
        most = min(room, LONGEST_TEXT)
        start = max(0, text.find(needed.get(each.item.id, "")) - most // 2) if len(text) > most else 0
        cut = text[start : start + most]
        room -= len(cut)
        if cut.strip():
            yield each, cut


def _lacks_most(there: Set[str], text: str) -> bool:
    """Whether most lines of a text are not ``there``: a file that was read again is not lost."""
    lines = _list_lines(text)
    return 2 * len(lines - there) > len(lines)


def _list_lines(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()}


def _render_action(reply: Mapping[str, Any]) -> str:
    """The texts and calls of a reply."""
    parts = []
    for block in reply["content"]:
        match block:
            case {"type": "text", "text": str(text)}:
                parts.append(text)
            case {"type": "tool_use", "name": str(name), "input": given}:
                parts.append(f"{name} {json.dumps(given, ensure_ascii=False)}")
    return "\n".join(parts)


def one_line(text: str) -> str:
    """A text on one line, safe to print."""
    return printable(" ".join(text.split()))
