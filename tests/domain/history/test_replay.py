"""Speakers as headers, and back."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.history import replay
from mnemosyne.domain.wire import identity
from mnemosyne.domain.wire.identity import ClientHeaders

words = st.text("abcXYZ019-_", min_size=1)
versions = st.from_regex(r"\A[0-9]\.[0-9]{1,3}(\.[0-9])?\Z")


@st.composite
def speakers(draw: st.DrawFn) -> ClientHeaders:
    headers = {"user-agent": draw(st.sampled_from(["", "claude-cli/", "opencode/", "Anthropic/Python ", "curl/"]))}
    headers["user-agent"] += draw(versions | st.just(""))
    names = [name for group in identity.SESSION_HEADERS.values() for name in group]
    names += [identity.SESSION_HEADER, identity.PARENT_SESSION_HEADER, identity.AGENT_HEADER]
    for name in draw(st.sets(st.sampled_from([*names, identity.PARENT_AGENT_HEADER]))):
        headers[name] = draw(words)
    said = draw(st.sampled_from([{}, {"x-api-key": "k"}, {"authorization": "Bearer t"}]))
    beta = draw(st.sampled_from([{}, {"anthropic-beta": "oauth-2025-04-20"}]))
    return identity.speaker((headers | said | beta).items())


@given(speakers())
def test_the_headers_made_of_a_speaker_name_the_same_speaker(speaker: ClientHeaders) -> None:
    assert identity.speaker(replay.headers_of(speaker)) == speaker
