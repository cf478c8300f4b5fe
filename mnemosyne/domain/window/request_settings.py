"""Settings that a request chooses for itself, by its headers.

A request may choose among the names that the operator lists, and a smaller window. Anything else is refused with a
sentence, and the server's own setting applies.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.window.policies import BUILT_IN
from mnemosyne.domain.window.window_size import LEAST, WINDOW

WINDOW_HEADER = "x-mnemosyne-window"
POLICY_HEADER = "x-mnemosyne-policy"
FIDELITY_HEADER = "x-mnemosyne-fidelity"


def choose(settings: ServerSettings, headers: Iterable[tuple[str, str]]) -> ServerSettings:
    """The server's settings with those that a request's headers choose. A refusal does not repeat a header's value,
    which may be anything.
    """
    asked = {name.lower(): value.strip().lower() for name, value in headers}
    changes: dict[str, Any] = {}
    refused: list[str] = []
    if (wanted := asked.get(WINDOW_HEADER)) is not None:
        most = settings.window or WINDOW
        least = min(LEAST, most)
        if re.fullmatch(r"[1-9][0-9]{0,8}", wanted) and least <= int(wanted) <= most:
            changes["window"] = int(wanted)
        else:
            refused.append(f"{WINDOW_HEADER}: a number of tokens from {least} to {most}, this server's own, is needed")
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
    if not changes and not refused:
        return settings
    version = "" if "policy" in changes else settings.policy_version
    return attrs.evolve(settings, policy_version=version, chosen=tuple(changes), refused=tuple(refused), **changes)
