"""What a session takes up is what the store says, beside what went upstream."""

from mnemosyne.domain.ports import StreamSizes
from mnemosyne.services.footprints import Footprint, measure
from tests.services.answers import Answers
from tests.services.talking import plain, rich_session, talking


async def test_each_session_is_measured_and_all_add_up() -> None:
    archive = plain()
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


def test_of_nothing_there_is_no_ratio() -> None:
    assert (Footprint().ratio, Footprint().ratio_to_raw) == (None, None)
    assert Footprint(StreamSizes(raw_bytes=8, stored_bytes=2, event_bytes=2), 16).ratio_to_raw == 0.5
