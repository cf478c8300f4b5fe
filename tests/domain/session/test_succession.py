"""A summary is recognized by its lines, and covers a window if it was made from all of it."""

import pytest

from mnemosyne.domain.session import succession
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.transcript import Transcript
from tests.domain.recorded import dumps
from tests.domain.session.test_decide import COMPACTION
from tests.domain.stories import Story

SUMMARY = "\n".join(f"{number}. What was done as number {number} of the list." for number in range(6))


def read(*contents: object) -> Transcript:
    messages = [{"role": "user", "content": each} for each in contents]
    return transcript.read(dumps({"model": "m", "messages": messages}), None, conversation="main").transcript


def blocks(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": each} for each in texts]


@pytest.mark.parametrize(
    ("history", "carries"),
    [
        (read(SUMMARY), True),
        (read(f"It goes on.\n\n  {SUMMARY}\n\nNow go on."), True),
        (read("What did we do?", blocks("x", SUMMARY)), True),
        (read("\n".join(SUMMARY.splitlines()[:3])), True),
        (read("\n".join(SUMMARY.splitlines()[:2])), False),
        (read("It goes on."), False),
        (read("1", "2", "3", SUMMARY), False),
        (read({"strange": 1}, [{"type": "text"}, 3]), False),
        (read(), False),
    ],
)
def test_half_of_a_summarys_lines_prove_it(history: Transcript, carries: bool) -> None:
    assert succession.carries(history, SUMMARY) is carries


def test_text_before_the_summary_tag_is_not_required() -> None:
    aloud = "<analysis>\n" + "I think of this at great length.\n" * 90 + "</analysis>\n<summary>\n"
    assert succession.carries(read(SUMMARY), f"{aloud}{SUMMARY}\n</summary>")


@pytest.mark.parametrize("reply", ["", "Done.", "\n".join(["Done."] * 90), "It was about a vault and its code."])
def test_short_or_common_lines_prove_nothing(reply: str) -> None:
    assert not succession.carries(read(reply), reply)


@pytest.mark.parametrize(
    ("asked", "sums_up"),
    [
        ("u1 a1 u2 a2 u3 compact", True),
        ("u1 a1 u2 a2 u3-compact", True),
        ("u1 a1 u2-compact", False),
        ("u1 compact", False),
        ("conversation", False),
    ],
)
def test_a_summary_covers_a_window_only_if_its_request_has_the_whole_history(asked: str, sums_up: bool) -> None:
    story = Story()
    for history in ("u1", "u1 a1 u2", "u1 a1 u2 a2 u3"):
        story.begin(history)
    story.begin(asked, who=COMPACTION)
    branches = story.state.branches
    assert succession.sums_up(branches["compaction-1"], branches["main"]) is sums_up
    assert not succession.sums_up(branches["main"], branches["main"])
