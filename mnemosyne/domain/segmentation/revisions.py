"""Which earlier claims a later one takes the place of."""

import re
from collections.abc import Iterable, Iterator, Mapping

import attrs

from mnemosyne.domain.objects.speakers import Speaker, speaker_of
from mnemosyne.domain.segmentation.own_words import mask
from mnemosyne.domain.segmentation.settling import ClaimKind
from mnemosyne.domain.text.words import query_words


@attrs.frozen
class Settled:
    """A claim by its key, with its ``sentence`` and its ``tags``."""

    key: str
    sentence: str
    tags: tuple[str, ...]


def revisions(new: Iterable[Settled], standing: Iterable[Settled]) -> Iterator[tuple[str, str]]:
    """The keys of each claim that was revised and of the one that does, in their order.

    Nobody revises what somebody said who is trusted more; what was found to be so settles nothing.
    """
    held = {each.key: each for each in standing if _settles(each)}
    for each in filter(_settles, new):
        speaker = speaker_of(each.tags) or Speaker.OTHER
        within = {
            key: old.sentence for key, old in held.items() if speaker.may_revise(speaker_of(old.tags) or Speaker.OTHER)
        }
        for key in find_revised(each.sentence, within):
            del held[key]
            yield key, each.key
        held[each.key] = each


def _settles(each: Settled) -> bool:
    return ClaimKind.CONCLUSION.value not in each.tags


_REVISES = re.compile(
    r"\bchanged (?:our|my) minds?\b|\binstead\b|\bfrom now on\b|\bno longer\b|\bany ?more\b|\brather than\b"
    r"|\bafter all\b|\brevis(?:e|es|ed|ing)\b|\breplac(?:e|es|ing)\b",
    re.IGNORECASE,
)
_REASON = re.compile(r"[,;]? (?:because|since|so that) ", re.IGNORECASE)
_THINKS_AGAIN = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|no|hm+|ah),? )?(?:thinking (?:about (?:it|this) )?again|or better|on second thought|"
    r"scratch that|actually|no wait|wait)\b",
    re.IGNORECASE,
)
_SAME_WORDS, _SAME_SHARE = 3, 0.6
_SAME_WORDS_AGAIN, _SAME_SHARE_AGAIN = 2, 0.3
"""Who says that they think again needs to say less of what about."""


def find_revised(sentence: str, earlier: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of the earlier decisions that a decision takes the place of; none if it does not say so, or of which.

    What is decided on has to be named by the same words, at least three of them and most of the shorter sentence's, and
    more than any other decision shares. Of several that share as much, all are revised if they are one decision
    that was told again; else none is. What tells an earlier one again revises nothing.
    """
    again = _THINKS_AGAIN.match(sentence) is not None
    if not again and not _REVISES.search(mask(sentence)):
        return ()
    if any(_clause(other) in sentence for other in earlier.values()):
        return ()
    new = _words_of_decision(sentence)
    old = {key: _words_of_decision(other) for key, other in earlier.items()}
    shared = {key: len(new & each) for key, each in old.items() if _same_matter(new, each, again=again)}
    nearest = [key for key, common in shared.items() if common == max(shared.values())]
    told = [old[key] for key in nearest]
    return tuple(nearest) if all(min(told, key=len) <= each for each in told) else ()


def _same_matter(one: frozenset[str], other: frozenset[str], *, again: bool) -> bool:
    words, share = (_SAME_WORDS_AGAIN, _SAME_SHARE_AGAIN) if again else (_SAME_WORDS, _SAME_SHARE)
    common = len(one & other)
    return common >= words and common > share * min(len(one), len(other))


def _words_of_decision(sentence: str) -> frozenset[str]:
    """The words of what is decided, without those that only say that it is."""
    return frozenset(query_words(_clause(sentence))) - _DECIDING


def _clause(sentence: str) -> str:
    """What is decided, without why."""
    return _REASON.split(sentence, maxsplit=1)[0]


_DECIDING = frozenset(
    query_words("let's go use keep adopt decide decided decision settle agree choose change mind instead")
)
