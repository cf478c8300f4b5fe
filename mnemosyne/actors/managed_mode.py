"""Whether a branch is managed: decided with its first turn, and ended where it has to be."""

from mnemosyne.actors.messages import Begin
from mnemosyne.domain.session.events import Kind, TurnBegan
from mnemosyne.domain.session.ledger import why_to_stop
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window.epochs import may_drop_thinking
from mnemosyne.domain.wire.transcript import Transcript

MANAGEABLE = frozenset({Kind.MAIN, Kind.AGENT, Kind.SUCCESSOR})


def mode_of(
    message: Begin,
    began: TurnBegan,
    read: Transcript,
    session: Session,
    tool_budget: int | None,
) -> tuple[BranchModeSet | None, Mode]:
    """The branch's mode, and the event that says so where this request decides it. A branch that is to be managed has
    this ``tool_budget`` for good: its tools stay what they are whatever a later server is told.
    """
    assert message.offer is not None
    branch = session.branches[began.branch]
    mode = branch.mode

    def decided(mode: Mode, why: str) -> tuple[BranchModeSet, Mode]:
        budget = tool_budget if mode is Mode.MANAGE else None
        return BranchModeSet(at=message.at, branch=began.branch, mode=mode, why=why, tool_budget=budget), mode

    if begins_branch(branch, began):
        if message.offer.mode is not Mode.MANAGE:
            return None, Mode.OBSERVE
        obstacle = _obstacle(branch.kind, read) or why_to_stop(session.ledger)
        return decided(Mode.OBSERVE, obstacle) if obstacle else decided(Mode.MANAGE, "it was asked for")
    if mode is Mode.MANAGE and may_drop_thinking(read):
        if message.offer.mode is not Mode.MANAGE:  # who asks to observe would have thinking sent that fits elsewhere
            return decided(Mode.BYPASS, "it was asked for")
        if memory_tools.collides(read.fields.tool_names):
            return decided(Mode.BYPASS, "the client has a tool of its own with the name of a memory tool")
        if why := why_to_stop(session.ledger):
            return decided(Mode.BYPASS, why)
    return None, mode


def begins_branch(branch: Branch, began: TurnBegan) -> bool:
    """Whether the branch's mode is decided with this turn: it is the first of a branch that goes on with no other, and
    none was decided. An attempt before may have been recorded and never sent, because another process had just written.
    """
    return began.turn == 1 and not branch.inherits and not branch.decided


def _obstacle(kind: Kind, read: Transcript) -> str:
    """Why a branch that begins with this request is not managed; empty if it is."""
    if kind not in MANAGEABLE or read.opaque is not None:
        return "it is not a conversation of an agent with tools"
    if not read.fields.has_tools:
        return "its client offers no tools"
    if read.fields.has_thread or read.fields.has_container:
        return "the provider holds a part of it"
    if memory_tools.collides(read.fields.tool_names):
        return "its client has a tool of its own with the name of a memory tool"
    if kind is not Kind.SUCCESSOR and any(message.role == "assistant" for message in read.messages):
        return "its history began without us"
    return ""
