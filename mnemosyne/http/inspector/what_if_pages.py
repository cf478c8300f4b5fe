"""What if another policy had managed a session: two maps of its window beside each other, and the money of both."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from quart import request

from mnemosyne.errors import NotFound
from mnemosyne.http.inspector.page_context import LongPage, LongView, PageContext
from mnemosyne.services import read_models
from mnemosyne.services.map_chart import map_chart
from mnemosyne.services.session_view import read_branch_bill, read_session_view
from mnemosyne.services.simulated import SimulatedBranch, SimulationProgress, draw_branch


async def show_what_if(page_context: PageContext, session: str) -> LongPage:
    """A branch as it was recorded, and under ``?policy=``. What is simulated still is not waited for: its page says how
    far that is.
    """
    stream = await read_models.find(page_context.models, session)
    bill = await read_branch_bill(page_context.models, stream, request.args.get("branch"))
    policy = request.args.get("policy", "")
    if policy and policy not in page_context.simulations.policies:
        raise NotFound(f"There is no policy {policy!r}; there are {', '.join(page_context.simulations.policies)}.")
    asked = (stream, bill.branch, policy, bill.turns)
    answer = page_context.simulations.ask(page_context.archive, asked) if policy else None
    found = answer if isinstance(answer, SimulatedBranch) else None
    return LongPage(
        stream=stream,
        template="what_if.html",
        told={
            "stream": stream,
            "branch": bill.branch,
            "policy": policy,
            "policies": page_context.simulations.policies,
            "recorded": bill.nanodollars,
            "found": found,
            "problem": answer if isinstance(answer, str) else None,
            "working": answer if isinstance(answer, SimulationProgress) else None,
        },
        rest="what_if_recorded.html" if found is None else "what_if_beside.html",
        read=partial(_draw_maps, page_context, stream, bill.branch, found),
    )


async def _draw_maps(
    page_context: PageContext, stream: UUID, branch: str, found: SimulatedBranch | None
) -> Mapping[str, Any]:
    if request.path.endswith(".json"):  # a picture is nothing for a program
        return {}
    view = await read_session_view(page_context.models, stream, branch)
    if found is None:
        return {"map_svg": map_chart([view.map])}
    simulated = draw_branch(found, branch)
    return {
        "map_svg": map_chart([view.map], beside=[simulated]),
        "simulated_svg": map_chart([simulated], "simulated", [view.map]),
    }


LONG_VIEWS: Mapping[str, LongView] = {"/-/session/<session>/what-if": show_what_if}
