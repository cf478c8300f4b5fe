"""Operations on the memory beyond sessions: from an operation's arguments to an answer in JSON."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from mnemosyne.domain.knowledge.decide import EntryDraft
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import PREFERENCES, EntryKind, Scope
from mnemosyne.errors import BadOption, NotFound
from mnemosyne.services.knowledge import (
    KnowledgeService,
    WriteReport,
    WriteStamp,
    describe,
    describe_write,
    parse_member,
)
from mnemosyne.services.provenance import find_provenance, find_words
from mnemosyne.services.sessions import Archive
from mnemosyne.services.unstructuring import members
from mnemosyne.times import is_time, render_day

Arguments = Mapping[str, Any]

LISTED = 1000
"""Default limit of entries in one answer."""

PREFERENCE_KINDS = ", ".join(each.value for each in EntryKind if each in PREFERENCES)

NOTE = "New sessions know it; those under way do not."


@attrs.frozen
class ApiCall:
    """A call of an operation: the memory as the named project sees it, and the arguments."""

    knowledge: KnowledgeService
    archive: Archive
    given: Arguments
    stamp: WriteStamp

    def find_kind(self) -> EntryKind | None:
        """The kind argument."""
        kind = self.given.get("kind")
        return None if kind is None else parse_member(EntryKind, kind, "kind")

    def find_scope(self) -> Scope | None:
        """The scope argument."""
        scope = self.given.get("scope")
        return None if scope is None else parse_member(Scope, scope, "scope")

    def find_time(self, name: str) -> int | None:
        """A time argument, in µs of UTC."""
        text = self.given.get(name)
        return None if text is None else parse_api_time(name, text)

    async def find_provenance(self) -> Provenance | None:
        """The turn of the session argument. Raises NotFound."""
        return await find_provenance(self.archive, self.given.get("session"), self.given.get("turn"))


async def list_entries(call: ApiCall) -> Any:
    """The entries valid or known at a time."""
    return await _list(call, frozenset(EntryKind))


async def list_preferences(call: ApiCall) -> Any:
    """The same for preferences."""
    return await _list(call, PREFERENCES)


async def _list(call: ApiCall, kinds: frozenset[EntryKind]) -> Any:
    both = call.find_time("as_of")
    known_at = call.find_time("known_at") or both
    found = await call.knowledge.list_entries(
        call.find_time("true_at") or known_at or call.stamp.at,
        scope=call.find_scope(),
        kind=call.find_kind(),
        known_at=known_at,
    )
    wanted = [each for each in found if each.entry.kind in kinds]
    shown = wanted[: call.given.get("limit", LISTED)]
    return {"entries": [describe(each) for each in shown], "left_out": len(wanted) - len(shown)}


async def show_entry(call: ApiCall) -> Any:
    """An entry with its earlier and later versions, and the bytes of the requests that contain its words; without an
    id, all entries.
    """
    wanted = call.given.get("id")
    told = []
    for each in await call.knowledge.list_history(wanted):
        words = None if wanted is None else await find_words(call.archive, each.entry)
        told.append(describe(each) | ({} if words is None else {"words": members(words, "start end")}))
    return {"entries": told}


async def add_entries(call: ApiCall) -> Any:
    """Save a sentence."""
    kind = call.find_kind() or EntryKind.FACT
    return await _add(call, kind, call.find_scope() or Scope.PROJECT)


async def add_preference(call: ApiCall) -> Any:
    """Save a preference, for all projects unless a scope is given."""
    kind = call.find_kind()
    if kind not in PREFERENCES:
        raise BadOption(f"{call.given['kind']!r} is no kind of preference; there are {PREFERENCE_KINDS}.")
    return await _add(call, kind, call.find_scope() or Scope.USER)


async def _add(call: ApiCall, kind: EntryKind, scope: Scope) -> Any:
    draft = EntryDraft(
        kind=kind,
        content=call.given["content"],
        source=call.knowledge.source,
        summary=call.given.get("summary", ""),
        detail=call.given.get("detail", ""),
        valid_from=call.find_time("valid_from"),
        provenance=await call.find_provenance(),
    )
    return _tell(await call.knowledge.remember(scope, draft, call.stamp))


async def update_entry(call: ApiCall) -> Any:
    """Replace an entry's content from now or from a given time on."""
    done = await call.knowledge.update(
        call.given["id"],
        call.given["content"],
        call.stamp,
        detail=call.given.get("detail"),
        valid_from=call.find_time("valid_from"),
        provenance=await call.find_provenance(),
    )
    return _tell(done)


async def forget_entry(call: ApiCall) -> Any:
    """End an entry."""
    return _tell(await call.knowledge.forget(call.given["id"], call.stamp))


async def confirm_entry(call: ApiCall) -> Any:
    """Confirm that an entry is still true."""
    return _tell(await call.knowledge.confirm(call.given["id"], call.stamp))


def of_preferences(answer: Callable[[ApiCall], Awaitable[Any]]) -> Callable[[ApiCall], Awaitable[Any]]:
    """The same for an entry that is a preference. Raises NotFound for any other."""

    async def answer_preference(call: ApiCall) -> Any:
        held = await call.knowledge.list_entries(call.stamp.at)
        if call.given["id"] not in {each.entry.id for each in held if each.entry.kind in PREFERENCES}:
            raise NotFound(f"No preference that holds has the id {call.given['id']!r}.")
        return await answer(call)

    return answer_preference


async def link_entries(call: ApiCall) -> Any:
    """Link two entries."""
    relation = call.given.get("relation", "relates-to")
    return _tell(await call.knowledge.link(call.given["id"], call.given["other"], relation, call.stamp))


async def recall_entries(call: ApiCall) -> Any:
    """The entries that answer a question best."""
    kind = call.find_kind()
    found = await call.knowledge.recall(
        call.given["query"],
        call.stamp.at,
        limit=call.given.get("limit", 10),
        kinds=() if kind is None else (kind,),
        ended=call.given.get("ended", False),
    )
    return {"entries": [describe(each) for each in found]}


async def show_block(call: ApiCall) -> Any:
    """The memory block for a session that begins now."""
    block = await call.knowledge.compose_block(call.given.get("prompt", ""), call.stamp.at, render_day)
    return {"text": None, "entries": [], "tokens": 0} if block is None else attrs.asdict(block)


async def undo_write(call: ApiCall) -> Any:
    """Undo a write."""
    return _tell(await call.knowledge.undo(call.given.get("write"), call.stamp))


async def erase_entries(call: ApiCall) -> Any:
    """Erase the words of entries from the log."""
    return {"erased": await call.knowledge.erase(call.given["matching"], call.stamp)}


def _tell(done: WriteReport) -> Any:
    return {**describe_write(done), "note": NOTE}


def parse_api_time(name: str, text: str) -> int:
    """µs of UTC, parsed from an ISO 8601 date or time or from a number; UTC is the default zone. Raises BadOption."""
    try:
        at = int(text) if text.isdecimal() else _parse_iso(text)
    except (ValueError, OverflowError):
        at = -1
    if not is_time(at):
        raise BadOption(f"{name}: {text!r} is no time, such as 2026-11-21 or 2026-11-21T10:00:00Z.")
    return at


def _parse_iso(text: str) -> int:
    date = datetime.fromisoformat(text)
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1e6)
