"""Who is trusted with what."""

from mnemosyne.domain.objects.speakers import Speaker, speaker_of


def test_only_user_and_assistant_settle_anything() -> None:
    assert {each for each in Speaker if each.claims} == {Speaker.USER, Speaker.ASSISTANT}


def test_nobody_revises_who_is_trusted_more() -> None:
    order = [Speaker.USER, Speaker.ASSISTANT, Speaker.CLIENT, Speaker.OTHER]
    for number, each in enumerate(order):
        assert [other for other in order if each.may_revise(other)] == order[number:]


def test_the_speaker_of_a_claim_is_among_its_tags() -> None:
    assert speaker_of(("decision", "user", "agreed")) is Speaker.USER
    assert speaker_of(("decision",)) is None
