"""Measured losses are complete, add up down the ladder, and are rendered within their budget."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.losses import SAMPLE, accumulate, measure, render_counts, render_phrases
from mnemosyne.domain.text.entities import SpecificKind, specifics

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
def test_loss_in_l1_is_a_loss_in_l2(l0: str, l1: str, l2: str) -> None:
    lost = len(specifics(l0) - (specifics(l1) & specifics(l2)))
    assert measure(l0, l1, l2).lost == lost


@given(TEXT, TEXT)
def test_losses_are_at_most_what_there_was_and_have_few_samples(l0: str, rendition: str) -> None:
    for loss in measure(l0, rendition).losses:
        assert loss.lost <= loss.of
        assert len(loss.sample) <= SAMPLE


def test_a_line_number_below_its_path_keeps_the_location() -> None:
    listed = "lib/b.ts\n12:found\n--\n14:found"
    assert measure("lib/b.ts:12 lib/b.ts:13", listed).lost == 1
    assert measure("lib/b.ts:12", f"{listed}\nin lib/b.ts:12").lost == 0
    assert measure("lib/b.ts:12", listed, "nothing").lost == 2  # the path is lost too


def test_lost_share_is_over_all_specifics_of_any_kind() -> None:
    assert measure("src/a.py E501 1234 5678", "src/a.py").share == 0.75
    assert measure("src/a.py E501 1234 5678", "src/a.py E501 1234 5678").share == 0
    assert measure("plain words", "").share == 0


def test_examples_are_the_most_frequent_and_none_is_long() -> None:
    longest, longer = ("src/" + "a" * (length - 7) + ".py" for length in (60, 61))
    frequent = [f"src/{letter}.py" for letter in "bcdefg"]
    full = " ".join([longer] * 3 + [longest] * 2 + frequent)
    (paths,) = measure(full, "").losses
    assert (paths.lost, paths.sample) == (8, (longest, *frequent[: SAMPLE - 1]))


def test_recorded_losses_are_rendered_by_kind() -> None:
    assert render_counts({"path": 14, "error code": 1, "number": 0}) == "14 paths, 1 error code"
    assert render_counts({"hash": 2}) == "2 hashes"
    assert render_counts({"number": 0}) == render_counts({}) == ""
    assert render_counts(dict.fromkeys([kind.value for kind in SpecificKind], 10**15)) == f"{9 * 10**15} specifics"


def test_needs_of_a_rendition_are_rendered_on_one_line() -> None:
    assert (
        render_phrases(["a body is to be edited", "a number\nis needed"])
        == "a body is to be edited; a number is needed"
    )
    assert render_phrases(["many words"] * 20) == "; ".join(["many words"] * 7), "none is cut"
    assert render_phrases(["x" * 100, "the exact text"]) == "x" * 89 + "…"
    assert render_phrases(["x" * 80, "y" * 80, "the end"]) == "x" * 80 + "; the end"


def test_losses_declared_above_are_inherited_unless_declared_here() -> None:
    before = ("12 lines", "the bodies of functions")
    assert accumulate(before, ("40 lines", "names")) == ("40 lines", "names", "the bodies of functions")
    assert accumulate((), ("names",)) == ("names",)
