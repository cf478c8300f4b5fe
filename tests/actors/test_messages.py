"""What is said to an actor shows no conversation where it is logged, and names a session by what it is."""

import inspect
from uuid import UUID

import attrs

from mnemosyne.actors import messages
from mnemosyne.actors.messages import ArrivedRequest, Fallback, Identity
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from tests.actors.support import IDENTITY, SECRET, headers, request

CLASSES = [each for _, each in inspect.getmembers(messages, attrs.has) if each.__module__ == messages.__name__]


def test_no_message_shows_what_a_conversation_holds() -> None:
    """Bytes and replies hold what people wrote, and keys: they are left out of whatever is logged."""
    shown = [
        f"{each.__name__}.{field.name}"
        for each in CLASSES
        for field in attrs.fields(attrs.resolve_types(each))
        if field.repr and (field.type in (bytes, Reply) or "bytes" in str(field.type))
    ]
    assert shown == []
    arrived = ArrivedRequest(
        at=1, headers=(("x-api-key", SECRET),), raw=SECRET.encode(), correlation_id="c", dialect=MESSAGES
    )
    assert SECRET not in repr((arrived, Fallback(SECRET.encode(), "why")))


def test_a_session_is_the_same_whether_or_not_its_origin_could_be_asked() -> None:
    assert attrs.evolve(IDENTITY, is_known=False) == IDENTITY
    assert hash(attrs.evolve(IDENTITY, is_known=False)) == hash(IDENTITY)
    assert attrs.evolve(IDENTITY, stream=UUID(int=1)) != IDENTITY
    assert isinstance(IDENTITY, Identity)


def test_headers_are_read_once_however_many_ask() -> None:
    arrived = ArrivedRequest(
        at=1, headers=headers("s", agent="a"), raw=request("u1"), correlation_id="c", dialect=MESSAGES
    )
    assert (arrived.heard.external_id, arrived.heard.agent_id) == ("s", "a")
    assert arrived.heard is arrived.heard
