"""Who has spoken in which branch is known by what stands for a credential, in one process alone."""

from mnemosyne.actors import known_credentials
from mnemosyne.actors.known_credentials import KnownCredentials
from mnemosyne.domain.session.directory import stream_of

ONE, OTHER = (("x-api-key", "one"),), (("x-api-key", "other"),)


def test_the_same_credentials_have_the_same_sign_whatever_else_is_said() -> None:
    known = KnownCredentials()
    sign = known.credential_of(ONE)
    assert known.credential_of((("Cookie", "a=b"), ("User-Agent", "x"), ("X-Api-Key", " one "))) == sign
    assert known.credential_of(OTHER) != sign
    assert known.credential_of((("authorization", "one"),)) != sign
    assert known.credential_of(()) == known.credential_of((("cookie", "c"),))


def test_another_process_has_another_sign() -> None:
    assert KnownCredentials().credential_of(ONE) != KnownCredentials().credential_of(ONE)
    assert b"one" not in KnownCredentials().credential_of(ONE)


def test_who_spoke_is_known_for_that_branch_of_that_session() -> None:
    known, stream = KnownCredentials(), stream_of("t", "s")
    one, other = known.credential_of(ONE), known.credential_of(OTHER)
    known.note(stream, "main", one)
    known.note(stream, "main", None)
    assert known.is_known(stream, "main", one)
    assert not known.is_known(stream, "main", other)
    assert not known.is_known(stream, "fork-1", one)
    assert not known.is_known(stream_of("t", "other"), "main", one)


def test_who_was_heard_longest_ago_is_forgotten_first() -> None:
    known, stream = KnownCredentials(), stream_of("t", "s")
    one = known.credential_of(ONE)
    for number in range(known_credentials.HELD + 1):
        known.note(stream, f"fork-{number}", one)
    assert not known.is_known(stream, "fork-0", one)
    assert known.is_known(stream, "fork-1", one)


def test_a_stranger_is_a_credential_that_has_not_spoken_where_others_have() -> None:
    known, stream = KnownCredentials(), stream_of("t", "s")
    one, other = known.credential_of(ONE), known.credential_of(OTHER)
    assert not known.is_stranger(stream, "main", other), "after a restart no credential is known"
    known.note(stream, "main", one)
    assert known.is_stranger(stream, "main", other)
    assert not known.is_stranger(stream, "main", one)
    assert not known.is_stranger(stream, "main", None)
    known.note(stream, "main", other)
    assert not known.is_stranger(stream, "main", other), "a token was renewed"
