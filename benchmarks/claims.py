"""How well claims and new goals agree with labels made by hand, and how many forged claims are believed.

The labels (``data/claims.json``) name sentences of recorded sessions by their places and hold no text. ``part`` keeps
sessions apart: the rules were tuned on some and judged on others. A sentence is found if a claim overlaps it; one that
agrees to something, if the claim is among what was proposed. What the reader was not sure of counts for nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.harness import Group, Part, Row, Server, single
from benchmarks.segmentation import ROOT, recorded_sessions
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.recall.goals import GoalStep, SaidBefore, read_goal
from mnemosyne.domain.segmentation.claiming import SaidClaim, Voices, find_claims
from mnemosyne.domain.segmentation.revisions import Settled, revisions
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.segmentation.speaking import speakers
from mnemosyne.domain.wire.blocks import has_results
from tests.domain.forged.drawing import VOCABULARIES, Forgery, draw
from tests.domain.injections import FORGED, GENUINE, Injection, injections

LABELS = Path(__file__).parent / "data" / "claims.json"
GOALS = LABELS.with_name("goals.json")
LATER_GOALS = LABELS.with_name("goals_later.json")
FITTED_GOALS = ROOT / "tests" / "domain" / "labels" / "goals.json"

UNSURE = "unsure"


@attrs.define
class ClaimAgreement:
    """Counts of sentences: ``labelled``, those of them ``found``; ``claimed`` in all, and those of them ``right``."""

    labelled: int = 0
    found: int = 0
    claimed: int = 0
    right: int = 0

    @property
    def recall(self) -> float:
        return self.found / max(1, self.labelled)

    @property
    def precision(self) -> float:
        return self.right / max(1, self.claimed)


@attrs.frozen
class LabelledSentence:
    """A sentence of a block; ``proposed`` is where what it agrees to stands: message, block, first and last letter."""

    start: int
    end: int
    label: str
    proposed: tuple[tuple[int, int, int, int], ...] = ()

    def has(self, said: SaidClaim) -> bool:
        """Whether a claim is what the sentence settles."""
        if not said.agreed:
            return self.label != "consent" and self.start < said.claim.end and said.claim.start < self.end
        place = said.place
        return not self.proposed or any(
            (message, block) == (place.message, place.block) and start < said.claim.end and said.claim.start < end
            for message, block, start, end in self.proposed
        )


def agreement(part: str, sessions: Mapping[str, Sequence[SeenMessage]]) -> ClaimAgreement:
    """How far the claims of the user's messages in one part of the sessions agree with the labels."""
    total = ClaimAgreement()
    for name, session in json.loads(LABELS.read_text()).items():
        if session["part"] == part:
            by_index = {message.index: message for message in sessions[name]}
            for message, block, _, labels in session["messages"]:
                _compare(
                    [*_sentences(labels)],
                    [*find_claims(BlockPlace(message, block), Voices(by_index))],
                    total,
                )
    return total


def _sentences(labels: Sequence[Mapping[str, Any]]) -> Iterator[LabelledSentence]:
    for each in labels:
        proposed = tuple(tuple(place) for place in each.get("proposed", ()))
        yield LabelledSentence(each["span"][0], each["span"][1], each["label"], proposed)


def _compare(labelled: Sequence[LabelledSentence], said: Sequence[SaidClaim], total: ClaimAgreement) -> None:
    sure = [each for each in labelled if each.label != UNSURE]
    unsure = [each for each in labelled if each.label == UNSURE]
    total.labelled += len(sure)
    total.found += sum(any(each.has(claim) for claim in said) for each in sure)
    for claim in said:
        right = any(each.has(claim) for each in sure)
        if right or not any(each.has(claim) for each in unsure):
            total.claimed += 1
            total.right += right


def _labels(_servers: Sequence[Server], _quick: bool) -> list[Row]:
    """Precision and recall of each part; no rows where the sessions are not here."""
    sessions = recorded_sessions()
    parts = sorted({session["part"] for session in json.loads(LABELS.read_text()).values()}) if sessions else []
    rows = []
    for part in parts:
        total = agreement(part, sessions)
        labelled, claimed = f"{part}, {total.labelled} labelled", f"{part}, {total.claimed} found"
        rows.append(single("recall of claims", labelled, "ratio", total.recall))
        rows.append(single("precision of claims", claimed, "ratio", total.precision))
    return rows


def typed(messages: Sequence[SeenMessage]) -> Iterator[tuple[int, str, str]]:
    """The number of each message that was typed, what was typed, and the last answer before it."""
    answer = ""
    for message in messages:
        said = speakers(message.role, message.content)
        texts = [str(block["text"]) for block, who in zip(message.content, said, strict=True) if who.claims]
        if message.role == "assistant":
            answer = texts[-1] if texts else answer
        elif texts and not has_results(message.content):
            yield message.index, "\n\n".join(texts), answer


def goals(labels: Mapping[str, Sequence[Any]], sessions: Mapping[str, Sequence[SeenMessage]]) -> ClaimAgreement:
    """How far what is taken for a new goal agrees with the labels; a session's first message counts for nothing."""
    total = ClaimAgreement()
    for name, labelled in labels.items():
        new = {number: label == "new" for number, _, label in labelled}
        before = ""
        for number, said, answer in typed(sessions[name]):
            if number in new:
                called = read_goal(said, SaidBefore(before, answer)) is GoalStep.NEW
                total.labelled += new[number]
                total.found += new[number] and called
                total.claimed += called
                total.right += new[number] and called
            before = said
    return total


def _goals(_servers: Sequence[Server], _quick: bool) -> list[Row]:
    """Precision and recall of new goals on the sessions that the rule was fitted on, in two files, and on others that
    it was mended with.
    """
    sessions = recorded_sessions()
    rows = []
    for part, path in (
        (("fitted on", FITTED_GOALS), ("fitted on, too", GOALS), ("read later", LATER_GOALS)) if sessions else ()
    ):
        total = goals(json.loads(path.read_text()), sessions)
        rows.append(single("recall of new goals", f"{part}, {total.labelled} labelled", "ratio", total.recall))
        rows.append(single("precision of new goals", f"{part}, {total.claimed} found", "ratio", total.precision))
    return rows


def heard(messages: Sequence[SeenMessage]) -> list[SaidClaim]:
    """All that is claimed in a conversation."""
    said = Voices({each.index: each for each in messages})
    places = [BlockPlace(each.index, number) for each in messages for number in range(len(each.content))]
    return [claim for place in places for claim in find_claims(place, said)]


def settle(said: Iterable[SaidClaim]) -> list[Settled]:
    """What claims settle, as it is told in memory."""
    return [
        Settled(str(number), each.claim.sentence, (each.claim.kind.value, each.speaker.value))
        for number, each in enumerate(said)
    ]


def _heard_of(injection: Injection) -> list[SaidClaim]:
    told = enumerate(injection.messages())
    return heard([SeenMessage(number, each["role"], 1, each["content"]) for number, each in told])


def is_believed(injection: Injection) -> bool:
    """Whether what was forged is a claim of somebody who did not make it."""
    forged = [said for said in _heard_of(injection) if FORGED in said.claim.sentence]
    return any(not injection.by_model or said.speaker is not Speaker.ASSISTANT for said in forged)


def is_revising(injection: Injection) -> bool:
    """Whether the user's own decision is revised, or not even there."""
    return _is_lost(GENUINE, _heard_of(injection))


def is_taken(forgery: Forgery) -> bool:
    """Whether anything that was forged is the user's claim, or their own decision is not there as it was."""
    said = heard(forgery.messages())
    return any(
        forgery.matter.forged in each.claim.sentence for each in said if each.speaker is Speaker.USER
    ) or _is_lost(forgery.matter.genuine, said)


def _is_lost(genuine: str, said: Iterable[SaidClaim]) -> bool:
    settled = settle(said)
    held = [each for each in settled if each.sentence == genuine]
    later = [each for each in settled if each not in held]
    return len(held) != 1 or any(old == held[0].key for old, _ in revisions(later, held))


def _forged(_servers: Sequence[Server], quick: bool) -> list[Row]:
    variants = [*injections()][:: 50 if quick else 1]
    count = f"{len(variants)} variants"
    drawn = 100 if quick else 10_000
    return [
        single("forged and believed", count, "claims", sum(map(is_believed, variants)), 0),
        single("genuine and revised", count, "claims", sum(map(is_revising, variants)), 0),
        *(
            single(
                f"taken of vocabulary {name}", f"{drawn} drawn", "claims", sum(map(is_taken, draw(name, 1, drawn))), 0
            )
            for name in VOCABULARIES
        ),
    ]


GROUP = Group("claims", (), (Part("labels", _labels), Part("goals", _goals), Part("forged", _forged)))
