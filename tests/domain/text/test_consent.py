"""Consent is nothing but consent and numbers."""

import pytest

from mnemosyne.domain.text.consent import consents


@pytest.mark.parametrize("said", ["yes", "Yes, go on.", "OK, let's do that", "1+2", "da, давай", "好的", "はい"])
def test_consent_is_known_in_several_languages(said: str) -> None:
    assert consents(said)


@pytest.mark.parametrize("said", ["yes, but use the other branch for it", "why?", "use trio", "no"])
def test_what_says_more_is_none(said: str) -> None:
    assert not consents(said)
