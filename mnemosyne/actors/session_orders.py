"""Orders of a session from the helper model. No turn waits for them."""

from collections.abc import Iterable, Sequence
from itertools import islice

import attrs

from mnemosyne.actors.helper_work import HelperQueue, HelperRequest
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.owners import MemoryClient
from mnemosyne.domain.helper import ordering
from mnemosyne.domain.helper.audit import order_audit
from mnemosyne.domain.helper.background import HelperOrder
from mnemosyne.domain.helper.facts import order_facts
from mnemosyne.domain.helper.goal import order_goal
from mnemosyne.domain.helper.session_summary import order_summary
from mnemosyne.domain.helper.utility import BATCH
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.prompts import SubmittedPrompt, read_prompt
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Command, Summarize
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.segmentation.authors import find_prompt, read_typed
from mnemosyne.domain.session.events import BranchKind, TurnBegan
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.text.parts import PartRole
from mnemosyne.domain.window.predictions import PREDICTING
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.blocks import text_of, type_of
from mnemosyne.domain.wire.project import project_of_transcript
from mnemosyne.domain.wire.transcript import Transcript


@attrs.frozen(kw_only=True)
class LearnContext:
    """The owner and the place of new facts and summaries: the ``clients`` of a session so far and its folder. ``at`` is
    the time of the order, in µs of UTC; ``prompt`` is the source of facts.
    """

    at: int
    clients: frozenset[MemoryClient]
    folder: str | None
    prompt: SubmittedPrompt | None = None


class SessionOrders:
    """The orders of one session, put into the ``queue`` of its process."""

    def __init__(self, loaded: Loaded, queue: HelperQueue) -> None:
        self._loaded = loaded
        self._queue = queue
        self._ordered: set[tuple[str, str]] = set()
        """Task and subject of the orders about objects."""
        self._summarized: tuple[str, int] | None = None
        self._context = LearnContext(at=0, clients=frozenset(), folder=None)
        self._scored = 0
        """Number of objects whose utility was considered."""

    @property
    def _state(self) -> Session:
        return self._loaded.state

    def note_request(self, began: TurnBegan, read: Transcript, client: MemoryClient, ticket: Ticket) -> None:
        """Order the work for a recorded request: the facts of a prompt that the user submitted, the goal of a
        managed branch, and the summary of a window that its client has compacted.
        """
        branch = self._state.branches[began.branch]
        is_new = began.attempt == 1 and began.turn == branch.turns and began.opaque is None
        if not is_new or not branch.is_interactive:
            return
        folder = project_of_transcript(read) or self._context.folder
        self._context = LearnContext(at=began.at, clients=self._context.clients | {client}, folder=folder)
        if began.submitted is not None:
            source = Provenance(session=self._loaded.identity.stream, branch=branch.name, turn=began.turn)
            prompt = read_prompt(read, began.submitted, source)
            context = attrs.evolve(self._context, prompt=prompt)
            text, answered = (prompt.text, prompt.answered) if prompt else ("", "")
            stored = recipe.decode(began.body).digests[-1:]
            for order in order_facts(text, branch.name, began.turn, context, answered, stored):
                self._put(order, ticket)
        if branch.mode is Mode.MANAGE and not read.fields.has_output_format:
            self._order_goal(branch, began, read, ticket)
        if branch.kind is BranchKind.SUCCESSOR and began.turn == 1 and branch.parent is not None:
            self._summarize(self._state.branches[branch.parent], ticket)

    def _order_goal(self, branch: Branch, began: TurnBegan, read: Transcript, ticket: Ticket) -> None:
        prompt = find_prompt(read)
        if prompt is not None and prompt[0] >= began.kept:
            memory, taken = self._state.memory, self._state.find_taken(branch.name)
            predicts = taken is None or taken.restores in PREDICTING
            asked = (memory, branch.name, began.turn, prompt[1], branch.goal, read.dialect)
            self._put(order_goal(*asked, predicts=predicts), ticket)

    def pause(self, ticket: Ticket) -> None:
        """Order what waits until a session is idle: its summary, if it has changed since the last one, and the utility
        of new objects.
        """
        branches = [each for each in self._state.branches.values() if each.is_interactive and each.turns]
        if branches and not self._state.running:
            self._summarize(max(branches, key=lambda each: each.body_version), ticket)
            self._score(ticket)

    def _summarize(self, branch: Branch, ticket: Ticket) -> None:
        known, now = self._state.summary, (branch.name, branch.turns)
        if self._summarized != now and (known is None or (known.branch, known.turn) != now):
            self._summarized = now
            self._put(order_summary(self._state, branch, self._list_last(branch), self._context), ticket)

    def _list_last(self, branch: Branch) -> list[tuple[PartRole, str]]:
        """The texts of user and agent behind the last object of a branch, if its request is in memory."""
        read = self._loaded.bodies.find_held(branch)
        first = self._state.memory.view_of(branch.name).known.open
        texts = list[tuple[PartRole, str]]()
        for number in range(first, len(read.messages) if read is not None else 0):
            assert read is not None
            role, content = read.messages[number].role, read.blocks(number)
            if role == "assistant":
                texts += [(PartRole.ASSISTANT, text_of(block)) for block in content if type_of(block) == "text"]
            elif typed := read_typed(role, content):
                texts.append((PartRole.USER, typed))
        return texts

    def note_leaving(self, leaving: Sequence[tuple[MemoryObject, Fidelity]], ticket: Ticket) -> None:
        """Order the short forms of objects that will soon be shown in such a form."""
        self._put_once(ordering.order_leaving(leaving, self._loaded.state.memory), ticket, ordering.MOST_AHEAD)

    def note_rewrite(self, branch: str, ticket: Ticket) -> None:
        """Order the next shorter forms of objects of which a rewrite shows a short form."""
        self._put_once(ordering.order_shorter(self._loaded.state.memory, branch), ticket)

    def _score(self, ticket: Ticket) -> None:
        """Order the utility of new objects of a managed session, as soon as there are enough."""
        new = list(self._state.memory.objects.values())[self._scored :]
        if len(new) >= BATCH and any(branch.mode is Mode.MANAGE for branch in self._state.branches.values()):
            self._scored += len(new)
            self._put_once(ordering.order_scores(new), ticket)

    def note_made(self, commands: Iterable[Command], ticket: Ticket) -> None:
        """Order the audit of some of the short forms that a helper has made."""
        objects = self._loaded.state.memory.objects
        made = (each for each in commands if isinstance(each, Summarize) and each.object in objects)
        orders = (order_audit(objects[each.object], each) for each in made)
        self._put_once((each for each in orders if each is not None), ticket)

    def _put_once(self, orders: Iterable[HelperOrder], ticket: Ticket, most: int | None = None) -> None:
        new = (each for each in orders if (each.task, each.subject) not in self._ordered)
        for order in islice(new, most):
            self._ordered.add((order.task, order.subject))
            self._put(order, ticket)

    def _put(self, order: HelperOrder, ticket: Ticket) -> None:
        generation = self._state.memory.generation
        self._queue.put(HelperRequest(self._loaded.identity, order, generation=generation), ticket)
