"""Admission scores an object part by part; small content without anything new is not worth an index entry."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.admission import THRESHOLD, WEIGHTS, AdmissionCandidate, admit, recency
from mnemosyne.domain.objects.kinds import ObjectKind, Role

PLAIN = AdmissionCandidate(kind=ObjectKind.TOOL_RESULT, role=Role.TRANSCRIPT, tokens=600)
SAID = attrs.evolve(PLAIN, kind=ObjectKind.CONVERSATION_PHASE)
CANDIDATES = st.builds(
    AdmissionCandidate,
    kind=st.sampled_from(ObjectKind),
    role=st.sampled_from(Role),
    tokens=st.integers(0, 100_000),
    replaces_admitted=st.booleans(),
    new_share=st.floats(0, 1),
    age=st.integers(0, 10_000),
)


@given(CANDIDATES)
def test_each_part_and_the_score_lie_in_0_to_1_and_the_decision_follows_from_them(
    candidate: AdmissionCandidate,
) -> None:
    found = admit(candidate)
    parts = {name: getattr(found, name) for name in WEIGHTS}
    assert all(0 <= part <= 1 for part in parts.values())
    assert found.score == pytest.approx(sum(WEIGHTS[name] * part for name, part in parts.items()))
    if found.admitted and not candidate.replaces_admitted:
        assert found.score >= THRESHOLD


@given(CANDIDATES, st.floats(0, 1), st.integers(0, 1_000))
def test_more_that_is_new_never_lowers_the_score_and_age_never_raises_it(
    candidate: AdmissionCandidate, share: float, older: int
) -> None:
    newer = attrs.evolve(candidate, new_share=max(share, candidate.new_share))
    assert admit(newer).score >= admit(candidate).score
    assert admit(attrs.evolve(candidate, age=candidate.age + older)).score <= admit(candidate).score


@given(CANDIDATES)
def test_replacement_of_an_admitted_object_is_always_admitted(candidate: AdmissionCandidate) -> None:
    assert admit(attrs.evolve(candidate, replaces_admitted=True)).admitted


@pytest.mark.parametrize("kind", ObjectKind)
def test_new_content_of_any_kind_is_admitted(kind: ObjectKind) -> None:
    assert admit(attrs.evolve(PLAIN, kind=kind)).admitted


@pytest.mark.parametrize("rejected", [attrs.evolve(PLAIN, refers=True), attrs.evolve(PLAIN, new_share=0.0, tokens=20)])
def test_references_and_small_output_without_novelty_are_rejected(rejected: AdmissionCandidate) -> None:
    assert not admit(rejected).admitted


@pytest.mark.parametrize(
    "wanted",
    [
        attrs.evolve(PLAIN, kind=ObjectKind.FILE_CONTEXT, new_share=0.0),
        attrs.evolve(PLAIN, tokens=8_000, new_share=0.0),
        attrs.evolve(SAID, tokens=6, new_share=0.0, age=5),
        attrs.evolve(PLAIN, kind=ObjectKind.ERROR_CONTEXT, new_share=0.0),
    ],
)
def test_large_output_files_messages_and_errors_are_admitted_without_novelty(wanted: AdmissionCandidate) -> None:
    assert admit(wanted).admitted


def test_one_third_new_specifics_counts_as_entirely_new() -> None:
    assert admit(attrs.evolve(PLAIN, new_share=0.34)) == admit(PLAIN)


def test_recency_halves_every_fifty_turns() -> None:
    assert [recency(age) for age in (0, 50, 100)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("changes", [{"new_share": 1.5}, {"new_share": -0.1}, {"age": -1}])
def test_value_out_of_range_raises_an_error_that_names_it(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        attrs.evolve(PLAIN, **changes)  # type: ignore[arg-type]
