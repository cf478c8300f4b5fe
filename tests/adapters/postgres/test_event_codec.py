"""Stored events: each kind of field is preserved, old names are upcast, and damage is reported."""

import enum
from uuid import UUID

import attrs
import orjson
import pytest

from mnemosyne.adapters.postgres.event_codec import EventCodec, Upcast
from mnemosyne.domain.ports import Envelope
from mnemosyne.errors import UnknownEvent


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 1


@attrs.frozen
class Circle:
    radius: float


@attrs.frozen
class Square:
    side: int


def _not_negative(_: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if value < 0:
        raise ValueError(f"{attribute.name} is {value}")


@attrs.frozen
class Drawn:
    """One field of each kind."""

    id: UUID
    digest: bytes
    shapes: tuple[Circle, ...]
    last: Square | None
    note: str | None
    colours: frozenset[Colour]
    level: Level
    marks: tuple[tuple[int, str], ...]
    count: int = attrs.field(validator=_not_negative)
    done: bool = False


@attrs.frozen
class OneOfTwo:
    shape: Circle | Square


@attrs.frozen
class Renamed:
    title: str
    by: str


NAMES: dict[str, type] = {"shape.drawn.v1": Drawn, "shape.renamed.v3": Renamed}
UPCASTS = {
    "shape.renamed.v1": ("shape.renamed.v2", lambda data: {"title": data["name"]}),
    "shape.renamed.v2": ("shape.renamed.v3", lambda data: {**data, "by": "nobody"}),
}
CODEC = EventCodec(NAMES, UPCASTS)

DRAWN = Drawn(
    id=UUID(int=7),
    digest=b"\x00\xff\xfe?>",
    shapes=(Circle(1.5), Circle(2)),
    last=Square(3),
    note=None,
    colours=frozenset(Colour),
    level=Level.HIGH,
    marks=((1, "a"), (2, "ß")),
    count=4,
)


def store(data: object) -> bytes:
    return orjson.dumps({"data": data, "correlation": "c", "causation": None})


MISSING = object()


def store_drawn(**changes: object) -> bytes:
    state = orjson.loads(CODEC.encode(Envelope(DRAWN, "c"))[1])
    data = {**state["data"], **changes}
    return store({name: value for name, value in data.items() if value is not MISSING})


class TestRoundTrip:
    def test_every_kind_of_field_is_decoded_unchanged(self) -> None:
        for last in (None, Square(1)):
            envelope = Envelope(attrs.evolve(DRAWN, last=last), "request 1", "command 2")
            assert CODEC.decode(*CODEC.encode(envelope)) == envelope

    def test_an_int_enum_is_decoded_to_its_member(self) -> None:
        """It equals its number, which would hide that it was lost."""
        read = CODEC.decode(*CODEC.encode(Envelope(DRAWN, "c"))).event
        assert isinstance(read, Drawn)
        assert read.level is Level.HIGH
        with pytest.raises(UnknownEvent):
            CODEC.decode("shape.drawn.v1", store_drawn(level=7))

    def test_bytes_are_base64url_and_sets_are_sorted(self) -> None:
        name, state = CODEC.encode(Envelope(DRAWN, "request 1", "command 2"))
        read = orjson.loads(state)
        assert name == "shape.drawn.v1"
        assert (read["correlation"], read["causation"]) == ("request 1", "command 2")
        assert read["data"]["digest"] == "AP_-Pz4"
        assert read["data"]["shapes"] == [{"radius": 1.5}, {"radius": 2.0}]
        assert read["data"]["colours"] == ["blue", "red"]

    def test_the_same_event_is_always_the_same_bytes(self) -> None:
        assert len({CODEC.encode(Envelope(DRAWN, "c"))[1] for _ in range(3)}) == 1


class TestReading:
    def test_old_events_are_upcast_stepwise(self) -> None:
        for name, data in (("shape.renamed.v1", {"name": "x"}), ("shape.renamed.v2", {"title": "x"})):
            assert CODEC.decode(name, store(data)).event == Renamed("x", "nobody")

    def test_a_class_has_its_current_and_old_names(self) -> None:
        assert CODEC.names_of([Renamed]) == ["shape.renamed.v3", "shape.renamed.v1", "shape.renamed.v2"]
        assert CODEC.names_of([int]) == []

    def test_an_unknown_event_is_reported_with_the_needed_version(self) -> None:
        with pytest.raises(UnknownEvent, match=r"shape\.renamed v4.*knows it up to v3"):
            CODEC.decode("shape.renamed.v4", b"{}")
        with pytest.raises(UnknownEvent, match=r"tune\.played v1.*not at all"):
            CODEC.decode("tune.played.v1", b"{}")

    @pytest.mark.parametrize(
        "state",
        [
            pytest.param(store_drawn(secret="hush"), id="a field too many"),
            pytest.param(store_drawn(count=-1), id="a validator says no"),
            pytest.param(store_drawn(count="4"), id="text for a number"),
            pytest.param(store_drawn(count=True), id="a truth for a number"),
            pytest.param(store_drawn(digest="AP_-Pz5"), id="base64 that nobody wrote"),
            pytest.param(store_drawn(last={"hush": 1}), id="an unknown member"),
            pytest.param(store_drawn(colours=["hush"]), id="an unknown enum value"),
            pytest.param(store({"id": "hush"}), id="fields missing"),
            pytest.param(store_drawn(done=MISSING), id="a field with a default missing"),
            pytest.param(b"[]", id="no envelope"),
            pytest.param(b"{hush", id="no JSON"),
        ],
    )
    def test_an_invalid_shape_is_refused_without_quoting_it(self, state: bytes) -> None:
        with pytest.raises(UnknownEvent) as caught:
            CODEC.decode("shape.drawn.v1", state)
        assert "hush" not in str(caught.value)
        assert caught.value.__suppress_context__

    def test_the_reason_names_the_field(self) -> None:
        with pytest.raises(UnknownEvent, match=r"\$\.count"):
            CODEC.decode("shape.drawn.v1", store_drawn(count="4"))

    def test_a_failed_upcast_is_named(self) -> None:
        with pytest.raises(UnknownEvent, match=r"shape\.renamed\.v1 cannot become shape\.renamed\.v2"):
            CODEC.decode("shape.renamed.v1", store({}))


class TestWriting:
    def test_an_unregistered_event_is_refused(self) -> None:
        with pytest.raises(ValueError, match="Circle is not a registered event"):
            CODEC.encode(Envelope(Circle(1.0), "c"))

    @pytest.mark.parametrize(
        "event",
        [
            pytest.param(Renamed("\ud800", "half a character"), id="half a surrogate pair"),
            pytest.param(attrs.evolve(DRAWN, count=2**70), id="an integer above 64 bits"),
            pytest.param(attrs.evolve(DRAWN, shapes=(Circle(float("nan")),)), id="not a number"),
        ],
    )
    def test_values_that_json_cannot_hold_are_refused(self, event: object) -> None:
        with pytest.raises(ValueError, match="shape"):
            CODEC.encode(Envelope(event, "c"))


class TestRegistry:
    @pytest.mark.parametrize(
        ("names", "upcasts", "complaint"),
        [
            ({"Drawn": Square}, {}, "not a stored name"),
            ({"a.v1": int}, {}, "attrs class"),
            ({"a.v1": Square, "a.v2": Square}, {}, "share a class"),
            ({"a.v1": Square}, {"a.v1": ("a.v1", dict)}, "both"),
            ({"a.v3": Square}, {"a.v1": ("a.v2", dict)}, "not a current name"),
            ({"a.v3": Square}, {"a.v1": ("a.v2", dict), "a.v2": ("a.v1", dict)}, "circle"),
            ({"a.v1": OneOfTwo}, {}, "union of classes"),
        ],
    )
    def test_an_inconsistent_registry_is_refused(
        self, names: dict[str, type], upcasts: dict[str, Upcast], complaint: str
    ) -> None:
        with pytest.raises(ValueError, match=complaint):
            EventCodec(names, upcasts).prepare()
