"""The page of a branch's conversation: its prompts, replies, calls and results, a part of them at a time."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from quart import request

from mnemosyne.http.inspector.page_context import LongPage, LongView, PageContext
from mnemosyne.http.inspector.rendered import FIRST_LINES, render_beginning
from mnemosyne.services import overviews, read_models, session_view
from mnemosyne.services.conversation_view import ConversationItem, read_conversation

SHOWN_ITEMS = 80
SHOWN_PROMPTS = 300

_LINES = {"client": 3, "thinking": 6}
"""Number of first lines of items that readers rarely need."""


async def show_conversation(page_context: PageContext, session: str) -> LongPage:
    """Show the last items of a conversation; those from ``?turn=`` on, or from item ``?at=`` on."""
    stream = await read_models.find(page_context.models, session)
    branch = request.args.get("branch", "main")
    await session_view.require_session_branch(page_context.models, stream, branch)
    overview = await overviews.read_overview(
        page_context.archive, page_context.models, stream, openings=page_context.openings
    )
    return LongPage(
        stream=stream,
        template="conversation.html",
        values={"stream": stream, "branch": branch, "overview": overview},
        rest="conversation_body.html",
        read=partial(
            _read,
            page_context,
            stream,
            branch,
            turn=request.args.get("turn", type=int),
            at=request.args.get("at", type=int),
        ),
    )


async def _read(
    page_context: PageContext, stream: UUID, branch: str, *, turn: int | None, at: int | None
) -> Mapping[str, Any]:
    view = await read_conversation(
        page_context.archive,
        page_context.models,
        stream,
        branch,
        page_context.turns,
        page_context.conversations,
    )
    start = _find_start(view.items, turn, at)
    items = view.items[start : start + SHOWN_ITEMS]
    prompts = [each for each in view.items if each.kind == "prompt"]
    middle = sum(each.number < start for each in prompts)
    first = max(0, min(middle - SHOWN_PROMPTS // 2, len(prompts) - SHOWN_PROMPTS))
    return {
        "last": view.last,
        "opaque": view.opaque,
        "parent": view.parent,
        "total": len(view.items),
        "start": start,
        "items": [(each, render_beginning(view.read(each), _LINES.get(each.kind, FIRST_LINES))) for each in items],
        "turns": {each.turn: view.turns[each.turn] for each in items},
        "prompts": prompts[first : first + SHOWN_PROMPTS],
        "prompts_in_all": len(prompts),
        "step": SHOWN_ITEMS,
    }


def _find_start(items: Sequence[ConversationItem], turn: int | None, at: int | None) -> int:
    """The number of the first item to show."""
    if turn is not None:
        at = next((each.number for each in items if each.turn >= turn), None)
    last = max(0, len(items) - SHOWN_ITEMS)
    return last if at is None else max(0, min(at, len(items) - 1))


LONG_VIEWS: Mapping[str, LongView] = {"/-/session/<session>/conversation": show_conversation}
