"""The screenplay: `story.toml`, read."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import attrs

from mnemosyne_lab.provider import Script, from_data

FILE = "story.toml"

COUNTRIES = tuple(
    "AT BE BG CH CZ DE DK EE ES FI FR GB GR HR HU IE IS IT LT LU LV NL NO PL PT RO SE SI SK TR".split()  # noqa: SIM905
)
ORDERS = 4_500
CITIES = ("harbour", "old town", "airport", "station", "north", "south", "university")


@attrs.frozen(kw_only=True)
class Scene:
    """A prompt, under a ``title``. ``shows`` are sentences about the log afterwards, with the names of its facts."""

    title: str
    prompt: str
    shows: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class Story:
    """A project with a bug, and what its user and the model do about it."""

    model: str
    system: str
    files: Mapping[str, str]
    scenes: tuple[Scene, ...]
    rules: str

    def script(self, facts: Mapping[str, object]) -> Script:
        """The model's replies. The id of an object is known only once the log has it."""
        return from_data(tomllib.loads(self.rules.replace("OBJECT_ID", str(facts.get("printed", "")))))


def load_story() -> Story:
    """The bundled story."""
    text = (resources.files(__package__) / FILE).read_text(encoding="utf-8")
    head, rules = text.split("# The model's replies", 1)
    data: dict[str, Any] = tomllib.loads(head)
    return Story(
        model=data["model"],
        system=data["system"],
        files={**data["files"], "orders.csv": list_orders(), "tariffs.csv": list_tariffs()},
        scenes=tuple(Scene(**scene) for scene in data["scenes"]),
        rules=rules.partition("\n")[2],
    )


def list_tariffs() -> str:
    """A table of prices by country and weight."""
    rows = [
        f"{country},{weight},{4 + 0.7 * weight + 0.45 * number:.2f},EUR,zone {1 + number % 5}"
        for number, country in enumerate(COUNTRIES)
        for weight in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 22, 25, 28, 31)
    ]
    return "\n".join(["country,up_to_kg,price,currency,zone", *rows, ""])


def list_orders() -> str:
    """Some hundred orders."""
    rows = [
        f"{10_000 + 7 * number},{COUNTRIES[number * 11 % 30]},{1 + number * 37 % 30}.{number % 10},"
        f"{12 + number * 53 % 240}.90,{CITIES[number % 7]} {number * 17 % 90}"
        for number in range(ORDERS)
    ]
    return "\n".join(["order,country,kg,value,address", *rows, ""])
