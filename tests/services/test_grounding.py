"""Where grounding is strict, what a reply says of the past is looked for in what its request held."""

from collections.abc import Sequence

import attrs

from mnemosyne.app.settings import settings_of
from mnemosyne.cli.explain import list_unsupported
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.history.unsupported import UnsupportedSentence
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services import windows
from mnemosyne.services.forgetting import forget
from mnemosyne.services.grounding import read_unsupported, sentences_as_json
from mnemosyne.services.manifests import manifest_as_json, read_manifest
from tests.http.managing import Client, Stage, look, open_stage, said, text, think
from tests.http.proxying import settings
from tests.services.talking import Plain

REPLIES = [
    said(think("I look."), text("I look for `read_queue`."), look(at="queue")),
    said(text("I found `read_queue`. I removed `start_worker`."), look(at="worker")),
    said(think("Well."), text("I found `toolu` in it. I will add `stop_worker`.")),
]


async def talk(stage: Stage) -> Plain:
    await Client(stage.url).work("Look at the queue.")
    return Plain(stage.log)


async def found_in(archive: Plain, stage: Stage) -> list[Sequence[UnsupportedSentence] | None]:
    """What was found of each turn."""
    stream = await stage.stream()
    events = await archive.events.read(stream)
    history = history_of(str(stream), events)
    return [await read_unsupported(archive, stream, events, history, each) for each in history.attempts]


async def test_the_reply_that_names_what_nothing_shows_is_found_and_its_request_says_so() -> None:
    async with open_stage({"replies": REPLIES}, strict=True) as stage:
        archive = await talk(stage)
        one, two, three = await found_in(archive, stage)
        wanted = UnsupportedSentence("I removed `start_worker`.", ("start_worker",))
        # What was said a turn before, and what the tool answered, is in the request.
        assert (one, two, three) == ((), (wanted,), ())
        stream = str(await stage.stream())
        told = manifest_as_json(await read_manifest(archive, stream, "main", "2"))
        assert told["unsupported"] == [{"sentence": wanted.sentence, "names": ["start_worker"]}]
        asked = settings_of(settings("http://127.0.0.1:9"))
        explained = await windows.explain(archive, stream, "main", 2, now=9, settings=asked)
        assert explained.unsupported == (wanted,)
        ((sentence, lines),) = list_unsupported(explained.unsupported)
        assert sentence.endswith(", this stood nowhere in the request:")
        assert lines == ["I removed `start_worker`. (start_worker)"]


async def test_nobody_looks_where_grounding_is_free_or_nothing_is_managed_or_all_is_forgotten() -> None:
    for options in ({"strict": False}, {"strict": True, "mode": Mode.OBSERVE}):
        async with open_stage({"replies": REPLIES}, **options) as stage:
            assert await found_in(await talk(stage), stage) == [None, None, None]
    async with open_stage({"replies": REPLIES}, strict=True) as stage:
        archive = await talk(stage)
        history = history_of("s", await archive.events.read(await stage.stream()))
        last = attrs.evolve(history.attempts[-1], ended=None)
        assert await read_unsupported(archive, await stage.stream(), (), history, last) is None
        await forget(archive, await stage.stream(), lambda: 9, "c")
        assert await found_in(archive, stage) == [None, None, None]
    assert sentences_as_json(None) is None
    assert not list(list_unsupported(None))
