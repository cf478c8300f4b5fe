"""Messages to an actor hide the conversation when logged, and a session is identified by its stream."""

import inspect
from uuid import UUID

import attrs

from mnemosyne.actors import messages
from mnemosyne.actors.messages import ArrivedRequest, Fallback, Identity
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from tests.actors.support import IDENTITY, SECRET

CLASSES = [each for _, each in inspect.getmembers(messages, attrs.has) if each.__module__ == messages.__name__]


def test_repr_of_a_message_hides_the_conversation() -> None:
    """Bytes and replies hold people's text and keys: their repr omits them."""
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


def test_session_identity_ignores_whether_its_origin_is_known() -> None:
    assert attrs.evolve(IDENTITY, is_known=False) == IDENTITY
    assert hash(attrs.evolve(IDENTITY, is_known=False)) == hash(IDENTITY)
    assert attrs.evolve(IDENTITY, stream=UUID(int=1)) != IDENTITY
    assert isinstance(IDENTITY, Identity)
