"""Settings that a request chooses for itself, by its headers.

A request may choose among the names that the operator lists, a smaller window, fewer restores, and a stricter
grounding. Anything else is refused with a sentence, and the server's own setting applies.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session.decision_inputs import GROUNDINGS, ServerSettings
from mnemosyne.domain.window.policies import BUILT_IN
from mnemosyne.domain.window.window_size import LEAST, WINDOW

WINDOW_HEADER = "x-mnemosyne-window"
POLICY_HEADER = "x-mnemosyne-policy"
FIDELITY_HEADER = "x-mnemosyne-fidelity"
FAULTS_HEADER = "x-mnemosyne-restores"
GROUNDING_HEADER = "x-mnemosyne-grounding"


def choose(settings: ServerSettings, headers: Iterable[tuple[str, str]], own: str = "") -> ServerSettings:
    """The server's settings with those that a request's headers choose. ``own`` is the session's own grounding; empty
    for the server's. A refusal does not repeat a header's value, which may be anything.
    """
    if own:
        settings = attrs.evolve(settings, **_ground(own))
    asked = {name.lower(): value.strip().lower() for name, value in headers}
    changes: dict[str, Any] = {}
    refused: list[str] = []
    window = settings.window or WINDOW
    numbers = {
        WINDOW_HEADER: ("window", "a number of tokens", min(LEAST, window), window),
        FAULTS_HEADER: ("faults", "a number", 0, settings.faults),
    }
    for header, (name, unit, least, most) in numbers.items():
        wanted = asked.get(header)
        if wanted is not None and re.fullmatch(r"0|[1-9][0-9]{0,8}", wanted) and least <= int(wanted) <= most:
            changes[name] = int(wanted)
        elif wanted is not None:
            refused.append(f"{header}: {unit} from {least} to {most}, this server's own, is needed")
    modes = {mode.value: mode for mode in FidelityMode}
    named: dict[str, tuple[str, Mapping[str, object]]] = {
        POLICY_HEADER: ("policy", {name: name for name in BUILT_IN}),
        FIDELITY_HEADER: ("fidelity", modes),
    }
    for header, (name, values) in named.items():
        allowed = [each for each in values if each in settings.choices]
        if asked.get(header) in allowed:
            changes[name] = values[asked[header]]
        elif header in asked:
            refused.append(f"{header}: one of {', '.join(allowed)} is needed" if allowed else f"{header}: not allowed")
    stricter = GROUNDINGS[GROUNDINGS.index(settings.grounding) :]
    grounded: dict[str, Any] = {}
    if (grounding := asked.get(GROUNDING_HEADER)) in stricter:
        grounded = _ground(grounding)
    elif grounding is not None:
        refused.append(f"{GROUNDING_HEADER}: one of {', '.join(stricter)} is needed")
    chosen = (*changes, "grounding") if grounded else tuple(changes)
    if not chosen and not refused:
        return settings
    changes |= {"policy_version": "" if "policy" in changes else settings.policy_version, **grounded}
    return attrs.evolve(settings, chosen=chosen, refused=tuple(refused), **changes)


def _ground(grounding: str) -> dict[str, Any]:
    return {"cited": grounding != "free", "strict": grounding == "strict"}
