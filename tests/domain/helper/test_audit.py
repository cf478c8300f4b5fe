"""A short form keeps the promises that a quotation supports; a model that answers the impossible is not believed."""

import json
from functools import reduce
from hashlib import sha256

import attrs
import pytest

from mnemosyne.domain.helper.audit import CHECK_PROMISES, ONE_IN, AuditInputs, order_audit
from mnemosyne.domain.helper.task import Rejected
from mnemosyne.domain.objects.events import Losses, ObjectSummarized
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.state import Session, evolve
from tests.actors.summaries import worked
from tests.domain.helper.accepting import accepted
from tests.domain.objects.test_work import created, done, fold
from tests.not_none import not_none

TEXT = "handleAuth checks the token; an expired one is answered with HTTP 401."
PROMISES = ("what is answered to an expired token", "how long a session lives", "what checks the token")
INPUTS = AuditInputs(text=TEXT, promises=PROMISES, controls=("What does the text say about src/net/retry.ts?",))


def answer(*answers: tuple[object, object]) -> str:
    return json.dumps({"answers": [{"question": number, "quote": quote} for number, quote in answers]})


def test_promises_with_a_quotation_hold_and_the_others_are_withdrawn() -> None:
    quoted = answer((1, "an expired one is answered\nwith HTTP 401"), (2, "60 minutes"), (3, "handleAuth checks"))
    verdict = accepted(CHECK_PROMISES, INPUTS, quoted)
    assert verdict.result == [1, 3]
    assert verdict.dropped == ("1 answer without a quotation",)
    made = done("a", Fidelity.DETAILED)
    summary = attrs.evolve(made, losses=Losses(can_answer=PROMISES, fault_when=("the lifetime",)))
    known = fold(created("a"), ObjectSummarized(**attrs.asdict(summary, recurse=False)))
    work = worked("a.L1", task="audit", record=verdict.text)
    after = reduce(evolve, decision_inputs.decide(work), Session(memory=known)).memory
    losses = after.objects["a"].renditions[Fidelity.DETAILED].losses
    assert losses.can_answer == (PROMISES[0], PROMISES[2])
    assert losses.fault_when == ("the lifetime",)


@pytest.mark.parametrize("answers", [[(4, "handleAuth")], [(1, "HTTP 401"), (4, "handleAuth")]])
def test_an_audit_that_answers_a_control_is_rejected(answers: list[tuple[object, object]]) -> None:
    assert isinstance(CHECK_PROMISES.read(INPUTS, answer(*answers)), Rejected)


@pytest.mark.parametrize("given", [(0, "HTTP 401"), (True, "HTTP 401"), ("1", "HTTP 401"), (1, ""), (1, None), (1, [])])
def test_an_answer_without_a_number_or_words_counts_for_nothing(given: tuple[object, object]) -> None:
    assert accepted(CHECK_PROMISES, INPUTS, answer(given)).result == []


def test_one_in_twenty_short_forms_with_promises_is_checked_whatever_the_process() -> None:
    known = fold(created("a"))
    forms = [attrs.evolve(done("a", Fidelity.DETAILED), text=sha256(bytes([n])).digest()) for n in range(256)]
    promising = [attrs.evolve(each, losses=Losses(can_answer=PROMISES)) for each in forms]
    orders = [order_audit(known.objects["a"], each) for each in promising]
    assert 0 < sum(each is not None for each in orders) < 3 * 256 // ONE_IN
    assert not any(order_audit(known.objects["a"], each) for each in forms)


def test_the_controls_are_names_that_only_the_original_has() -> None:
    known = fold(created("a"))
    summary = attrs.evolve(done("a", Fidelity.DETAILED), text=bytes(32), losses=Losses(can_answer=PROMISES))
    order = not_none(order_audit(known.objects["a"], summary))
    full = json.dumps({"type": "text", "text": f"{TEXT} The retry is in src/net/retry.ts."}).encode()
    assert CHECK_PROMISES.gather(order, {"full": full, "short": TEXT.encode()}) == INPUTS
    prompt = CHECK_PROMISES.write(INPUTS)
    assert "4. What does the text say about src/net/retry.ts?" in prompt.user
