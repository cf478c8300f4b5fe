"""The client's cache markers are found where the client put them, and nowhere else."""

from typing import Any

from mnemosyne.domain.wire.markers import may_hold_head
from mnemosyne.domain.wire.transcript import Transcript, read
from tests.domain.recorded import dumps

SHORT = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def asked(messages: list[Any], **members: Any) -> Transcript:
    return read(dumps({"model": "m", **members, "messages": messages})).transcript


def message(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": "x", **block} for block in blocks]}


def test_the_last_marker_of_each_message_is_found() -> None:
    messages = [
        message("user", {"cache_control": SHORT}, {"cache_control": HOUR}, {}),
        message("assistant", {}),
        message("user", {"cache_control": SHORT}),
    ]
    assert asked(messages).markers == ((0, dumps(HOUR)), (2, dumps(SHORT)))


def test_text_that_mentions_markers_is_not_a_marker() -> None:
    messages = [message("user", {"text": 'what is "cache_control": {} for?'}), message("assistant", {})]
    assert asked(messages).markers == ()


def test_a_marker_before_the_messages_belongs_to_the_head() -> None:
    head = asked([message("user", {})], system=[{"type": "text", "text": "s", "cache_control": SHORT}])
    assert (head.markers, may_hold_head(head)) == ((), True)
    assert not may_hold_head(asked([message("user", {"cache_control": SHORT})], system="s"))
