"""The pass over the user's message before the model sees it: does it refer to what the branch no longer shows in full,
and what of that is put behind it.

A message that says "as we decided" or "go back to that approach" makes the model ask, a whole round later; so does one
that names a file or an identifier which the model no longer sees. What is brought is quoted as data, word for word,
with ids that an answer can cite.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import nlargest

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, is_searched
from mnemosyne.domain.objects.events import LinkRelation
from mnemosyne.domain.objects.faults import Spent
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.residency import is_prompt, stands_in_full
from mnemosyne.domain.recall.memory_calls import GrantedRestore, restore
from mnemosyne.domain.recall.quoting import LEAST_COVERAGE
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.session.goal_events import Brought
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.text.entities import SpecificKind, key_entities, specifics
from mnemosyne.domain.text.passages import Passage
from mnemosyne.domain.text.words import query_words, words
from mnemosyne.domain.tools.memory_tools import MemoryRestore

# Does it refer to what was before?

_LOOKED_AT = 700


def question_of(message: str) -> str:
    """What a message asks: its beginning and its end, for what is pasted stands between, and may be very long."""
    return message if len(message) <= 2 * _LOOKED_AT else f"{message[:_LOOKED_AT]}\n\n{message[-_LOOKED_AT:]}"


_DONE = (
    r"(?:decid|discuss|agree|settl|plan|propos|suggest|mention|conclud|establish|talk(?:ed)? about|said|sa(?:y|id)|"
    r"chose|choose|did|do\b|see|read|learn|found|find|tried|try|call|name|wrote|writ|us(?:e|ed)\b|ha(?:d|ve)\b)"
)
_ENGLISH = rf"""
    \b(?:as|like)\s(?:we|you|I)(?:'ve|\shad|\shave)?\s(?:already\s)?
        (?:decided|discussed|agreed|said|planned|settled|talked|mentioned|established|noted|concluded|did)\b
  | \b(?:what|why|how|where|which|when)\b.{{0,30}}\b(?:did(?:n't)?|had)\s(?:we|you|I)\s(?:\w+\s)?{_DONE}
  | \bdid\s(?:we|you|I)\s(?:not\s|already\s|ever\s)?(?:decide|discuss|agree|settle|say|mention|conclude|try)\b
  | \b(?:we|you|I)(?:'ve|\shad|\shave)?\s(?:\w+\s)?(?:decided|agreed|settled|discussed|talked|mentioned|said|chose|
        concluded|proposed|suggested|planned|tried|had|did|saw|fixed|wrote)\b.{{0,60}}
        \b(?:earlier|previously|before\b(?!\s\w)|last\stime|yesterday|at\sthe\s(?:start|beginning)|a\swhile\sago)
  | \b(?:things|changes|work|everything)\s(?:that\s)?(?:we|you|I)(?:'ve|\shave)?\s(?:did|made|done)\b
  | \b(?:earlier|previously|last\stime|yesterday)\b,?\s(?:\w+\s)?(?:we|you|I)\b
  | \b(?:that|the|our|your|my)\s(?:earlier|previous|original|prior|initial)\s(?:\w+\s)?(?:decision|choice|plan|approach|
        idea|design|proposal|suggestion|discussion|conclusion|finding|solution|answer|analysis|summary|list|review)s?\b
  | \b(?:that|those)\s(?:decision|choice|plan|approach|idea|design|solution|conclusion|discussion)s?\s
        (?:about|for|regarding|on|of|we|you|I|from)\b
  | \b(?:let'?s|(?:can|could|should)\s(?:we|you)|please|I'd\slike\sto|I\swant\sto|we\sshould|now|ok(?:ay)?,?)
        \s(?:go|get|come|switch)\sback\sto\b
  | ^(?:go|going|get|getting|coming|back)\s(?:back\s)?to\b.{{0,20}}\b(?:the|that|our)\b
  | \b(?:revisit|return\sto\s(?:the|that|our)|pick\s(?:\w+\s)?up\swhere)\b
  | \bremember\s(?:when|how|what|that|the|why|where|our|we)\b
  | \b(?:remind[ ]me|recall\s(?:that|what|how|the|our|why))\b
  | \b(?:tell|show|explain|give|understand|repeat|list)\b.{{0,20}}\bagain\b
  | \b(?:what|which|where|who|how)\s(?:was|were)\b.{{0,120}}\bagain\b
"""
_OTHERS = r"""
    \bwie\s(?:wir\s)?(?:\w+\s)?(?:besprochen|beschlossen|vereinbart|gesagt|entschieden|geplant)\b | \bvorhin\b
  | \bzurück\szu(?:m|r)?\b | \berinnerst\sdu\b | \b(?:was|warum|wie|wo)\s(?:haben|hatten)\swir\b
  | \bcomme\s(?:on|nous|tu|vous)\s(?:l')?(?:a(?:vons|s|vez|vait)?\s)?(?:dit|décidé|convenu|discuté)
  | \b(?:rappelle-|te\ssouviens|tout\sà\sl'heure|revenons\s(?:à|au)|revenir\s(?:à|au))
  | \bcomo\s(?:ya\s)?(?:dijimos|decidimos|acordamos|hablamos|combinamos|dissemos)\b
  | \b(?:recuerdas|recuérdame|volvamos\sa|volver\sa\sla|lembra(?:-se)?\s(?:de|do|da|que|quando)|voltar\s(?:ao|à))\b
  | \bcome\s(?:abbiamo\s)?(?:detto|deciso|concordato)\b | \b(?:ti\sricordi|torniamo\sa)
  | \bкак\s(?:мы\s)?(?:решили|договорились|обсуждали|говорили)\b | \b(?:помнишь|напомни|верн[её]мся\sк)
  | 之前(?:我们|我們|说|說|决定|決定|讨论|討論|的) | 刚才 | 剛才 | 上次 | 还记得 | 還記得 | 回到(?:之前|那个|那個|原来)
  | さっき | 先ほど | 以前(?:に|の|決) | 前に(?:決|話|言) | 覚えて(?:い|る) | 아까 | 이전에 | 지난번 | 기억(?:나|하)
"""  # noqa: RUF001 - letters of other scripts
_RECALL = re.compile(f"{_ENGLISH}|{_OTHERS}", re.IGNORECASE | re.VERBOSE | re.MULTILINE)
_PASTED = re.compile(r"```.*?(?:```|\Z)|^[^\S\n]*+>.*$|\"[^\"\n]{0,300}\"|`[^`\n]{0,300}`", re.DOTALL | re.MULTILINE)


def recalls(message: str) -> bool:
    """Whether the user refers to what was said, decided or done earlier. What is quoted or pasted does not count."""
    return _RECALL.search(_PASTED.sub(" … ", question_of(message)).replace("’", "'")) is not None  # noqa: RUF001 - as people type it


# What could be brought, and what of it is


@attrs.frozen
class PrefetchLimits:
    """The most that is brought at once: objects, claims, and tokens of both together; ``one`` object's tokens."""

    objects: int = 3
    claims: int = 5
    tokens: int = 1_500
    one: int = 600


LIMITS = PrefetchLimits()

ENOUGH = 12
"""So many of the best matches are looked at."""


def find_hidden(
    memory: Memory, branch: str, shown: Collection[str] = (), roles: Sequence[str] = ()
) -> dict[str, MemoryObject]:
    """What could be brought: the objects within reach that the branch does not show in full, and the claims made in
    such; without what no longer says how things are, and those of which something is ``shown`` already.

    ``roles`` are those of the messages of the client's history: what the user alone said stays where it was said.
    """

    def stays(each: MemoryObject) -> bool:
        return is_prompt(memory, branch, each) and all(
            place.message < len(roles) and roles[place.message] == "user" for place in each.places
        )

    return {
        each.id: each
        for each, fidelity in memory.within_reach(branch)
        if not (each.places and (fidelity is Fidelity.FULL or stays(each)))
        and each.id not in shown
        and not (each.forgotten or each.stale)
        and is_searched(each)
        and (each.places or not stands_in_full(memory, branch, each.id))
    }


MOST_NAMED = 3
"""An identifier that more hidden objects hold tells none of them apart."""

_NAMES = frozenset({SpecificKind.PATH, SpecificKind.LOCATION, SpecificKind.IDENTIFIER, SpecificKind.ERROR})
_LINE = re.compile(r":\d{1,9}(?:[:-]\d{1,9}){0,2}\Z")


def find_named(message: str, among: Mapping[str, MemoryObject]) -> dict[str, MemoryObject]:
    """The objects that a message names: by the end of their path, or by an identifier that few others hold."""
    said = {each.text for each in specifics(question_of(message)) if each.kind in _NAMES}
    ends = (_LINE.sub("", text).removeprefix("./").strip("/") for text in said)
    paths = tuple(f"/{end}" for end in ends if end)
    holding = Counter(word for each in among.values() for word in said.intersection(each.key_entities))
    telling = {word for word, count in holding.items() if count <= MOST_NAMED}
    return {
        key: each
        for key, each in among.items()
        if f"/{each.source_key or ''}".endswith(paths) or not telling.isdisjoint(each.key_entities)
    }


def _list_linked(each: MemoryObject) -> Iterator[str]:
    """The objects that one needs to be understood."""
    return (link.target for link in each.links if link.relation in (LinkRelation.DEPENDS_ON, LinkRelation.REFERENCES))


def beyond_name(question: str, each: MemoryObject) -> str:
    """What a question asks beyond the words that only name an object; all of it where there is nothing else."""
    name = set(words(f"{each.line} {each.stub} {each.source_key or ''}"))
    rest = [word for word in question.split() if not name.issuperset(words(word))]
    return " ".join(rest) or question


MOST_BY_WORDS = 400
"""So many of the newest objects are compared by what is known of them: some 20 ms of work."""


def by_words(question: str, among: Mapping[str, MemoryObject]) -> list[str]:
    """The objects that a question is about by what is known of them without their text, best first."""
    index: WordIndex[str] = WordIndex()
    for key, each in nlargest(MOST_BY_WORDS, among.items(), key=lambda item: item[1].last_turn):
        index.add(key, " ".join((each.line, each.stub, each.source_key or "", *each.key_entities)))
    hits = index.search(question, ENOUGH)
    return [hit.key for hit in hits if index.coverage(question, hit.key) >= LEAST_COVERAGE]


@attrs.frozen
class Wanted:
    """Something to bring: a rendition at ``after``, or, where that is None, as much of a passage as ``most`` allows.

    ``passage`` is where the object says most about it, if the index said so.
    """

    object: MemoryObject
    after: Fidelity | None
    most: int
    passage: Passage | None = None

    @property
    def is_claim(self) -> bool:
        """Whether it is a sentence, which is there already."""
        return not self.object.places


def find_requested(state: Session, branch: str) -> tuple[Wanted, ...]:
    """What a person wants the branch to show again: as much as the model could have back in one turn."""
    requested = state.memory.view_of(branch).requested
    if not requested:
        return ()
    scales, found, spent = state.stated_scales, list[Wanted](), Spent()
    for key, after in requested.items():
        granted = restore(state.memory, branch, MemoryRestore(key, after, ""), spent, scales=scales)
        if isinstance(granted, GrantedRestore):
            found.append(Wanted(granted.object, granted.after, granted.tokens))
            spent = spent.after(granted.tokens)
    return tuple(found)


def choose(
    memory: Memory,
    branch: str,
    found: Mapping[str, Passage | None],
    among: Mapping[str, MemoryObject],
    limits: PrefetchLimits = LIMITS,
) -> list[Wanted]:
    """What is brought of the objects that were ``found``, best first.

    The last place is for what the others depend on or refer to, one step away; without such, for the next best.
    """
    claims = [among[key] for key in found if among[key].role is Role.CLAIM and not among[key].places][: limits.claims]
    best = [key for key in found if among[key].places]
    linked = [key for each in (*claims, *(among[key] for key in best)) for key in _list_linked(each) if key in among]
    first, rest = best[: limits.objects - 1], best[limits.objects - 1 :]
    order = [key for key in dict.fromkeys((*first, *linked[:1], *rest, *linked)) if among[key].places]
    left, wanted = limits.tokens, list[Wanted]()
    for each in claims:
        if each.tokens <= left:
            wanted.append(Wanted(each, None, each.tokens))
            left -= each.tokens
    shown = memory.view_of(branch)
    for key in order[: limits.objects]:
        most = min(left, limits.one)
        if most < _LEAST_PASSAGE:
            break
        after = _rendition(among[key], shown.fidelity_of(key), most)
        tokens = most if after is None else among[key].renditions[after].tokens
        wanted.append(Wanted(among[key], after, most, found.get(key)))
        left -= min(tokens, among[key].tokens)
    return wanted


_LEAST_PASSAGE = 60
"""Tokens; less is not worth a place."""


def _rendition(each: MemoryObject, before: Fidelity, most: int) -> Fidelity | None:
    """The fullest rendition that fits and is more than the branch shows; None if there is none."""
    for after in (Fidelity.DETAILED, Fidelity.COMPACT):
        rendition = each.renditions.get(after)
        if rendition is not None and rendition.tokens <= most and is_legal(before, after, Cause.PREFETCH):
            return after
    return None


# How it will be known whether it was of use


_WORDS = 12


def make_brought(each: MemoryObject, text: str, tokens: int, message: str, common: frozenset[str]) -> Brought:
    """The record of a text that is brought. It is known again by two specifics that are neither in the ``message`` nor
    ``common``; a text that has none, by most of its words that the message does not ask with.
    """
    asked = set(query_words(question_of(message)))
    specifics = [word for word in key_entities(text, 3 * _WORDS) if word not in common and word not in message]
    if specifics:
        return Brought(object=each.id, tokens=tokens, words=tuple(specifics[:_WORDS]), enough=min(2, len(specifics)))
    plain = [word for word in query_words(text) if word not in asked][:_WORDS]
    return Brought(object=each.id, tokens=tokens, words=tuple(plain), enough=max(2, len(plain) * 3 // 4))


def common(memory: Memory, branch: str) -> frozenset[str]:
    """The specifics by which nothing is told apart: of what a branch shows in full, and of more than one object."""
    full = (each for each, fidelity in memory.standings(branch) if fidelity is Fidelity.FULL and each.places)
    counts = Counter(word for each in memory.objects.values() for word in each.key_entities)
    several = (word for word, count in counts.items() if count > 1)
    return frozenset(several).union(*(each.key_entities for each in full))
