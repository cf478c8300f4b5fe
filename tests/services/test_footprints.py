"""A session's footprint: its stored size, and the size of its requests."""

from mnemosyne.domain.ports import StreamSizes
from mnemosyne.services.footprints import Footprint, measure
from tests.services.answers import Answers
from tests.services.talking import Plain, rich_session, talking


async def test_footprints_add_up(archive: Plain) -> None:
    for name in ("one", "other"):
        async with talking(archive, name) as talk:
            await rich_session(talk)
    one, other = await archive.events.streams()
    listed = [{"stream": stream, "external_id": "s"} for stream in (other, one)]
    models = Answers({("timeline", "sessions"): listed, ("timeline", "sent"): [{"stream": one, "bytes": 9}]})
    found = await measure(archive, models)
    assert [(stream, each.sent) for stream, each in found.items()] == [(other, 0), (one, 9)]
    assert {stream: each.sizes for stream, each in found.items()} == await archive.events.sizes()
    total = sum(found.values(), Footprint())
    assert total.stored == sum(each.stored for each in found.values())
    assert total.ratio == total.stored / total.sent
    assert (Footprint().ratio, Footprint().ratio_to_raw) == (None, None)
    assert Footprint(StreamSizes(raw_bytes=8, stored_bytes=2, event_bytes=2), 16).ratio_to_raw == 0.5
