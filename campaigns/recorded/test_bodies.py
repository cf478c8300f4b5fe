"""Recorded bodies are laid out, viewed and segmented without loss."""

from collections.abc import Sequence

from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.history.context_view import view
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.segment import SeenMessage, segment
from mnemosyne.domain.tools.cleanup_tags import of_reply, visible
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.normal_form import content_blocks
from tests.domain import recorded
from tests.domain.cost.test_prompt_layout import contents_of, laid
from tests.domain.objects.test_full_text import blocks_of
from tests.domain.recorded import captures, dumps


def test_captured_requests_have_valid_markers_and_extend_their_predecessors() -> None:
    before: dict[str, PromptLayout] = {}
    continued = 0
    for name, capture in recorded.captures():
        run = name.split("/")[0]
        read = transcript.read(dumps(capture["body"])).transcript
        layout = lay_out(read, before.get(run))
        if layout is None:
            continue
        assert contents_of(layout) == contents_of(laid(read.raw)), name
        counted = [marker for marker in capture["cache_control"] if marker] if "cache_control" in capture else None
        if counted is not None:
            assert len(layout.markers) == len(counted), name
        before[run] = layout
        continued += 1
    assert continued > 100


def test_blocks_cover_captured_requests() -> None:
    for name, capture in captures():
        request = capture["body"]
        if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
            continue
        seen = view(dumps(request), [], MESSAGES)
        told = sum(
            len(m["content"]) if isinstance(m["content"], list) else 1
            for m in request["messages"]
            if m.get("content") is not None
        )
        assert sum(block.section == "messages" for block in seen.blocks) == told, name
        assert sum(block.size for block in seen.blocks) < len(dumps(request))


def seen(messages: Sequence[dict[str, object]]) -> list[SeenMessage]:
    found = []
    for index, message in enumerate(messages):
        blocks = content_blocks(message["content"])
        found.append(SeenMessage(index, str(message["role"]), index // 2 + 1, blocks))
    return found


def test_text_of_recorded_objects_equals_their_drafts_except_for_thinking() -> None:
    count = 0
    for session in recorded.sessions(every=16):
        messages = seen(session["messages"])
        for draft in segment(messages, SegmentationState()).drafts:
            if draft.places:
                count += 1
                said = full_text(blocks_of(draft, messages))
                assert said.replace("\n", "") == draft.text.encode("utf-8", "replace").decode().replace("\n", "")
    assert count > 100


def test_recorded_replies_contain_no_block_and_are_shown_unchanged() -> None:
    replies = [
        message for session in recorded.sessions() for message in session["messages"] if message["role"] == "assistant"
    ]
    texts = [block["text"] for reply in replies for block in reply["content"] if block["type"] == "text"]
    assert len(texts) > 1_000
    assert all(visible(text) == text for text in texts)
    assert not [directive for reply in replies for directive in of_reply(reply)]
