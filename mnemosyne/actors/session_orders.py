"""Orders of a session from the helper model. No turn waits for them."""

from collections.abc import Iterable, Sequence
from itertools import islice

from mnemosyne.actors.helper_work import HelperQueue, HelperRequest
from mnemosyne.actors.loaded import Loaded
from mnemosyne.domain.helper import ordering
from mnemosyne.domain.helper.background import HelperOrder
from mnemosyne.domain.helper.goal import order_goal
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity
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
        self._ordered: set[tuple[str, str]] = set()
        """Task and subject of the orders about objects."""

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

    def note_leaving(self, leaving: Sequence[tuple[MemoryObject, Fidelity]], ticket: Ticket) -> None:
        """Order the short forms of objects that will soon be shown in such a form."""
        self._put_once(ordering.order_leaving(leaving, self._loaded.state.memory), ticket, ordering.MOST_AHEAD)

    def note_rewrite(self, branch: str, ticket: Ticket) -> None:
        """Order the next shorter forms of objects of which a rewrite shows a short form."""
        self._put_once(ordering.order_shorter(self._loaded.state.memory, branch), ticket)

    def _put_once(self, orders: Iterable[HelperOrder], ticket: Ticket, most: int | None = None) -> None:
        new = (each for each in orders if (each.task, each.subject) not in self._ordered)
        for order in islice(new, most):
            self._ordered.add((order.task, order.subject))
            self._put(order, ticket)

    def _put(self, order: HelperOrder, ticket: Ticket) -> None:
        self._queue.put(HelperRequest(self._loaded.identity, order), ticket)
