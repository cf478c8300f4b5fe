"""Selection of policies by name, and import of a user's own policy."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.policies import POLICIES
from mnemosyne_lab.evaluation.policy import Policy


def choose_policies(names: Sequence[str]) -> list[Policy]:
    """The named policies, each once: built-in ones in the order of the table, then ``MODULE:NAME`` in the given order.
    Without names, all built-in ones. Raises BadOption.
    """
    known = [policy.name for policy in POLICIES]
    own = [name for name in names if ":" in name]
    for name in names:
        if name not in known and name not in own:
            raise BadOption(
                f"There is no policy {name!r}; there are {', '.join(known)}. One of your own is MODULE:NAME."
            )
    chosen = [policy for policy in POLICIES if not names or policy.name in names]
    for name in own:
        policy = import_policy(name)
        if any(policy.name == each.name for each in chosen) or policy.name in known:
            raise BadOption(f"{name}: there is a policy {policy.name!r} already; give it a name of its own.")
        chosen.append(policy)
    return chosen


def import_policy(place: str) -> Policy:
    """Import a policy, or a planner as a policy, from ``MODULE:NAME``; the current folder is on the path. Raises
    BadOption with the reason.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise BadOption(f"{place!r} is not the place of a policy: that is MODULE:NAME.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise BadOption(f"{place}: {module!r} cannot be imported: {error}.") from None
    except Exception as error:  # whatever the module itself does wrong
        raise BadOption(f"{place}: {module!r} fails when it is imported: {render_error(error)}.") from None
    value = getattr(found, name, None)
    match value:
        case Policy():
            return value
        case None:
            raise BadOption(f"{place}: there is no {name!r} in {module!r}.")
        case _ if callable(value) and not isinstance(value, type):
            return Policy(name=place, about=_first_sentence(value.__doc__), planner=value)
        case _:
            raise BadOption(f"{place}: it is neither a Policy nor a planner (`docs/evaluation.md` shows both).")


def _first_sentence(text: object) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return words.partition(". ")[0].removesuffix(".") + "." if words else "A planner of your own."


def render_error(error: Exception) -> str:
    """The error's type, message, and the file and line that raised it."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    where = f" ({traceback.tb_frame.f_code.co_filename}, line {traceback.tb_lineno})" if traceback is not None else ""
    return f"{type(error).__name__}: {error}{where}"
