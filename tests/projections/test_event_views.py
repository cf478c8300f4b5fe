"""Events as projections see them: fields decoded like the codec does, one by one, and only on access."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import pytest

from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_views import EventViews
from mnemosyne.app.storage import ALL_NAMES
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.session.events import EVENT_UPCASTS
from mnemosyne.errors import UnknownEvent
from tests.golden.sessions import CODEC, FOLDERS, appends

VIEWS = EventViews(ALL_NAMES, EVENT_UPCASTS)


class Colour(Enum):
    RED = "red"


@attrs.frozen
class Painted:
    """An event with every kind of field that a view treats specially."""

    colour: Colour
    before: Colour | None
    coats: tuple[bytes, ...]
    height: float


PAINTED = EventCodec({"wall.painted.v1": Painted})


def plain(value: object) -> object:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_field_of_every_event_is_decoded_like_the_codec_does(folder: Path) -> None:
    for append in appends(folder):
        (envelope,) = append.envelopes
        seen = VIEWS.decode(*CODEC.encode(envelope))
        assert (seen.correlation_id, seen.causation_id) == (envelope.correlation_id, envelope.causation_id)
        assert isinstance(seen.event, type(envelope.event))
        event: Any = envelope.event
        for name, expected in attrs.asdict(event, recurse=False).items():
            assert plain(getattr(seen.event, name)) == plain(expected), name


@pytest.mark.parametrize("before", [None, Colour.RED])
def test_enums_and_tuples_are_decoded_too(before: Colour | None) -> None:
    event = Painted(Colour.RED, before, (b"a", b"\xff"), 2.0)
    seen = EventViews({"wall.painted.v1": Painted}).decode(*PAINTED.encode(Envelope(event, "c"))).event
    assert isinstance(seen, Painted)
    assert (seen.colour, seen.before, seen.height) == (Colour.RED, before, 2.0)
    assert len(seen.coats) == 2
    assert (seen.coats[1], seen.coats[:1], list(seen.coats)) == (b"\xff", (b"a",), [b"a", b"\xff"])


def test_old_events_are_upcast_first() -> None:
    upcast = ("wall.painted.v2", lambda data: {**data, "before": None, "coats": [], "height": 1.0})
    views = EventViews({"wall.painted.v2": Painted}, {"wall.painted.v1": upcast})
    seen = views.decode("wall.painted.v1", b'{"data":{"colour":"red"},"correlation":"c","causation":null}').event
    assert isinstance(seen, Painted)
    assert seen.height == 1.0


def test_unknown_and_damaged_events_are_refused_like_the_codec_does() -> None:
    with pytest.raises(UnknownEvent, match=r"this needs a Mnemosyne that knows session\.started v9"):
        VIEWS.decode("session.started.v9", b"{}")
    with pytest.raises(UnknownEvent, match="the row is damaged"):
        VIEWS.decode("session.started.v1", b"{")


def test_a_missing_field_raises_only_on_access() -> None:
    seen = VIEWS.decode("session.forgotten.v1", b'{"data":{},"correlation":"c","causation":null}').event
    with pytest.raises(KeyError):
        seen.at  # noqa: B018
