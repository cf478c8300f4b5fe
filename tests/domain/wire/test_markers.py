"""The client's cache markers are found where the client put them, and nowhere else."""

from typing import Any

from mnemosyne.domain.wire.markers import may_hold_head
from mnemosyne.domain.wire.transcript import Transcript, read
from tests.domain.recorded import dumps

SHORT = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def asked(messages: list[Any], **members: Any) -> Transcript:
    return read(dumps({"model": "m", **members, "messages": messages})).transcript


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": "x", **block} for block in blocks]}


def test_of_each_message_the_last_marker_is_found() -> None:
    messages = [
        said("user", {"cache_control": SHORT}, {"cache_control": HOUR}, {}),
        said("assistant", {}),
        said("user", {"cache_control": SHORT}),
    ]
    assert asked(messages).markers == ((0, dumps(HOUR)), (2, dumps(SHORT)))


def test_words_about_markers_are_none() -> None:
    messages = [said("user", {"text": 'what is "cache_control": {} for?'}), said("assistant", {})]
    assert asked(messages).markers == ()


def test_a_marker_before_the_messages_is_of_the_head() -> None:
    head = asked([said("user", {})], system=[{"type": "text", "text": "s", "cache_control": SHORT}])
    assert (head.markers, may_hold_head(head)) == ((), True)
    assert not may_hold_head(asked([said("user", {"cache_control": SHORT})], system="s"))
