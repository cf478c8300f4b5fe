"""Whether a branch is managed: decided at its first request, and ended where it has to be."""

from mnemosyne.actors.messages import Begin
from mnemosyne.domain import memory_tools
from mnemosyne.domain.epochs import may_drop_thinking
from mnemosyne.domain.ledger import why_to_stop
from mnemosyne.domain.round_events import BranchModeSet, Mode
from mnemosyne.domain.session import BranchOpened, Kind, Session, TurnBegan
from mnemosyne.domain.transcript import Transcript

MANAGEABLE = frozenset({Kind.MAIN, Kind.AGENT, Kind.SUCCESSOR})


def mode_of(
    message: Begin, opened: BranchOpened | None, began: TurnBegan, read: Transcript, session: Session
) -> tuple[BranchModeSet | None, Mode]:
    """The branch's mode, and the event that says so where this request decides it."""
    assert message.offer is not None
    mode = session.branches[began.branch].mode

    def decided(mode: Mode, why: str) -> tuple[BranchModeSet, Mode]:
        return BranchModeSet(at=message.at, branch=began.branch, mode=mode, why=why), mode

    if opened is not None and not opened.inherits:
        if message.offer.mode is not Mode.MANAGE:
            return None, Mode.OBSERVE
        obstacle = _obstacle(opened.kind, read) or why_to_stop(session.ledger)
        return decided(Mode.OBSERVE, obstacle) if obstacle else decided(Mode.MANAGE, "it was asked for")
    if mode is Mode.MANAGE and may_drop_thinking(read):
        if message.offer.mode is Mode.BYPASS:
            return decided(Mode.BYPASS, "it was asked for")
        if memory_tools.collides(read.fields.tool_names):
            return decided(Mode.BYPASS, "the client has a tool of its own with the name of a memory tool")
        if why := why_to_stop(session.ledger):
            return decided(Mode.BYPASS, why)
    return None, mode


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
