"""Whether the memory tools come into a conversation that was observed so far, because they would have cost too much.

They stand in front of all that the provider's cache holds of it. So they come where that holds nothing, as is the case
after a break, or without cache markers; or with an epoch that pays for them (``planning.plan_epoch``). The thinking of
before is left out then: it was signed against a prompt without them.
"""

import attrs

from mnemosyne.domain.session.decide import SetMode, decide
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Session, evolve_all
from mnemosyne.domain.window import rounds, upstream_history
from mnemosyne.domain.window.epochs import may_drop_thinking
from mnemosyne.domain.window.planning import RULE
from mnemosyne.domain.window.rounds import Opening
from mnemosyne.domain.window.situation import PendingRequest
from mnemosyne.domain.wire.markers import asks_for_an_hour

LARGE_ENOUGH = "the memory tools cost next to nothing from here on"


@attrs.frozen(kw_only=True)
class LateTools:
    """The memory tools would come with a request: the ``command`` that says so, what is ``asked`` of the planner, and
    the ``session`` as it asks.
    """

    command: SetMode
    session: Session
    asked: PendingRequest

    @property
    def are_free(self) -> bool:
        """Whether they come whatever the planner says."""
        return self.asked.forgotten


def find(opening: Opening, settings: ServerSettings) -> LateTools | None:
    """The tools that may come with this request; None where its branch does not wait for any, or waits on."""
    if not (_waits(opening) and may_drop_thinking(opening.read)):
        return None
    prompt, tools = rounds.count_with_tools(opening)
    if prompt + tools > RULE.margin * prompt:
        return None
    if rounds.obstacle_in(opening.read) or rounds.why_too_dear(opening, settings):
        return None
    command = rounds.set_mode(opening, settings, Mode.MANAGE, LARGE_ENOUGH, late=True)
    return LateTools(command=command, session=_session(opening, command), asked=_ask(opening, settings))


def _waits(opening: Opening) -> bool:
    branch, wanted = opening.branch, opening.wanted or opening.default
    waits = branch.late and branch.mode is Mode.OBSERVE and branch.kind is not BranchKind.COMPACTION
    asks = wanted is Mode.MANAGE and not opening.session.off
    return waits and asks and opening.is_last and opening.began.attempt == 1


def _session(opening: Opening, command: SetMode) -> Session:
    """The session once it is managed, whose last request was sent when its client sent it."""
    session = evolve_all(opening.session, decide(command, opening.session))
    branch = session.branches[command.branch]
    assert branch.wire is not None
    wire = attrs.evolve(branch.wire, at=opening.last.at if opening.last is not None else 0)
    return attrs.evolve(session, branches={**session.branches, branch.name: attrs.evolve(branch, wire=wire)})


def _ask(opening: Opening, settings: ServerSettings) -> PendingRequest:
    history = upstream_history.first(opening.client(), dialect=opening.read.dialect)
    kept = min(opening.began.kept, len(history.ends))
    sent = history.ends[kept - 1] if kept else 0
    return PendingRequest(
        at=opening.at,
        branch=opening.began.branch,
        turn=opening.began.turn,
        read=opening.read,
        before=attrs.evolve(history, messages=history.messages[:sent], ends=history.ends[:kept], epoch=0),
        history=history,
        window=settings.window,
        tariff=rounds.tariff_of(opening, settings),
        joins=True,
        forgotten=_is_forgotten(opening, settings),
    )


def _is_forgotten(opening: Opening, settings: ServerSettings) -> bool:
    """Whether the provider's cache holds nothing of what was sent before: another model reads it, nothing is to be
    remembered, or its time is over.
    """
    read, last, tariff = opening.read, opening.last, rounds.tariff_of(opening, settings)
    if last is None or last.model != opening.began.model or not rounds.is_remembered(read, tariff):
        return True
    return opening.at - last.at >= tariff.life(hour=asks_for_an_hour(read))
