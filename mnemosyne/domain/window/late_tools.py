"""Late memory tools: whether they join a conversation that was only observed so far because they were too expensive.

If the provider takes tools behind the cached head (``wire.tools_behind``), they are added with the first epoch, which
writes everything behind the head anyway. Otherwise they precede everything that is cached of the conversation, and are
added when the cache is empty, as after a break or without cache markers, or together with an epoch that pays for them
(``planning.plan_epoch``). Earlier thinking is then dropped, because it was signed for a prompt without the tools.
"""

import attrs

from mnemosyne.domain.session.decide import SetMode, decide
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Session, evolve_all
from mnemosyne.domain.window import rounds
from mnemosyne.domain.window.epochs import may_drop_thinking
from mnemosyne.domain.window.planning import RULE
from mnemosyne.domain.window.rounds import Opening
from mnemosyne.domain.window.situation import PendingRequest, Sizes
from mnemosyne.domain.wire.markers import asks_for_an_hour

WITH_AN_EPOCH = "content is evicted, and the memory tools are added behind the cached head"
LARGE_ENOUGH = "the memory tools cost next to nothing from here on"


@attrs.frozen(kw_only=True)
class LateTools:
    """Memory tools that may be added with a request: the ``command`` that records it, the ``asked`` request for the
    planner, and the ``session`` for which the planner decides.
    """

    command: SetMode
    session: Session
    asked: PendingRequest

    @property
    def are_free(self) -> bool:
        """Whether they are added independently of the planner."""
        return self.asked.forgotten and not self.command.behind


def find(opening: Opening, sizes: Sizes) -> LateTools | None:
    """The tools that may be added with this request; None if its branch does not wait for any, or has to wait
    longer.
    """
    if not (_waits(opening) and may_drop_thinking(opening.read)):
        return None
    if rounds.obstacle_in(opening.read) or rounds.why_too_expensive(opening):
        return None
    behind = opening.branch.behind
    prompt, tools = (0, 0) if behind else rounds.count_with_tools(opening, sizes)
    if prompt + tools > RULE.margin * prompt:
        return None
    command = rounds.set_mode(opening, Mode.MANAGE, WITH_AN_EPOCH if behind else LARGE_ENOUGH, late=True)
    return LateTools(command=command, session=_session(opening, command), asked=_ask(opening))


def _waits(opening: Opening) -> bool:
    branch, wanted = opening.branch, opening.asked or opening.default
    waits = branch.late and branch.mode is Mode.OBSERVE and branch.kind is not BranchKind.COMPACTION
    return waits and wanted is Mode.MANAGE and opening.is_last and opening.began.attempt == 1


def _session(opening: Opening, command: SetMode) -> Session:
    """The session in managed mode; its last request counts as sent when the client sent it."""
    session = evolve_all(opening.session, decide(command, opening.session))
    branch = session.branches[command.branch]
    assert branch.wire is not None
    wire = attrs.evolve(branch.wire, at=opening.last.at if opening.last is not None else 0)
    return attrs.evolve(session, branches={**session.branches, branch.name: attrs.evolve(branch, wire=wire)})


def _ask(opening: Opening) -> PendingRequest:
    history = opening.fresh_history
    kept = min(opening.began.kept, len(history.ends))
    sent = history.ends[kept - 1] if kept else 0
    return PendingRequest(
        at=opening.at,
        branch=opening.began.branch,
        turn=opening.began.turn,
        read=opening.read,
        before=attrs.evolve(history, messages=history.messages[:sent], ends=history.ends[:kept], epoch=0),
        history=history,
        settings=opening.settings,
        tariff=rounds.tariff_of(opening),
        joins=True,
        behind=opening.branch.behind,
        forgotten=_is_forgotten(opening),
    )


def _is_forgotten(opening: Opening) -> bool:
    """Whether the provider has cached nothing of the earlier prompts: the model changed, nothing is cached, or the
    entry expired.
    """
    read, last, tariff = opening.read, opening.last, rounds.tariff_of(opening)
    if last is None or last.model != opening.began.model or not rounds.is_remembered(read, tariff):
        return True
    return opening.at - last.at >= tariff.life(hour=asks_for_an_hour(read))
