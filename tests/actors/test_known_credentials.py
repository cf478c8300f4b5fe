"""The credentials used in each branch are known by a keyed digest, in one process alone."""

from typing import Any

import pytest

from mnemosyne.actors import known_credentials
from mnemosyne.actors.known_credentials import ClientKeys, KnownCredentials
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.session.directory import stream_of

ONE, OTHER = (("x-api-key", "one"),), (("x-api-key", "other"),)


def test_same_credentials_have_the_same_digest_with_any_other_headers_in_one_process() -> None:
    known = KnownCredentials()
    sign = known.credential_of(ONE)
    assert known.credential_of((("Cookie", "a=b"), ("User-Agent", "x"), ("X-Api-Key", " one "))) == sign
    assert known.credential_of(OTHER) != sign
    assert known.credential_of((("authorization", "one"),)) != sign
    assert known.credential_of(()) == known.credential_of((("cookie", "c"),))
    assert KnownCredentials().credential_of(ONE) != sign
    assert b"one" not in sign


def test_credential_is_known_for_its_branch_of_its_session() -> None:
    known, stream = KnownCredentials(), stream_of("t", "s")
    one, other = known.credential_of(ONE), known.credential_of(OTHER)
    known.note(stream, "main", one)
    known.note(stream, "main", None)
    assert known.is_known(stream, "main", one)
    assert not known.is_known(stream, "main", other)
    assert not known.is_known(stream, "fork-1", one)
    assert not known.is_known(stream_of("t", "other"), "main", one)


def test_least_recent_credential_is_dropped_first() -> None:
    known, stream = KnownCredentials(), stream_of("t", "s")
    one = known.credential_of(ONE)
    for number in range(known_credentials.HELD + 1):
        known.note(stream, f"fork-{number}", one)
    assert not known.is_known(stream, "fork-0", one)
    assert known.is_known(stream, "fork-1", one)


def test_credential_is_a_stranger_in_a_branch_that_only_others_used() -> None:
    known, stream = KnownCredentials(), stream_of("t", "s")
    one, other = known.credential_of(ONE), known.credential_of(OTHER)
    assert not known.is_stranger(stream, "main", other), "after a restart no credential is known"
    known.note(stream, "main", one)
    assert known.is_stranger(stream, "main", other)
    assert not known.is_stranger(stream, "main", one)
    assert not known.is_stranger(stream, "main", None)
    known.note(stream, "main", other)
    assert not known.is_stranger(stream, "main", other), "a token was renewed"


def api_key(key: str, dialect: str = "messages", model: str | None = "m") -> tuple[Any, ...]:
    """The arguments of ``ClientKeys.note`` for a request with this key."""
    return (("x-api-key", f"sk-ant-api03-{key}"),), dialect, model


def test_the_key_of_a_session_is_that_of_its_last_request() -> None:
    keys, stream = ClientKeys(), stream_of("t", "s")
    keys.note(stream, *api_key("one", model="first"))
    keys.note(stream, *api_key("one", model="second"))
    assert keys.find(stream) == ClientKey(key="sk-ant-api03-one", dialect="messages", model="second")
    keys.note(stream, *api_key("two", "chat"))
    assert keys.find(stream) == ClientKey(key="sk-ant-api03-two", dialect="chat", model="m")
    assert keys.find(stream_of("t", "other")) is None


@pytest.mark.parametrize("second", [api_key("two"), ((), "messages", "m"), ((("x-api-key", "x"),), "messages", "m")])
def test_a_session_with_another_credential_for_the_same_dialect_has_no_key(second: tuple[Any, ...]) -> None:
    keys, stream = ClientKeys(), stream_of("t", "s")
    for each in (api_key("one"), second, api_key("one")):
        keys.note(stream, *each)
    assert keys.find(stream) is None


def test_a_key_is_in_no_repr() -> None:
    keys, stream = ClientKeys(), stream_of("t", "s")
    keys.note(stream, *api_key("one"))
    assert "api03" not in f"{keys!r} {keys.find(stream)!r}"
