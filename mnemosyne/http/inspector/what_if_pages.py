"""What if another policy had managed a session: two maps of its window beside each other, and the money of both."""

from collections.abc import Mapping
from typing import Any

from quart import request

from mnemosyne.errors import NotFound
from mnemosyne.http.inspector.holdings import Holdings, View
from mnemosyne.services import read_models
from mnemosyne.services.map_chart import map_chart
from mnemosyne.services.session_view import read_session_view
from mnemosyne.services.simulated import SimulatedBranch, draw_branch

AGAIN_SECONDS = 2
"""How soon a page asks again for what is being simulated."""


async def show_what_if(holdings: Holdings, session: str) -> tuple[str, Mapping[str, Any]]:
    """A branch as it was recorded, and under ``?policy=``."""
    stream = await read_models.find(holdings.models, session)
    view = await read_session_view(holdings.models, stream, request.args.get("branch"))
    policy = request.args.get("policy", "")
    if policy and policy not in holdings.simulations.policies:
        raise NotFound(f"There is no policy {policy!r}; there are {', '.join(holdings.simulations.policies)}.")
    asked = (stream, view.branch, policy, len(view.turns))
    found = holdings.simulations.ask(holdings.archive, asked) if policy else None
    shown: dict[str, Any] = {
        "stream": stream,
        "branch": view.branch,
        "policy": policy,
        "policies": holdings.simulations.policies,
        "recorded": sum(each.nanodollars or 0 for each in view.turns),
        "found": found if isinstance(found, SimulatedBranch) else None,
        "problem": found if isinstance(found, str) else None,
        "waited": found if isinstance(found, float) else None,
    }
    if request.path.endswith(".json"):
        return "what_if.html", shown
    simulated = draw_branch(found, view.branch) if isinstance(found, SimulatedBranch) else None
    maps = {
        "map_svg": map_chart([view.map], beside=[] if simulated is None else [simulated]),
        "simulated_svg": map_chart([simulated], "simulated", [view.map]) if simulated is not None else None,
    }
    return "what_if.html", {**shown, **maps, "again": AGAIN_SECONDS}


VIEWS: Mapping[str, View] = {"/-/session/<session>/what-if": show_what_if}
