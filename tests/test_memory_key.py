"""One key yields the owner's token and the fingerprints of credentials, which contain no part of a credential."""

import pytest

from mnemosyne.memory_key import OWNER_HEADER, MemoryKey

KEY, OTHER = MemoryKey(b"one"), MemoryKey(b"other")


def test_other_key_has_another_token_and_other_fingerprints() -> None:
    assert KEY.token == MemoryKey(b"one").token != OTHER.token
    assert KEY.fingerprint("k") == MemoryKey(b"one").fingerprint("k") != OTHER.fingerprint("k")
    assert KEY.fingerprint("owner") not in KEY.token
    assert "one" not in repr(KEY)


@pytest.mark.parametrize(
    ("name", "value", "presented"),
    [
        (OWNER_HEADER, KEY.token, True),
        (OWNER_HEADER.upper(), f" {KEY.token} ", True),
        (OWNER_HEADER, OTHER.token, False),
        (OWNER_HEADER, "", False),
        (OWNER_HEADER, "schl\u00fcssel", False),
        ("x-api-key", KEY.token, False),
    ],
)
def test_only_the_token_in_its_header_identifies_the_owner(name: str, value: str, presented: bool) -> None:
    assert KEY.is_presented([("x", "y"), (name, value)]) is presented


def test_credential_has_one_fingerprint_in_any_header_and_none_without() -> None:
    expected = KEY.fingerprint("k")
    assert KEY.fingerprint_of([("X-Api-Key", " k ")]) == expected
    assert KEY.fingerprint_of([("authorization", "Bearer k")]) == expected
    assert KEY.fingerprint_of([("x-api-key", ""), ("authorization", "bearer k")]) == expected
    assert KEY.fingerprint_of([("authorization", "Basic k")]) is None
    assert KEY.fingerprint_of([(OWNER_HEADER, KEY.token)]) is None
