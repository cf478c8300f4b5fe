"""The what-if page: a session as recorded next to a simulation under another policy, with context maps and costs."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from quart import request

from mnemosyne.errors import NotFound
from mnemosyne.http.inspector.page_context import LongPage, LongView, PageContext
from mnemosyne.services import read_models
from mnemosyne.services.map_chart import MapLinks, map_chart
from mnemosyne.services.session_view import read_branch_bill, read_session_view
from mnemosyne.services.simulated import SimulatedBranch, SimulationProgress, draw_branch


async def show_what_if(page_context: PageContext, session: str) -> LongPage:
    """Show a branch as recorded and under ``?policy=``. Does not wait for a simulation: the page shows its progress."""
    stream = await read_models.find(page_context.models, session)
    bill = await read_branch_bill(page_context.models, stream, request.args.get("branch"))
    policy = request.args.get("policy", "")
    if policy and policy not in page_context.simulations.policies:
        raise NotFound(f"Unknown policy {policy!r}; available: {', '.join(page_context.simulations.policies)}.")
    question = (stream, bill.branch, policy, bill.turns)
    answer = page_context.simulations.ask(page_context.archive, question) if policy else None
    simulated = answer if isinstance(answer, SimulatedBranch) else None
    return LongPage(
        stream=stream,
        template="what_if.html",
        values={
            "stream": stream,
            "branch": bill.branch,
            "policy": policy,
            "policies": page_context.simulations.policies,
            "recorded": bill.nanodollars,
            "found": simulated,
            "problem": answer if isinstance(answer, str) else None,
            "working": answer if isinstance(answer, SimulationProgress) else None,
        },
        rest="what_if_recorded.html" if simulated is None else "what_if_beside.html",
        read=partial(_draw_maps, page_context, stream, bill.branch, simulated),
    )


async def _draw_maps(
    page_context: PageContext, stream: UUID, branch: str, simulated: SimulatedBranch | None
) -> Mapping[str, Any]:
    if request.path.endswith(".json"):  # programs need no charts
        return {}
    view = await read_session_view(page_context.models, stream, branch)
    links = MapLinks(session=f"/-/session/{stream}")
    if simulated is None:
        return {"map_svg": map_chart([view.map], links=links)}
    simulated_map = draw_branch(simulated, branch)
    return {
        "map_svg": map_chart([view.map], beside=[simulated_map], links=links),
        "simulated_svg": map_chart([simulated_map], "simulated", [view.map]),
    }


LONG_VIEWS: Mapping[str, LongView] = {"/-/session/<session>/what-if": show_what_if}
