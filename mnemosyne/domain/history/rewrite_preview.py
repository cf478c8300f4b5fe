"""Preview the planner's decision before the next request of an observed branch.

Nothing is recorded. The caller runs the real planner on the client's last history, with an account in which the session
cost as much as an unmanaged one, because it was unmanaged.
"""

from collections.abc import Mapping

import attrs

from mnemosyne.domain.history.memory_travel import MemorySnapshot
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.ledger import count_observed
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.session.state import Session, Wire
from mnemosyne.domain.window import epochs, rounds, upstream_history
from mnemosyne.domain.window.epochs import Decision, Forms
from mnemosyne.domain.window.planning import NoRewrite, tokens_saved_by
from mnemosyne.domain.window.situation import PendingRequest, Sizes, candidates_of
from mnemosyne.domain.wire.transcript import Transcript


@attrs.frozen(kw_only=True)
class PlannedRewrite:
    """An epoch that would begin: its event, the objects whose fidelity it would lower, and the estimated tokens that
    each of these would free.
    """

    began: EpochBegan
    changes: tuple[ObjectDegraded, ...]
    freed: Mapping[str, int]

    @property
    def fidelities(self) -> Mapping[str, Fidelity]:
        """The new fidelity of each of these objects."""
        return {each.object: each.after for each in self.changes}


def next_request(found: MemorySnapshot, read: Transcript, at: int, settings: ServerSettings) -> PendingRequest:
    """The request after a snapshot, at the time ``at``: equal to the last one, ``read``, since its new content is
    unknown. ``settings`` are those of a server that would manage it.
    """
    history = upstream_history.verbatim(read.list_elements(), read.dialect)
    return PendingRequest(
        at=at,
        branch=found.branch,
        turn=found.turn + 1,
        read=read,
        before=history,
        history=history,
        settings=settings,
        tariff=rounds.find_tariff(found.session.branches[found.branch].client_headers, read, settings),
    )


def assume_managed(found: MemorySnapshot, asked: PendingRequest) -> Session:
    """The session of a snapshot as if the branch had been managed from the start and never rewritten."""
    session = found.session
    branch = session.branches[found.branch]
    sent = Wire(
        epoch=asked.history.epoch,
        ends=asked.history.ends,
        body=branch.body,
        body_version=branch.body_version,
        at=found.began.at,
    )
    return attrs.evolve(
        session,
        branches={**session.branches, branch.name: attrs.evolve(branch, wire=sent)},
        ledger=count_observed(session.ledger),
    )


def preview(
    decision: Decision, asked: PendingRequest, session: Session, forms: Forms, sizes: Sizes
) -> PlannedRewrite | NoRewrite:
    """The result of a decision. Nothing is stored, not even the ``forms`` made for it."""
    rewritten = epochs.rewrite(decision, asked, session, forms, sizes)
    if rewritten is None:
        return NoRewrite("a rewrite would free nothing")
    (began,) = (each for each in rewritten.events if isinstance(each, EpochBegan))
    lowered = tuple(each for each in rewritten.events if isinstance(each, ObjectDegraded))
    after = {each.object: each.after for each in lowered}
    freed = {
        each.key: tokens_saved_by(each, after[each.key])
        for each in candidates_of(asked, session, sizes)
        if each.key in after
    }
    return PlannedRewrite(began=began, changes=lowered, freed=freed)
