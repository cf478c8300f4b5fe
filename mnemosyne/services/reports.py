"""The report of one session: growth of its context, pressure, faults and cost."""

from collections.abc import Sequence
from functools import reduce
from uuid import UUID

import attrs

from mnemosyne.domain.history.effective import EffectiveTokens, measure_session
from mnemosyne.domain.history.guards import Repetition
from mnemosyne.domain.history.time_travel import History, history_of
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import FaultKind, ObjectCreated, ObjectFaulted
from mnemosyne.domain.objects.faults import thrash
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event, TurnFinished
from mnemosyne.domain.tools.tool_paging import PagingForecast, forecast_paging
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.errors import ContentForgotten, LogFailed
from mnemosyne.services import contexts, read_models, savings
from mnemosyne.services.observing import observe_history
from mnemosyne.services.read_models import Question, ReadModels, Row
from mnemosyne.services.savings import Balance, Rewrite
from mnemosyne.services.sessions import Archive

ENOUGH_TURNS = 5
"""Number of turns in which a refetch shows that an answer was not enough."""


@attrs.frozen
class ThrashIndex:
    """A session's highest thrash index, and the one in the last turn of that branch."""

    worst: float
    branch: str
    turn: int
    last: float


@attrs.frozen
class Questions:
    """The number of questions that memory ``answered``, and of those that were ``enough``: none of the quoted objects
    was restored or fetched again within ``ENOUGH_TURNS``. Unanswered questions are in no event.
    """

    answered: int
    enough: int


@attrs.frozen
class RefusedAttempt:
    """An attempt that the provider answered with an error. It costs nothing, so it is not in the ledger."""

    branch: str
    turn: int
    attempt: int
    status: int
    error: str | None


@attrs.frozen(kw_only=True)
class SessionReport:
    """A session's report from the rows of its ledger. Without a fault there is no thrash index. ``refused`` are the
    attempts that the provider refused, in order. ``paging`` forecasts tool paging for the last request of the longest
    conversation; None if that cannot be read. ``repetitions`` are its agent's repeated calls, ``passed`` says that it
    exceeded its budget.
    """

    stream: UUID
    name: str
    turns: Sequence[Row]
    windows: Sequence[Row]
    faults: Sequence[Row]
    epochs: Sequence[Row]
    evictions: int
    thrash: ThrashIndex | None
    questions: Questions
    effective: EffectiveTokens
    refused: Sequence[RefusedAttempt] = ()
    paging: PagingForecast | None = None
    repetitions: Sequence[Repetition] = ()
    passed: savings.PassedBudget | None = None

    @property
    def total(self) -> Balance:
        """The balance of all turns."""
        return sum(map(savings.balance_of, self.turns), Balance())

    @property
    def rewrites(self) -> Sequence[Rewrite]:
        """The rewrites of the history, and whether each paid off."""
        return savings.find_rewrites(self.turns, self.epochs)


async def read_report(archive: Archive, models: ReadModels, session: str, budget: int | None = None) -> SessionReport:
    """The report of a session with a budget of ``budget`` nanodollars. Raises NotFound."""
    stream = await read_models.find(models, session)
    queries = ("saved_by_turn", "pressure", "faulted", "epochs_of", "evicted")
    (named,), turns, windows, faults, epochs, evicted = await models.answers(
        Question("timeline", "session", {"stream": stream}),
        *(Question("savings", query, {"stream": stream}) for query in queries),
    )
    recorded = await archive.events.read(stream)
    history = history_of(str(stream), recorded)
    return SessionReport(
        stream=stream,
        name=named["external_id"] or str(stream),
        turns=turns,
        windows=windows,
        faults=faults,
        epochs=epochs,
        evictions=sum(row["evictions"] for row in evicted),
        thrash=find_thrash(recorded, turns),
        questions=count_questions(recorded),
        effective=measure_session(recorded),
        refused=list_refused(history),
        paging=await _forecast_paging(archive, stream, history),
        repetitions=(await observe_history(archive, stream, history)).repetitions,
        passed=savings.find_passed(turns, budget),
    )


def list_refused(history: History) -> list[RefusedAttempt]:
    """The attempts of a session that the provider refused."""
    return [
        RefusedAttempt(each.began.branch, each.began.turn, each.began.attempt, ended.status, ended.error_type)
        for each in history.attempts
        if isinstance(ended := each.ended, TurnFinished) and (ended.status != 200 or ended.error_type is not None)
    ]


async def _forecast_paging(archive: Archive, stream: UUID, history: History) -> PagingForecast | None:
    longest = max(history.lines.values(), key=lambda line: line.last, default=None)
    if longest is None or not longest.last:
        return None
    try:
        rebuilt = await contexts.rebuild(archive, stream, history, history.turn(longest.name, longest.last)[-1])
    except (ContentForgotten, LogFailed):
        return None
    read = transcript.read(rebuilt.body, conversation=longest.opened.lane).transcript
    contents = (content_blocks(read.message(number).get("content")) for number in range(len(read.messages)))
    blocks = (block for content in contents for block in content)
    return forecast_paging(read, {str(block.get("name")) for block in blocks if is_call(block)})


def count_questions(recorded: Sequence[Recorded[Event]]) -> Questions:
    """The number of questions answered from memory, and of those answered sufficiently."""
    faults = [each.envelope.event for each in recorded if isinstance(each.envelope.event, ObjectFaulted)]
    later: dict[tuple[str, str], list[int]] = {}
    quoted: dict[tuple[str, int, str], set[str]] = {}
    for each in faults:
        if each.kind is FaultKind.MICRO:
            quoted.setdefault((each.branch, each.turn, each.reason), set()).add(each.object)
        else:
            later.setdefault((each.branch, each.object), []).append(each.turn)
    failed = sum(
        any(turn <= again <= turn + ENOUGH_TURNS for each in objects for again in later.get((branch, each), ()))
        for (branch, turn, _), objects in quoted.items()
    )
    return Questions(len(quoted), len(quoted) - failed)


def find_thrash(recorded: Sequence[Recorded[Event]], turns: Sequence[Row]) -> ThrashIndex | None:
    """The thrash index of a session; None without faults, or if a part of its log was lost."""
    events = [each.envelope.event for each in recorded]
    faults = [event for event in events if isinstance(event, ObjectFaulted)]
    missed = {fault.object for fault in faults}
    made = [event for event in events if isinstance(event, ObjectCreated) and event.object in missed]
    known = reduce(memory.evolve, made, memory.Memory())
    if not faults or not missed <= known.objects.keys():
        return None

    def index(branch: str, turn: int) -> float:
        return thrash(faults, known, branch, turn)

    places = sorted({(fault.branch, fault.turn) for fault in faults})
    branch, turn = max(places, key=lambda place: index(*place))
    last = max([turn, *(row["turn"] for row in turns if row["branch"] == branch)])
    return ThrashIndex(worst=index(branch, turn), branch=branch, turn=turn, last=index(branch, last))
