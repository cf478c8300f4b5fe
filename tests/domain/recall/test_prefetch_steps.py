"""What a request asks memory for, and what is put behind it: never what the window shows already."""

import json

import attrs
import pytest

from mnemosyne.domain.objects.decide import Request, decide_all
from mnemosyne.domain.objects.events import BlockPlace, ObjectRestored
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.prefetch import Wanted
from mnemosyne.domain.recall.prefetch_steps import Search, find_typed, grow, make_search
from mnemosyne.domain.session.goal_events import MemoryBrought, Why
from mnemosyne.domain.text.passages import Passage
from mnemosyne.domain.window.upstream_history import strip
from tests.domain.asking import Json, asking, said
from tests.domain.remembered import BRANCH, created, degraded, remembered

USERS = "The proxy gives up after eight, so make seven retries."
ANSWER = "Seven it is: UPLOAD_RETRY_LIMIT holds it."
RECALL = "What did we decide about the retries of the upload queue?"
BEFORE = [said("user", USERS), said("assistant", ANSWER)]
ANSWERED = Passage(len(USERS) + 1, len(USERS) + 1 + len(ANSWER))
TALK = [*BEFORE, said("user", RECALL)]


def gone(*places: BlockPlace) -> Memory:
    """A prompt of the user's and what was answered, of which the window shows only the prompt."""
    talk = created("k7m2qpd", kind=ObjectKind.CONVERSATION_PHASE, places=places, tags=("user",), source_key=None)
    return remembered(talk, degraded("k7m2qpd", Fidelity.COMPACT))


BOTH = gone(BlockPlace(0, 0), BlockPlace(1, 0))
CONTENT = (
    b'{"type":"text","text":'
    + json.dumps(USERS).encode()
    + b'}{"type":"text","text":'
    + json.dumps(ANSWER).encode()
    + b"}"
)


def brought(search: Search, passage: Passage | None = None) -> list[str]:
    """The texts of the last message upstream, once what the talk says is brought."""
    wanted = Wanted(search.among["k7m2qpd"], None, 600, passage)
    history = grow(search, [(wanted, CONTENT)], strict=False).history
    return [block["text"] for block in json.loads(history.messages[2])["content"]]


def test_what_was_answered_is_brought_and_what_the_user_said_never() -> None:
    search = make_search(asking(TALK, BOTH), ())
    assert ANSWER in brought(search, ANSWERED)[-1]
    assert brought(search, Passage(0, len(USERS))) == [RECALL]


def test_what_the_user_alone_said_is_no_object_to_bring() -> None:
    assert make_search(asking(TALK, BOTH), ()).among.keys() == {"k7m2qpd"}
    assert make_search(asking(TALK, gone(BlockPlace(0, 0))), ()).among == {}


def test_what_stands_there_since_it_was_brought_is_not_brought_again_whatever_became_of_the_epoch() -> None:
    memory = BOTH
    search = make_search(asking(TALK, memory), ())
    found = grow(search, [(Wanted(search.among["k7m2qpd"], None, 600, ANSWERED), CONTENT)], strict=True)
    history, events = found.history, found.events
    assert any(isinstance(event, MemoryBrought) for event in events)
    longer = asking([*TALK, said("assistant", "Seven."), said("user", RECALL)], memory, kept=4)
    both = (*history.messages, *longer.history.messages[3:])
    for sent in (attrs.evolve(longer.history, messages=both), strip(attrs.evolve(longer.history, messages=both))):
        assert make_search(attrs.evolve(longer, history=sent), ()).among == {}
    assert make_search(longer, ()).among.keys() == {"k7m2qpd"}  # an epoch shows the message as it was


def wanted_back(memory: Memory, after: Fidelity, object_id: str = "k7m2qpd") -> Memory:
    command = Request(at=1, object=object_id, branch=BRANCH, turn=9, after=after, reason="r")
    return decide_all((command,), memory)[1]


@pytest.mark.parametrize("typed", ["Thanks.", "Make a landing page for the bakery.", RECALL])
def test_what_a_person_wants_back_is_brought_whole_behind_whatever_the_user_types(typed: str) -> None:
    search = make_search(asking([*BEFORE, said("user", typed)], wanted_back(BOTH, Fidelity.FULL)), ())
    found = grow(search, [(each, CONTENT) for each in search.wanted], strict=False)
    history, events = found.history, found.events
    text = json.loads(history.messages[2])["content"][-1]["text"]
    assert (USERS in text, ANSWER in text) == (True, True)
    (brought_,) = (each for each in events if isinstance(each, MemoryBrought))
    assert brought_.why is Why.REQUESTED
    (restored,) = (each for each in events if isinstance(each, ObjectRestored))
    assert (restored.before, restored.after) == (Fidelity.COMPACT, Fidelity.FULL)


def test_no_more_comes_back_in_one_turn_than_the_model_could_have_back_itself() -> None:
    five = [created(f"abc234{number}", 2 * number + 1) for number in range(5)]
    gone_ = remembered(*five, *(degraded(each.object, Fidelity.STUB) for each in five))
    commands = (
        Request(at=1, object=each.object, branch=BRANCH, turn=9, after=Fidelity.FULL, reason="r") for each in five
    )
    memory = decide_all(commands, gone_)[1]
    search = make_search(asking(TALK, memory), ())
    assert [each.object.id for each in search.wanted] == ["abc2340", "abc2341", "abc2342"]


def test_a_result_of_a_tool_is_not_what_a_person_waits_for() -> None:
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]}
    assert make_search(asking([*BEFORE, result], wanted_back(BOTH, Fidelity.FULL)), ()).wanted == ()


SYSTEM = said("system", "Today is Monday.")


@pytest.mark.parametrize("behind", [[], [SYSTEM], [SYSTEM, SYSTEM]])
def test_what_a_client_adds_behind_the_prompt_hides_it_from_nobody(behind: list[Json]) -> None:
    search = make_search(asking([*TALK, *behind], BOTH), ())
    assert search.typed == RECALL
    assert search.asking.message == 2
    assert len(brought(search, ANSWERED)) == 2


def test_nothing_is_put_behind_a_prompt_that_was_sent_before() -> None:
    assert make_search(asking([*TALK, SYSTEM], BOTH, kept=3), ()).why is None


def test_the_question_is_the_beginning_and_the_end_of_a_long_message() -> None:
    pasted = "\n".join(f"line {number} of a log" for number in range(50_000))
    search = make_search(asking([*BEFORE, said("user", f"{RECALL}\n{pasted}\nWhat is that?")], BOTH), ())
    assert search.why is not None
    assert len(search.question) < 1_500
    assert search.question.startswith(RECALL)
    assert search.question.endswith("What is that?")


def test_what_a_client_attached_was_not_typed() -> None:
    called = 'Called the Read tool with the following input: {"filePath":"/n.md"}'
    request = asking([said("user", "Look at @n.md", called, "What did we decide about the retries?")], Memory())
    assert find_typed(request.read, 0) == "Look at @n.md"
