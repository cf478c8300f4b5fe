"""The screenplay: `story.toml`, read."""

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import attrs

from mnemosyne_lab.provider import Script, from_data
from mnemosyne_lab.provider.script import Pace, ScriptRule

FILE = "story.toml"


@attrs.frozen(kw_only=True)
class Scene:
    """A user's action: typing a prompt, perhaps after rewinding to the remembered place."""

    prompt: str
    remember: bool = False
    back_to: bool = False


@attrs.frozen(kw_only=True)
class Story:
    """A project with a bug, its agents, and the model's script."""

    model: str
    system: str
    reviewer: str
    files: Mapping[str, str]
    scenes: tuple[Scene, ...]
    script: Script


def load_story(*, pace: Pace) -> Story:
    """The bundled story; replies arrive at that pace."""
    text = (resources.files(__package__) / FILE).read_text(encoding="utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    script = from_data(data["script"])
    return Story(
        model=data["model"],
        system=data["system"],
        reviewer=data["reviewer"],
        files=data["files"],
        scenes=tuple(Scene(**scene) for scene in data["scenes"]),
        script=attrs.evolve(script, rules=[_pace(rule, pace) for rule in script.rules]),
    )


def _pace(rule: ScriptRule, pace: Pace) -> ScriptRule:
    return attrs.evolve(rule, replies=[attrs.evolve(reply, pace=pace) for reply in rule.replies])
