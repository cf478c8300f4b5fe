"""The speaker of a claim."""

from mnemosyne.domain.objects.speakers import Speaker, speaker_of


def test_the_speaker_of_a_claim_is_among_its_tags() -> None:
    assert speaker_of(("decision", "user", "agreed")) is Speaker.USER
    assert speaker_of(("decision",)) is None
