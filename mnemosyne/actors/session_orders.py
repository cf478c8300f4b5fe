"""Orders of a session from the helper model about its prompts. No turn waits for them."""

from mnemosyne.actors.helper_work import HelperQueue, HelperRequest
from mnemosyne.actors.loaded import Loaded
from mnemosyne.domain.helper.background import HelperOrder
from mnemosyne.domain.helper.goal import order_goal
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.segmentation.authors import find_prompt
from mnemosyne.domain.session.events import BranchKind, TurnBegan
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.transcript import Transcript

_TALKED_TO = frozenset({BranchKind.MAIN, BranchKind.SUCCESSOR, BranchKind.FORK})


class SessionOrders:
    """The orders of one session, put into the ``queue`` of its process."""

    def __init__(self, loaded: Loaded, queue: HelperQueue) -> None:
        self._loaded = loaded
        self._queue = queue

    def note_request(self, began: TurnBegan, read: Transcript, ticket: Ticket) -> None:
        """Order what a recorded request calls for: the goal of a managed branch, if it brings a prompt of the user."""
        branch = self._loaded.state.branches[began.branch]
        if branch.kind not in _TALKED_TO or began.attempt > 1 or began.turn < branch.turns or began.opaque is not None:
            return
        if branch.mode is Mode.MANAGE and not read.fields.has_output_format:
            prompt = find_prompt(read)
            if prompt is not None and prompt[0] >= began.kept:
                memory = self._loaded.state.memory
                self._put(order_goal(memory, branch.name, began.turn, prompt[1], branch.goal, read.dialect), ticket)

    def _put(self, order: HelperOrder, ticket: Ticket) -> None:
        self._queue.put(HelperRequest(self._loaded.identity, order), ticket)
