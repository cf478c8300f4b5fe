"""Goals: what begins something, against messages that were labelled by hand, and what never does."""

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.goals import GoalStep, SaidBefore, newness, read_goal
from mnemosyne.domain.segmentation import prose
from tests.domain import recorded

LABELS = Path(__file__).parents[1] / "labels" / "goals.json"

BEFORE = SaidBefore(
    "Can you fix the retries of the upload queue?", "The queue retries seven times now; the tests pass."
)


TASK = (
    "Rotation of signing keys breaks parallel importers whenever archived snapshots expire beforehand, and nobody"
    " notices since dashboards aggregate monthly figures across several tenants without alerting operators"
)


def messages_of(session: dict[str, object]) -> Iterator[tuple[int, str, str]]:
    """The number of each message that was typed, what was typed, and the last answer before it."""
    answer = ""
    for number, message in enumerate(session["messages"]):  # type: ignore[arg-type, var-annotated]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if message["role"] == "assistant":
            answer = texts[-1] if texts else answer
        elif not any(block["type"] == "tool_result" for block in blocks):
            tags = [(said, prose.describe("user", {"type": "text", "text": said}).tags) for said in texts]
            typed = [said for said, tags in tags if "user" in tags and not said.startswith("[Request inter")]
            if typed:
                yield number, "\n\n".join(typed), answer


def test_it_agrees_with_the_labels_as_well_as_it_says() -> None:
    """The labels name messages by number and hash, and were made before any rule was tried."""
    labels = json.loads(LABELS.read_text())
    found: Counter[tuple[str, str]] = Counter()
    for session in recorded.sessions():
        wanted = {number: (digest, label) for number, digest, label in labels.get(session["name"], ())}
        before = ""
        for number, typed, answer in messages_of(session):
            if number in wanted:
                digest, label = wanted[number]
                assert sha256(typed.encode()).hexdigest().startswith(digest)
                found[label, read_goal(typed, SaidBefore(before, answer)).value] += 1
            before = typed
    assert found.total() == sum(map(len, labels.values()))
    called = sum(count for (_, step), count in found.items() if step == "new")
    new = sum(count for (label, _), count in found.items() if label == "new")
    assert found["new", "new"] / called >= 0.75
    assert found["new", "new"] / new >= 0.5
    assert found["acknowledged", "new"] == 0
    assert found["continued", "acknowledged"] == found["new", "acknowledged"] == 0
    assert found["acknowledged", "acknowledged"] >= 20


@pytest.mark.parametrize(
    "message",
    ["yes", "Yes, go on.", "ok", "OK, let's do that", "1+2", "both please", "let's implement this", "sure, go ahead!"],
)
def test_consent_is_no_goal(message: str) -> None:
    assert read_goal(message, BEFORE) is GoalStep.ACKNOWLEDGED


@pytest.mark.parametrize("message", ["ja", "oui", "Sí, dale", "да, давай", "好的", "はい", "Ja, mach weiter"])
def test_nor_is_it_in_other_languages(message: str) -> None:
    assert read_goal(message, BEFORE) is GoalStep.ACKNOWLEDGED


def test_a_failure_that_was_pasted_goes_on_with_what_failed() -> None:
    assert read_goal(TASK, BEFORE) is GoalStep.NEW
    assert read_goal(f"{TASK}\n--- FAIL: TestRotation (0.1s)", BEFORE) is GoalStep.CONTINUED
    assert read_goal(f"Unrelated: {TASK}\n--- FAIL: TestRotation (0.1s)", BEFORE) is GoalStep.NEW


@pytest.mark.parametrize(
    "first", ["I mean that", "ok, so this", "One more thing:", "I also saw that", "you wrote:", "It"]
)
def test_what_begins_with_a_word_about_what_was_just_said_goes_on_with_it(first: str) -> None:
    assert read_goal(TASK, BEFORE) is GoalStep.NEW
    assert read_goal(f"{first} {TASK}", BEFORE) is GoalStep.CONTINUED


@pytest.mark.parametrize(
    "first", ["> the tables are empty", "+    retries = 7", "- the first row", "\u276f make test", "[12:04]"]
)
def test_what_first_shows_something_goes_on_with_it(first: str) -> None:
    assert read_goal(f"{first}\n{TASK}", BEFORE) is GoalStep.CONTINUED


@pytest.mark.parametrize(
    "asked", ["Why is it that", "hmm, isn't it so that", "ok, but how can it be that", "Is it known that"]
)
def test_a_question_goes_on_however_many_words_it_has(asked: str) -> None:
    assert read_goal(f"{asked} {TASK}", BEFORE) is GoalStep.CONTINUED


@pytest.mark.parametrize("error", ["remote: Permission denied", "fatal: no such ref", "Error: unreadable"])
def test_what_a_program_complains_of_is_of_the_work_under_way(error: str) -> None:
    assert read_goal(f"{error}\n{TASK}", BEFORE) is GoalStep.CONTINUED


def test_who_breaks_into_work_under_way_goes_on_with_it() -> None:
    """As clients do, in words that nobody typed, where a reply has a form that they cannot use."""
    answer = "The queue retries seven times now; the tests pass."
    assert read_goal(TASK, SaidBefore(BEFORE.user, answer)) is GoalStep.NEW
    assert read_goal(TASK, SaidBefore(BEFORE.user, f"{answer} Now let me look at the importers.")) is GoalStep.CONTINUED
    assert read_goal(TASK, SaidBefore(BEFORE.user, f"{answer} Let me know if it helps.")) is GoalStep.NEW


@pytest.mark.parametrize("lead", ["now handle: ", "can you also check: ", "can we fix:  2. ", "then let's do 3. "])
def test_words_that_hand_something_over_count_for_nothing(lead: str) -> None:
    """An item of a review is judged as itself, whatever it is brought with."""
    assert newness(f"{lead}{TASK}", BEFORE) == newness(TASK, BEFORE)
    assert read_goal(f"{lead}{TASK}", BEFORE) is GoalStep.NEW


def test_a_short_step_is_no_item_that_is_handed_over() -> None:
    assert read_goal("can you check: the tests", BEFORE) is GoalStep.CONTINUED


@pytest.mark.parametrize("thanks", ["Great, thank you!", "Perfect. Thanks!"])
def test_who_praises_and_thanks_and_asks_wants_something_else(thanks: str) -> None:
    assert read_goal(f"{thanks} I also need to rename it.", BEFORE) is GoalStep.NEW
    assert read_goal(f"{thanks} That is all.", BEFORE) is GoalStep.CONTINUED
    assert read_goal("Thanks for that. Can you do it now?", BEFORE) is GoalStep.CONTINUED


@pytest.mark.parametrize(
    "said", ["Alright, let's move on.", "ok, the next problem is the linter", "Before we finish, a word"]
)
def test_who_says_that_something_else_comes_is_believed(said: str) -> None:
    assert read_goal(said, BEFORE) is GoalStep.NEW


def test_a_question_whether_to_keep_the_work_leaves_nothing_open() -> None:
    done = "It was fixed."
    asked = (f"{done} {question}" for question in ("Would you like me to commit it?", "Which of the two?"))
    kept, open_ = (newness(TASK, SaidBefore(BEFORE.user, answer)) for answer in asked)
    assert open_ < kept == newness(TASK, SaidBefore(BEFORE.user, done))


def test_a_thing_that_lacks_another_is_spoken_of_to_nobody() -> None:
    """ "No" speaks to somebody where it answers."""
    assert newness("No, queue importers run.", BEFORE) < newness("The queue importers run with no limit.", BEFORE)


def test_what_is_said_when_something_was_finished_is_newer() -> None:
    open_, done = (SaidBefore(BEFORE.user, said) for said in ("Which of the two?", "It was fixed."))
    assert newness(TASK, open_) < newness(TASK, done)


@given(
    st.lists(
        st.sampled_from(["yes", "ok", "go", "on", "please", "do", "it", "1", "2", "and", "sure"]),
        min_size=1,
        max_size=9,
    )
)
def test_nothing_made_of_consent_alone_is_a_goal(words: list[str]) -> None:
    assert read_goal(" ".join(words), BEFORE) is GoalStep.ACKNOWLEDGED


@pytest.mark.parametrize("message", ["Why?", "how many retries are those?", "can we add tests for the queue?"])
def test_a_question_on_what_was_just_said_goes_on(message: str) -> None:
    assert read_goal(message, BEFORE) is GoalStep.CONTINUED


@pytest.mark.parametrize(
    "message",
    [
        "Unrelated to the queue: is the linter configured?",
        "Write a command line tool that lists stale git branches of all our repositories, sorts them by their author"
        " and age, and offers to delete each one after asking. Put documentation into its help.",
    ],
)
def test_a_task_with_words_of_its_own_is_a_new_goal(message: str) -> None:
    assert read_goal(message, BEFORE) is GoalStep.NEW


def test_the_first_message_begins_a_goal() -> None:
    assert read_goal("yes", None) is GoalStep.NEW


@given(st.text(max_size=400), st.text(max_size=100), st.text(max_size=100))
def test_whatever_is_said_there_is_an_answer(message: str, user: str, answer: str) -> None:
    assert read_goal(message, SaidBefore(user, answer)) in GoalStep


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "zeta"]), min_size=1), st.text(max_size=50))
def test_what_was_said_before_never_makes_a_message_newer(words: list[str], before: str) -> None:
    message = " ".join(words)
    assert newness(message, SaidBefore(before, words[0])) <= newness(message, SaidBefore(before))
