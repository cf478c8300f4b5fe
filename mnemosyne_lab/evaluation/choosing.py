"""Selection of policies by name, and import of a user's own policy."""

import os
import sys
from collections.abc import Sequence

from mnemosyne.app.policies import import_object
from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.policies import POLICIES, behind_guard, hour_after_a_break
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
    """Import a policy from ``MODULE:NAME``; the current folder is on the path. A planner becomes the policy that a
    server makes of it. Raises BadOption with the reason.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise BadOption(f"{place!r} is not the place of a policy: that is MODULE:NAME.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value = import_object(place)[0]
    except ValueError as reason:
        raise BadOption(f"{place}: {reason}") from None
    if isinstance(value, Policy):
        return value
    if callable(value) and not isinstance(value, type):
        return Policy(
            name=place,
            about=_first_sentence(value.__doc__),
            planner=behind_guard(value),
            head=hour_after_a_break,
            has_memory=True,
        )
    raise BadOption(f"{place}: it is neither a Policy nor a planner (`docs/evaluation.md` shows both).")


def _first_sentence(text: object) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return words.partition(". ")[0].removesuffix(".") + "." if words else "A planner of your own."
