"""Loading a session gives the same state as folding its events."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import Identity
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.services.forgetting import forget
from tests.domain.remembered import histories, made
from tests.domain.stories import Story
from tests.plain.log import PlainLog
from tests.services.talking import body, rich_session, talking, user

LOG = PlainLog(event_codec())
IDENTITY = Identity(stream=UUID(int=1), tenant="t", external_id="s")


def check(recorded: list[Recorded[Event]]) -> None:
    """At every version, the loaded state and known contents equal the folded ones."""
    folded = Loaded(IDENTITY, LOG, LOG, lambda: b"")
    for version, each in enumerate(recorded, 1):
        folded.note(each.envelope.event)
        loaded = Loaded(IDENTITY, LOG, LOG, lambda: b"")
        loaded.load(recorded[:version])
        assert loaded.state == folded.state
        assert loaded.known == folded.known


async def test_a_session_with_all_features_is_loaded_as_it_is_folded_even_if_forgotten() -> None:
    async with talking() as talk:
        await rich_session(talk)
    await forget(talk.archive, talk.stream, lambda: 7, "c")
    async with talking(talk.archive) as again:
        await again.ask(body([user("Where is the bug? " * 30)]))
    check(list(await talk.archive.log.read(talk.stream)))


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4), min_size=1, max_size=8))
def test_any_story_is_loaded_as_it_is_folded(histories: list[list[str]]) -> None:
    story = Story()
    for history in histories:
        story.begin(" ".join(history))
    check([Recorded(IDENTITY.stream, n, n, Envelope(event, "c")) for n, event in enumerate(story.events, 1)])


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4), histories)
def test_any_story_with_objects_is_loaded_as_it_is_folded(history: list[str], happened: list[ObjectEvent]) -> None:
    story = Story()
    story.begin(" ".join(history))
    objects = [made("a", 0), made("b", 2), *happened]
    half = len(objects) // 2
    events = [*story.events, *objects[:half]]
    known = len(story.events)
    story.begin(" ".join([*history, "d"]))
    events += [*story.events[known:], *objects[half:]]
    check([Recorded(IDENTITY.stream, n, n, Envelope(event, "c")) for n, event in enumerate(events, 1)])
