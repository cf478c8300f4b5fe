"""What the index refuses and what that loses, whether it holds the newest versions, and whether a path finds them.

Recorded sessions are played into a log, as a server records them (no rows where they are not). Something is *asked for
again* if a later object of the same source was made (a file read or written again, a command run again), or a later
object refers to it (an edit to what it quotes from). Nobody leaves such a trace of what was said.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from uuid import UUID

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.outside import Outside
from mnemosyne.actors.tools import FromMemory
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.domain.objects.admission import is_chatter, is_routine
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.objects.faults import Spent
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.recall.object_search import SearchResult
from mnemosyne.domain.recall.sources import path_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.tools.memory_tools import MOST_HITS, SEARCH
from mnemosyne.domain.wire.reply import HiddenCall
from mnemosyne.replay.session_tapes import tape_of
from mnemosyne.services import memories
from tests.domain.recorded import DATA, sessions
from tests.replay.recordings import played, streams

QUICK = 40
"""A quick run takes every so many-th session."""


@attrs.frozen
class Remembered:
    """A recorded session as it is remembered at its end."""

    log: PlainLog
    stream: UUID
    state: Session

    @property
    def placed(self) -> list[MemoryObject]:
        """The objects that hold something, in the order in which they were made."""
        return [each for each in self.state.memory.objects.values() if each.places]


def remembered(quick: bool) -> Iterator[Remembered]:
    if not (DATA / "sessions").is_dir():
        return
    for session in sessions(QUICK if quick else 1):
        log, _ = played(tape_of(session))
        for stream in streams(log):
            yield Remembered(log, stream, memories.fold(trio.run(log.read, stream)))


def asked_again(objects: Sequence[MemoryObject]) -> set[str]:
    """The ids of those that were asked for again."""
    found = {link.target for each in objects for link in each.links}
    latest: dict[str, list[str]] = {}
    for each in objects:
        if each.source_key is not None:
            before = latest.setdefault(each.source_key, [])
            found.update(before)
            before.append(each.id)
    return found


def reason(each: MemoryObject) -> str:
    """Why the index has an object or has it not."""
    said = KINDS[each.kind].is_said
    command = each.source_key and each.source_key.removeprefix(f"{each.source_tool} ")
    if each.admission.admitted:
        return "in the index, nothing new" if each.admission.novelty == 0 else "in the index"
    if said:
        return "refused: small talk" if is_chatter(each.stub.partition(": ")[2]) else "refused: little said"
    return "refused: routine" if is_routine(command) else "refused: small, nothing new"


@attrs.define
class _Counts:
    """Sums over all sessions, so that none need be kept."""

    objects: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    asked: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    size: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    replaced: int = 0
    lost: int = 0
    lookups: Counter[str] = attrs.field(factory=Counter)
    missed: Counter[str] = attrs.field(factory=Counter)


@cache
def counted(quick: bool) -> _Counts:
    counts = _Counts()
    for session in remembered(quick):
        asked = asked_again(session.placed)
        for each in session.placed:
            key = each.kind.value, reason(each)
            counts.objects[key] += 1
            counts.asked[key] += each.id in asked
            counts.size[key] += each.size
            newer = session.state.memory.objects.get(each.superseded_by or "")
            if newer is not None and each.admission.admitted:
                counts.replaced += 1
                counts.lost += not newer.admission.admitted
        trio.run(_look_up, session, counts)
    return counts


def refused(_: Sequence[Server], quick: bool) -> list[Row]:
    """For each kind and reason: how many objects, their share of all text, and the share that was asked for again."""
    counts = counted(quick)
    whole = counts.size.total()
    rows = []
    for key, number in sorted(counts.objects.items()):
        name = " ".join(key[0].split("_"))
        rows += [
            single(f"{name}: objects", key[1], "", number),
            single(f"{name}: share of the text", key[1], "%", 100 * counts.size[key] / whole),
            single(f"{name}: asked for again", key[1], "%", 100 * counts.asked[key] / number),
        ]
    return rows


def versions(_: Sequence[Server], quick: bool) -> list[Row]:
    """Replacements of what the index holds that it does not hold itself: none."""
    counts = counted(quick)
    return [
        single("what took the place of something indexed", "ours", "", counts.replaced),
        single("of these not indexed", "ours", "", counts.lost, 0),
    ]


def paths(_: Sequence[Server], quick: bool) -> list[Row]:
    """Lookups of every file of every session with the model's own tool that do not name its newest object, as the first
    of all where the whole path was given: none. The index finds nothing here, so that only the path can.
    """
    counts = counted(quick)
    return [
        row
        for way, number in counts.lookups.items()
        for row in (
            single(f"lookups by {way}", SEARCH, "", number),
            single(f"missed by {way}", SEARCH, "", counts.missed[way], 0),
        )
    ]


async def _look_up(session: Remembered, counts: _Counts) -> None:
    memory = session.state.memory
    branch = max(session.state.branches, key=lambda each: len(list(memory.within_reach(each))), default=None)
    newest: dict[str, str] = {}
    reach = {each.id for each, _ in memory.within_reach(branch)} if branch is not None else set()
    for each in session.placed:
        path = path_of(each)
        if each.id in reach and path is not None and (KINDS[each.kind].is_file or path not in newest):
            newest[path] = each.id
    if branch is None or not newest:
        return
    left = ObjectDegraded(
        at=0,
        object=next(iter(newest.values())),
        branch=branch,
        turn=session.state.branches[branch].turns,
        before=Fidelity.FULL,
        after=Fidelity.STUB,
        cause=Cause.PRESSURE,
    )
    state = evolve(session.state, left)
    answering = FromMemory(Bodies(session.stream, session.log, session.log), Outside(_nothing))
    address = Address(branch, session.state.branches[branch].turns, 1)
    for path, wanted in newest.items():
        for way, question in _written(path).items():
            call = HiddenCall("c", SEARCH, json.dumps({"query": question, "limit": MOST_HITS}))
            answers = await answering.answer(state, address, [call], 0, Spent())
            counts.lookups[way] += 1
            _, *found = json.loads(answers.results["c"])["content"].split("\n--- data ")
            looked_at = found[:1] if question == path else found
            counts.missed[way] += not any(f": #{wanted} " in each for each in looked_at)


def _written(path: str) -> dict[str, str]:
    """A path as somebody writes it."""
    parts = path.strip("/").split("/")
    return {"path": path, "its last three parts": "/".join(parts[-3:]), "name": parts[-1]}


async def _nothing(question: str, among: Collection[str], limit: int) -> SearchResult:
    return SearchResult()


GROUP = Group(
    name="admission",
    variants=(),
    parts=(Part("refused", refused), Part("versions", versions), Part("paths", paths)),
    by_default=False,
)
