"""Measured losses leave nothing out, add up down the ladder, and say so in as many characters as they may."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.losses import SAMPLE, measure, render_losses
from mnemosyne.domain.text.entities import specifics

WORDS = st.sampled_from(
    [
        *("plain", "src/a.py", "lib/b.ts:12", "read_config", "handleAuth", "KeyError", "E501", "'two words'", "1234"),
        *(
            "12 ms",
            "v1.2.3",
            "9d93bec",
            "\n",
            "https://a.example/b",
            "\n   7→x_y",
            "exit code 2",
            "other_name",
            "98765",
        ),
    ]
)
TEXT = st.lists(WORDS, max_size=30).map(" ".join) | st.text()


@given(TEXT, TEXT)
def test_every_specific_is_in_the_rendition_or_counted_among_the_losses(l0: str, rendition: str) -> None:
    measured = measure(l0, rendition)
    assert measured.lost == len(specifics(l0) - specifics(rendition))
    assert measured.of == len(specifics(l0))


@given(TEXT, TEXT, TEXT)
def test_what_l1_lost_l2_has_lost_too(l0: str, l1: str, l2: str) -> None:
    lost = len(specifics(l0) - (specifics(l1) & specifics(l2)))
    assert measure(l0, l1, l2).lost == lost


@given(TEXT)
def test_the_full_content_loses_nothing_and_an_empty_text_everything(l0: str) -> None:
    assert measure(l0, l0).share == 0
    assert measure(l0, "").lost == len(specifics(l0))


@given(TEXT, TEXT, st.integers(0, 400))
def test_the_wording_keeps_to_its_budget_and_to_the_counts(l0: str, rendition: str, budget: int) -> None:
    measured = measure(l0, rendition)
    text = render_losses(measured, budget)
    assert len(text) <= budget
    for loss in measured.losses:
        assert loss.lost <= loss.of
        assert len(loss.sample) <= SAMPLE


def test_the_wording_names_kinds_counts_and_as_many_examples_as_fit() -> None:
    measured = measure("src/a.py src/b.py src/a.py E501 1234 5678 5678", "nothing")
    assert (
        render_losses(measured, 200)
        == "lost: 2 paths (src/a.py, src/b.py), 1 error code (E501), 2 numbers (5678, 1234)"
    )
    assert render_losses(measured, 55) == "lost: 2 paths (src/a.py, …), 1 error code, 2 numbers"
    assert render_losses(measured, 40) == "lost: 2 paths, 1 error code, 2 numbers"
    assert render_losses(measured, 30) == "lost: 5 specifics"
    assert render_losses(measured, 10) == ""
    assert render_losses(measure("plain words", ""), 200) == "lost: no specifics"
