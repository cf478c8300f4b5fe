"""The missing rendition of an object follows from its state."""

from functools import reduce
from typing import Any

import attrs

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.aggregate import WORTH_EXTRACTING, may_be_extracted
from mnemosyne.domain.objects.decide import Summarize, decide
from mnemosyne.domain.objects.events import (
    Admission,
    Losses,
    ObjectCreated,
    ObjectEvent,
    ObjectForgotten,
    ObjectSummarized,
    ObjectSuperseded,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.losses import Loss, Measured, describe_form
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.work import DeferredSummary, losses_of, missing_of
from mnemosyne.domain.text.entities import SpecificKind
from tests.domain.remembered import made, summarized
from tests.not_none import not_none

L1, L2 = Fidelity.DETAILED, Fidelity.COMPACT


def created(name: str, *, size: int = 5_000, admitted: bool = True, **changes: Any) -> ObjectCreated:
    admission = Admission(type_prior=0, novelty=0, utility=0, recency=0, score=0, admitted=admitted)
    fields: dict[str, Any] = {"size": size, "tokens": size // 3, "admission": admission}
    return made(name, 0, **fields | changes)


def done(name: str, fidelity: Fidelity) -> Summarize:
    event = attrs.evolve(summarized(name, fidelity, 3), text=b"t" * 32)
    return Summarize(**attrs.asdict(event, recurse=False))


def fold(*events: ObjectEvent) -> Memory:
    return reduce(memory.evolve, events, Memory())


def lacked(state: Memory, name: str = "a") -> DeferredSummary | None:
    return missing_of(state.objects[name], state)


def test_an_object_lacks_an_l1_first_and_then_an_l2_made_of_it() -> None:
    state = fold(created("a"))
    first = not_none(lacked(state))
    assert (first.fidelity, first.detailed, first.target_chars) == (L1, None, 1_500)
    state = fold(created("a"), *decide(done("a", L1), state))
    second = not_none(lacked(state))
    assert (second.fidelity, second.detailed, second.target_chars) == (L2, b"t" * 32, 250)
    state = reduce(memory.evolve, decide(done("a", L2), state), state)
    assert lacked(state) is None


def test_l1_is_not_made_for_small_derived_rejected_superseded_forgotten_or_summarized_objects() -> None:
    replaced = ObjectSuperseded(at=1, object="r", branch="main", by="a", how=Supersession.REREAD)
    edited = ObjectSuperseded(at=1, object="e", branch="main", by=None, how=Supersession.EDITED)
    state = fold(
        created("s", size=WORTH_EXTRACTING - 1),
        created("d", places=()),
        created("n", admitted=False),
        created("r"),
        created("f"),
        created("e"),
        created("a"),
        created("m"),
        ObjectSummarized(**attrs.asdict(done("m", L1), recurse=False)),
        replaced,
        edited,
        ObjectForgotten(at=1, object="f", reason="x"),
    )
    assert sorted(key for key, each in state.objects.items() if may_be_extracted(each)) == ["a", "e"]


def test_an_l1_that_is_not_made_yet_counts_at_its_target_size() -> None:
    each = fold(created("a", size=3_000)).objects["a"]
    assert (each.tokens_at(L1), each.tokens_at(L2)) == (360, None)
    long = fold(created("a", size=60_000)).objects["a"]
    assert long.tokens_at(L1) == 1_626


def test_loss_samples_name_every_kind_before_repeating_one() -> None:
    paths, numbers = SpecificKind.PATH, SpecificKind.NUMBER
    measured = Measured(
        (Loss(paths, 9, 9, ("a", "b", "c")), Loss(numbers, 2, 3, ("1",)), Loss(SpecificKind.URL, 0, 1, ()))
    )
    losses = losses_of(Losses(dropped=("d",), fault_when=("w",)), measured)
    assert (losses.dropped, losses.fault_when) == (("d",), ("w",))
    assert losses.lost == {paths.value: 9, numbers.value: 2}
    assert losses.sample == ("a", "1", "b", "c")


def test_a_short_form_is_described_by_its_level_sizes_losses_and_promises() -> None:
    dropped = ("9 lines in the middle",)
    losses = Losses(dropped=dropped, lost={"path": 2}, can_answer=("what it reads",), fault_when=("the exact text",))
    summary = attrs.evolve(done("a", L1), losses=losses, tokens=430)
    shorter = attrs.evolve(done("a", L2), losses=Losses(fault_when=("the wording",)), tokens=70)
    made = created("a", size=5_610, tags=("read", "lines:20-60"))
    known = fold(made, *(ObjectSummarized(**attrs.asdict(each, recurse=False)) for each in (summary, shorter)))
    assert describe_form(known.objects["a"], L1) == (
        "L1 with 430 of 1,870 tokens; lost: 9 lines in the middle; 2 paths; answers, of lines 20-60: what it reads;"
        " ask for: the exact text"
    )
    assert describe_form(known.objects["a"], L2) == "L2 with 70, L1 with 430 of 1,870 tokens; ask for: the wording"


def test_l2_inherits_the_dropped_phrases_of_l1_with_current_counts() -> None:
    before = losses_of(Losses(dropped=("2 of 9 hits", "the licence"), fault_when=("a.py",)), Measured(()))
    losses = losses_of(Losses(dropped=("8 of 9 hits",), fault_when=("b.py",)), Measured(()), before)
    assert losses.dropped == ("8 of 9 hits", "the licence")
    assert losses.fault_when == ("b.py", "a.py")
