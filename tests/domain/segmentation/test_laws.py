"""Invariants of segmentation, on random and recorded histories."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import BlockPlace, LinkRelation
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.segment import OPEN_MESSAGES, SeenMessage, Segmented, segment
from mnemosyne.domain.wire.normal_form import THINKING
from tests.domain import recorded
from tests.domain.segmenting_support import Talk, histories, in_pieces
from tests.profiles import examples


def assert_each_block_has_one_owner(messages: list[SeenMessage], segmented: Segmented) -> None:
    """Every block is in one object or still open, and no open block is old."""
    owned = [(place.message, place.block) for draft in segmented.drafts for place in draft.places]
    assert len(owned) == len(set(owned))
    every = {(message.index, block) for message in messages for block in range(len(message.content))}
    assert set(owned) <= every
    still_open = every - set(owned)
    assert all(message >= segmented.open for message, _ in still_open)
    assert segmented.open >= len(messages) - OPEN_MESSAGES - 1


def assert_pairs_are_whole(messages: list[SeenMessage], segmented: Segmented) -> None:
    """A call is in the same object as its results in the next message."""
    owner = {place: number for number, draft in enumerate(segmented.drafts) for place in draft.places}
    where = {(place.message, place.block): number for place, number in owner.items()}
    for message, following in pairwise(messages):
        identities = [block.get("id") for block in message.content if block.get("type") == "tool_use"]
        for number, block in enumerate(message.content):
            if block.get("type") == "tool_use" and identities.count(block["id"]) == 1:
                for other, result in enumerate(following.content):
                    if result.get("tool_use_id") == block["id"]:
                        assert where.get((message.index, number)) == where.get((following.index, other))


@given(histories())
def test_each_block_has_one_owner_and_pairs_are_whole(messages: list[SeenMessage]) -> None:
    """Whatever was called, answered late, answered twice or never answered."""
    segmented = segment(messages, SegmentationState())
    assert_each_block_has_one_owner(messages, segmented)
    assert_pairs_are_whole(messages, segmented)


@given(histories(), st.sets(st.integers(1, 40)))
@examples(150)
def test_the_division_of_a_history_into_requests_changes_nothing(messages: list[SeenMessage], cuts: set[int]) -> None:
    """Objects, links, stubs and supersessions are the same as when the history is segmented at once."""
    assert in_pieces(messages, (cut for cut in cuts if cut < len(messages))) == in_pieces(messages, ())


@given(histories(), st.sets(st.integers(1, 40)))
@examples(150)
def test_after_a_pause_only_calls_without_a_result_are_in_no_object(
    messages: list[SeenMessage], cuts: set[int]
) -> None:
    """However many pauses there are, each block is in one object, and a call with the result that follows it."""
    segmented = segment(messages, SegmentationState(), closes=True)
    assert_each_block_has_one_owner(messages, segmented)
    assert_pairs_are_whole(messages, segmented)
    owned = {place for draft in segmented.drafts for place in draft.places}
    blocks = {BlockPlace(each.index, number): block for each in messages for number, block in enumerate(each.content)}
    assert {block.get("type") for place, block in blocks.items() if place not in owned} <= {"tool_use", *THINKING}
    objects, _ = in_pieces(messages, (cut for cut in cuts if cut < len(messages)), closes=True)
    assert Counter(place for each in objects for place in each.places) == Counter(owned)


def test_a_read_given_up_after_an_edit_of_its_file_is_stale_however_the_history_is_divided() -> None:
    """The edit still waits in a run of changes when the read, whose result never arrived, becomes an object."""
    edit = {"type": "tool_use", "id": "edit", "name": "Edit", "input": {"file_path": "/r/b.py", "old_string": "a"}}
    reads = [{"type": "tool_use", "id": "twice", "name": "Read", "input": {"file_path": f"/r/{n}.py"}} for n in "ba"]
    talk = Talk().user("Go.").assistant(edit, reads[0]).results(("edit", "Done."))
    talk.assistant(reads[1]).results(("twice", "1 line"))
    for _ in range(OPEN_MESSAGES // 2 + 1):
        talk.assistant({"type": "text", "text": "On."}).user("Go on.")
    whole = in_pieces(talk.messages, ())
    assert whole[1]
    assert in_pieces(talk.messages, {4}) == whole


def test_a_call_repeated_before_the_first_was_given_up_is_the_same_however_the_history_is_divided() -> None:
    """The second call waits in a run when the first, which was never answered, becomes an object."""
    greps = [{"type": "tool_use", "id": name, "name": "Grep", "input": {"pattern": "x"}} for name in ("never", "again")]
    talk = Talk().user("Go.").assistant(greps[0])
    for _ in range(OPEN_MESSAGES // 2 - 1):
        talk.user("Well?").assistant()
    talk.messages[-1:] = []
    talk.assistant(greps[1]).results(("again", "ok")).assistant().user("Fine.")
    whole = in_pieces(talk.messages, ())
    assert whole[1]
    for cut in range(len(talk.messages)):
        assert in_pieces(talk.messages, {cut}) == whole, cut


@given(histories())
def test_links_and_supersessions_point_back(messages: list[SeenMessage]) -> None:
    """No object refers to a later one or to itself; parents are derived, or conversations with a decision."""
    segmented = segment(messages, SegmentationState())
    for number, draft in enumerate(segmented.drafts):
        for link in draft.links:
            assert isinstance(link.target, int)
            assert link.target < number
            target = segmented.drafts[link.target].kind
            phase = (draft.kind, target) == (ObjectKind.CONVERSATION_PHASE, ObjectKind.DESIGN_DECISION)
            assert (link.relation is LinkRelation.PARENT_OF) == (draft.kind is ObjectKind.DEBUGGING_SESSION or phase)
    for supersession in segmented.supersessions:
        assert supersession.target != supersession.by


def test_recorded_sessions_and_captures_satisfy_the_invariants() -> None:
    """Recorded conversations, at once and turn by turn."""
    for messages in (*_recorded(), *_captured()):
        segmented = segment(messages, SegmentationState())
        assert_each_block_has_one_owner(messages, segmented)
        assert_pairs_are_whole(messages, segmented)
        turns = [message.index for message in messages if message.role == "assistant"]
        assert in_pieces(messages, turns[:: 1 + len(turns) // 20]) == in_pieces(messages, ())


def test_the_segmentation_state_stays_small() -> None:
    """Of ten thousand results with as many sources and files, not all are remembered."""
    messages = [SeenMessage(0, "user", 1, [{"type": "text", "text": "go"}])]
    for number in range(1, 1_400, 2):
        given_ = {"file_path": f"/f{number}"} if number % 4 == 1 else {"pattern": str(number)}
        call = {"type": "tool_use", "id": "t", "name": "Read" if number % 4 == 1 else "Grep", "input": given_}
        messages.append(SeenMessage(number, "assistant", 1, [call]))
        result = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 1_600}
        messages.append(SeenMessage(number + 1, "user", 1, [result]))
    objects, _ = in_pieces(messages, ())
    known = SegmentationState()
    for made in objects:
        known = known.after_all([made])
    index = known.settle_before(len(messages)).index
    assert len(index.latest) <= 512
    assert len(index.showing) <= 512
    assert len(index.recent) <= 64


def _recorded() -> Iterator[list[SeenMessage]]:
    for session in recorded.sessions(every=20):
        yield _seen(session["messages"])


def _captured() -> Iterator[list[SeenMessage]]:
    for _, capture in recorded.captures()[::3]:
        messages = capture["body"].get("messages")
        if messages and all(isinstance(message.get("content"), str | list) for message in messages):
            yield _seen(messages)


def _seen(messages: list[dict[str, Any]]) -> list[SeenMessage]:
    return [
        SeenMessage(
            index,
            message["role"],
            index // 2 + 1,
            [{"type": "text", "text": content}] if isinstance(content := message["content"], str) else content,
        )
        for index, message in enumerate(messages)
    ]
