"""What of an object a window shows word for word."""

from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectForgotten
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import succeed
from mnemosyne.domain.objects.residency import is_prompt, stands_in_full
from tests.domain.remembered import BRANCH, created, degraded, remembered

SAID = created("said", 1, kind=ObjectKind.CONVERSATION_PHASE, tags=("user",))
ANSWER = created("answer", 3, kind=ObjectKind.CONVERSATION_PHASE, tags=())
CLAIMS = [
    created(
        f"claim of {holder}",
        5,
        role=Role.CLAIM,
        places=(),
        tags=("decision", speaker),
        links=(Link(LinkRelation.REFERENCES, holder),),
    )
    for holder, speaker in (("said", "user"), ("answer", "assistant"))
]


def test_an_object_stands_in_full_until_it_is_shown_at_less() -> None:
    memory = remembered(SAID, ANSWER)
    assert stands_in_full(memory, BRANCH, "answer")
    assert not stands_in_full(remembered(degraded("answer", Fidelity.STUB), before=memory), BRANCH, "answer")


def test_a_claim_stands_where_it_was_said_and_what_the_user_said_stays() -> None:
    memory = remembered(SAID, ANSWER, *CLAIMS, degraded("said", Fidelity.EVICTED), degraded("answer", Fidelity.STUB))
    assert stands_in_full(memory, BRANCH, "claim of said")
    assert not stands_in_full(memory, BRANCH, "claim of answer")


def test_a_prompt_is_shown_until_it_is_forgotten_or_the_window_is_another() -> None:
    memory = remembered(SAID)
    said = memory.objects["said"]
    assert is_prompt(memory, BRANCH, said)
    assert not is_prompt(succeed(memory, "next", BRANCH), "next", said)
    forgotten = remembered(ObjectForgotten(at=1, object="said", reason="r"), before=memory)
    assert not is_prompt(forgotten, BRANCH, forgotten.objects["said"])
