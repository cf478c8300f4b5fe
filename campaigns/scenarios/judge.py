r"""The judge of all scenarios: checks the provider's requests, the client's replies and the record.

It receives each request of a client after its end, with the provider's exchanges for it. Each fault is a sentence; a
scenario without faults passes.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

import attrs

from campaigns.scenarios.spoken import (
    BILLING,
    MEMORY_TOOLS,
    THINKING,
    Json,
    ReadReply,
    Spoken,
    attachments_in,
    blocks_of,
    frame_of,
    is_hidden,
    messages_of,
    prompt_of,
    spoken_at,
)
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import BranchKind, BranchOpened, Event, TurnBegan
from mnemosyne.domain.session.round_events import BranchModeSet, FallbackSent, Mode, RoundBegan
from mnemosyne.services import contexts, verifying, windows
from mnemosyne.services.sessions import Archive
from mnemosyne_lab.provider.server import HttpExchange, Standin
from tests.http.managing import bare

# The rules for a request to the provider that need a comparison with the client's own request, written from the API's
# documentation. The strict scripted provider checks single requests and signatures; its violations are faults, too.

OURS_TO_CHANGE = ("messages", "tools", "system")


@attrs.define
class ProviderOutput:
    """All blocks of the provider's output so far, as JSON."""

    blocks: set[str] = attrs.field(factory=set)

    def add(self, content: list[Json]) -> None:
        self.blocks |= {json.dumps(block, sort_keys=True) for block in content}

    def holds(self, block: Json) -> bool:
        said = bare(block)
        if block.get("input", {}).keys() == {"INVALID_JSON"}:  # how the API takes invalid JSON
            said["input"] = block["input"]["INVALID_JSON"]
        return json.dumps(said, sort_keys=True) in self.blocks


def faults_of(body: Json, client: Json, said: ProviderOutput) -> Iterator[str]:
    """The faults of a request, compared with the client's request and all output of the provider."""
    yield from _frame(body, client)
    yield from _kept(body, client, said)


def _frame(body: Json, client: Json) -> Iterator[str]:
    """Everything except the history."""
    for key in sorted({*body, *client} - {*OURS_TO_CHANGE}):
        if body.get(key) != client.get(key):
            yield f"the client's {key} was changed"
    if bare(body.get("system")) not in _as_sent(bare(client.get("system"))):
        yield "the system prompt was changed"
    names = [tool.get("name") for tool in body.get("tools", [])]
    own = bare(client.get("tools", []))
    if bare(body.get("tools", []))[: len(own)] != own:
        yield "the client's tools were changed"
    if {*names[len(own) :]} - MEMORY_TOOLS:
        yield f"tools of neither the client nor the proxy: {names[len(own) :]}"
    if not own and names:
        yield "tools where the client has none"


def _as_sent(system: Any) -> list[Any]:
    """How a system prompt may be sent: unchanged, or without its billing entry to a provider other than Claude
    Code's own.
    """
    is_billed = isinstance(system, list) and len(system) > 1 and system[0]["text"].startswith(BILLING)
    return [system, system[1:]] if is_billed else [system]


def _kept(body: Json, client: Json, said: ProviderOutput) -> Iterator[str]:
    """The parts that never change: new messages, signed and encrypted blocks, attachments, operator text."""
    own = [block for message in messages_of(client) for block in message["content"]]
    known = [json.dumps(bare(block), sort_keys=True) for block in own]
    attached = [json.dumps(each, sort_keys=True) for each in attachments_in(own)]
    for message in messages_of(body):
        for block in message["content"]:
            kind = str(block["type"])
            if kind in THINKING and not said.holds(block):
                yield f"thinking that the provider never sent: {json.dumps(block)[:120]}"
            elif kind.startswith(("server_", "mcp_")) or kind.endswith("_tool_result") or kind == "fallback":
                if not said.holds(block) and json.dumps(bare(block), sort_keys=True) not in known:
                    yield f"a block from the provider was changed: {json.dumps(block)[:120]}"
            elif kind == "tool_use" and is_hidden(block) and not said.holds(block):
                yield f"a hidden call that the model never made: {json.dumps(block)[:120]}"
        for each in attachments_in(message["content"]):
            if json.dumps(each, sort_keys=True) not in attached:
                yield f"an attachment was changed: {json.dumps(each)[:120]}"
    sent = [json.dumps(bare(block), sort_keys=True) for message in messages_of(body) for block in message["content"]]
    for message in messages_of(client):
        operators = [
            block
            for block in message["content"]
            if message["role"] == "system" or block.get("text", "").startswith("<system-reminder>")
        ]
        for block in operators:
            if json.dumps(bare(block), sort_keys=True) not in sent:
                yield f"operator text is missing: {json.dumps(block)[:120]}"
    if client["messages"][-1]["role"] == "user":
        for block in blocks_of(client["messages"][-1]["content"]):
            if json.dumps(bare(block), sort_keys=True) not in sent:
                yield f"a new block was not sent unchanged: {json.dumps(block)[:120]}"


# The judge

NOTHING_TO_SAY: Json = {"type": "text", "text": "(no content)"}
"""The text that a client may get after a reply that shows nothing; Claude Code itself writes it."""

TRACES = (b"nemosyne", *(name.encode() for name in MEMORY_TOOLS), b"memory_cleanup")
"""Traces that no client may see; an error of the proxy may contain the first (``OUR_ERRORS``)."""

OUR_ERRORS = (500, 502)
"""Statuses of the proxy's own errors if the provider is unreachable."""

UNTOLD = (BranchKind.COMPACTION, BranchKind.SIDE)
"""Branches without memory, which cannot be explained."""


@attrs.frozen(kw_only=True)
class JudgedRequest:
    """A client request, its end for the client, and the provider's exchanges."""

    spoken: Spoken
    body: Json
    """As the Messages API has it."""
    reply: ReadReply | None
    """None if the client left."""
    rounds: tuple[HttpExchange, ...]
    frame: str
    history: tuple[str, ...]
    """The messages, without markers."""

    @classmethod
    def of(
        cls, spoken: Spoken, body: bytes, reply: ReadReply | None, rounds: tuple[HttpExchange, ...]
    ) -> "JudgedRequest":
        asked = spoken.asked(json.loads(body))
        frame = json.dumps(frame_of(asked))
        history = tuple(map(_normal, messages_of(asked)))
        return cls(spoken=spoken, body=asked, reply=reply, rounds=rounds, frame=frame, history=history)

    def goes_on_from(self, before: "JudgedRequest") -> bool:
        """Whether the history continues an earlier request, without a word changed by its client."""
        length = len(before.history)
        if self.frame != before.frame or self.history[:length] != before.history:
            return False
        if len(self.history) == length:
            return True
        shown = before.reply.content if before.reply is not None and before.reply.ended else []
        return self.history[length] == _normal({"role": "assistant", "content": self.spoken.kept(shown)})


def _normal(message: Json) -> str:
    return json.dumps(bare(message), sort_keys=True)


@attrs.define
class Judge:
    standin: Standin
    faults: list[str] = attrs.field(factory=list)
    _judged: list[JudgedRequest] = attrs.field(factory=list)
    _breaks: list[tuple[bytes, bytes]] = attrs.field(factory=list)
    _said: ProviderOutput = attrs.field(factory=ProviderOutput)
    _first: int = 0
    _violations: int = 0
    _requests: int = 0

    def __attrs_post_init__(self) -> None:
        self._first, self._violations = len(self.standin.exchanges), len(self.standin.violations)

    # Request by request

    def observe(
        self,
        spoken: Spoken,
        body: bytes,
        reply: ReadReply | None,
        raw: bytes,
        headers: Sequence[tuple[bytes, bytes]],
        naming: Json,
    ) -> None:
        """Judge a finished request; ``naming`` are the headers that identify the provider's exchanges for it."""
        self._requests += 1
        rounds = tuple(each for each in self._new() if all(each.header(key) == naming[key] for key in naming))
        for each in rounds:
            each.rule = f"{each.rule}; judged"
            self._said.add([bare(block) for block in _read(each).content])
        request = JudgedRequest.of(spoken, body, reply, rounds)
        for fault in (*self._upstream(request), *self._prefixes(request), *self._shown(request, raw, headers)):
            self.faults.append(f"request {self._requests}: {fault}")
        changed = self._changes_frame(request)
        self._judged.append(request)
        for noted in self.standin.violations[self._violations :]:
            self._violations += 1
            # A change of tools or system prompt breaks signatures even without the proxy; this checks only the
            # proxy's part.
            if noted.violation.rule != "R10" and not (noted.violation.rule == "signature" and changed):
                self.faults.append(f"request {self._requests}: {noted.violation.rule} {noted.violation.message}")

    @property
    def rewrites(self) -> int:
        """How often a request upstream did not continue the previous one although the client's did."""
        return len(self._breaks)

    def waiting(self) -> int:
        """The number of provider exchanges that belong to no judged request."""
        return len(list(self._new()))

    def _changes_frame(self, request: JudgedRequest) -> bool:
        """Whether the client continues with another system prompt or other tools."""
        before = [each for each in self._judged if request.history[: len(each.history)] == each.history]
        return bool(before) and max(before, key=lambda each: len(each.history)).frame != request.frame

    def _new(self) -> Iterator[HttpExchange]:
        for each in self.standin.exchanges[self._first :]:
            if spoken_at(each.target) is not None and each.body and not each.rule.endswith("judged"):
                yield each

    def _upstream(self, request: JudgedRequest) -> Iterator[str]:
        if not request.rounds:
            yield "nothing left for the provider"
        for number, each in enumerate(request.rounds, 1):
            for fault in faults_of(_asked(each), request.body, self._said):
                yield f"round {number}: {fault}"

    def _prefixes(self, request: JudgedRequest) -> Iterator[str]:
        if not request.rounds:
            return
        bodies = [_asked(each) for each in request.rounds]
        for one, other in itertools.pairwise(request.rounds):
            if one.status != 400 and not _begins_with(_asked(other), _asked(one)):
                yield "a later round does not begin with the one before"
        nearest = max(
            (each for each in self._judged if each.rounds and request.goes_on_from(each)),
            key=lambda each: len(each.history),
            default=None,
        )
        if nearest is None:
            return
        repeated = len(nearest.history) == len(request.history)
        before = nearest.rounds[0] if repeated else nearest.rounds[-1]
        if not _begins_with(bodies[0], _asked(before)):
            self._breaks.append((before.body, request.rounds[0].body))

    def _shown(self, request: JudgedRequest, raw: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Iterator[str]:
        ours = request.reply is not None and request.reply.status in OUR_ERRORS
        for trace in TRACES[ours:]:
            if trace in raw:
                yield f"the client sees {trace!r}"
        names = [name.lower() for name, _ in headers]
        if any(b"mnemosyne" in name for name in names):
            yield f"the client sees a header of ours: {names}"
        reply = request.reply
        if reply is None or not request.rounds:
            return
        yield from reply.faults
        rounds = [_read(each) for each in request.rounds]
        whole = [each for each in rounds if each.ended]
        expected = [bare(block) for each in whole for block in each.content if not is_hidden(block)]
        if not reply.ended:
            yield from _failure(request.spoken, reply, rounds[-1], expected)
            return
        if not rounds[-1].ended:
            yield f"the provider's last round failed ({rounds[-1].error}), and the client was told of a whole reply"
            return
        content = request.spoken.shown(bare(reply.content))
        told = request.spoken.shown(expected)
        silent = all(block["type"] in THINKING for block in expected)
        if content != told and not (silent and content == request.spoken.shown([*expected, NOTHING_TO_SAY])):
            yield f"the client was shown {_brief(content)}, the provider said {_brief(expected)}"
        yield from _end(reply, whole)
        yield from _usage(reply, whole)

    # At the end

    def prove(self, record: "Record") -> None:
        """Compare the sent requests with the log."""
        for request in self._judged:
            for each in request.rounds:
                if _digest(each.body) not in record.sent:
                    self.faults.append("a body that was sent is not on record")
        for before, after in self._breaks:
            self._explained(record.sent.get(_digest(before), set()), record.sent.get(_digest(after), set()))

    def _explained(self, before: "set[OnRecord]", after: "set[OnRecord]") -> None:
        """A changed prefix of a continued conversation needs a recorded epoch or switch."""
        epochs = [{each.epoch for each in one if each.epoch} for one in (before, after)]
        if all(epochs) and max(epochs[1]) > min(epochs[0]):
            return
        if not all(epochs) and any(each.switched for each in (*before, *after)):
            return
        self.faults.append(f"a prefix was broken without an epoch: {before}, then {after}")


@attrs.frozen
class OnRecord:
    """A body of the log: its epoch, 0 if the proxy did not manage it, and whether its session ever stopped being
    managed or missed a deadline.
    """

    epoch: int
    switched: bool


@attrs.define
class Record:
    """The requests that the log says were sent; each turn must be explained correctly, otherwise it is a fault."""

    sent: dict[bytes, set[OnRecord]] = attrs.field(factory=dict)
    faults: list[str] = attrs.field(factory=list)
    fallbacks: int = 0
    """Requests forwarded as received, because the proxy took too long."""

    async def read(self, archive: Archive, *, window: int | None, every: int = 0) -> None:
        """All sessions of a log. Explains the last turn of each branch and ``every`` n-th."""
        for stream in await archive.events.streams():
            events = [each.envelope.event for each in await archive.events.read(stream)]
            switched = any(isinstance(each, BranchModeSet) and each.mode is not Mode.MANAGE for each in events)
            for event in events:
                if isinstance(event, TurnBegan | RoundBegan | FallbackSent):
                    epoch = event.epoch if isinstance(event, RoundBegan) else 0
                    without_us = isinstance(event, FallbackSent)
                    self.fallbacks += without_us
                    self.sent.setdefault(event.sha256, set()).add(OnRecord(epoch, switched or without_us))
            if any(isinstance(event, TurnBegan) for event in events):
                await self._explain(archive, stream, events, window, every)

    async def _explain(
        self, archive: Archive, stream: UUID, events: Sequence[Event], window: int | None, every: int
    ) -> None:
        now, settings = events[-1].at, ServerSettings(window=window)
        found = await verifying.verify(archive, stream)
        name = f"{found.external_id}: "
        self.faults += [f"{name}{difference}" for difference in found.differences]
        untold = {each.branch for each in events if isinstance(each, BranchOpened) and each.kind in UNTOLD}
        turns = [(each.branch, each.turn, each.opaque) for each in events if isinstance(each, TurnBegan)]
        last = {branch: turn for branch, turn, _ in turns}
        for branch, turn, opaque in dict.fromkeys(turns):
            if turn == last[branch] or (every and turn % every == 0):
                if opaque is None and branch not in untold:
                    await windows.explain(archive, str(stream), branch, turn, now=now, settings=settings)
                context = await contexts.read_context(archive, str(stream), branch, str(turn))
                if context.rebuilt.difference:
                    self.faults.append(f"{name}{branch} {turn}: {context.rebuilt.difference}")
        if not any(isinstance(each, ObjectEvent) for each in events) and len(turns) > 3:
            self.faults.append(f"{name}nothing is remembered of it")


def _digest(body: bytes) -> bytes:
    return sha256(body).digest()


def _read(exchange: HttpExchange) -> ReadReply:
    headers = {name.lower(): value for name, value in exchange.reply_headers}
    read = _spoken(exchange).read
    return read(exchange.status or 0, headers, bytes(exchange.payload), cut=not exchange.complete)


def _asked(exchange: HttpExchange) -> Json:
    return _spoken(exchange).asked(exchange.json())


def _spoken(exchange: HttpExchange) -> Spoken:
    found = spoken_at(exchange.target)
    assert found is not None
    return found


def _begins_with(after: Json, before: Json) -> bool:
    earlier = prompt_of(before)
    return prompt_of(after)[: len(earlier)] == earlier


def _brief(content: list[Json]) -> str:
    return json.dumps(
        [{key: str(value)[:60] for key, value in block.items() if key != "signature"} for block in content]
    )


def _failure(spoken: Spoken, reply: ReadReply, last: ReadReply, expected: list[Json]) -> Iterator[str]:
    """A failed reply must be the provider's own failure, with the provider's output before it."""
    if last.ended:
        yield f"the provider's reply was whole, the client got {reply.status} {reply.error}"
    if reply.error is not None and last.error is not None and reply.error != last.error:
        yield f"the provider said {last.error}, the client was told {reply.error}"
    unreachable = last.status == 0 and reply.status in OUR_ERRORS
    if reply.status != 200 and last.status != 200 and reply.status != last.status and not unreachable:
        yield f"the provider's status was {last.status}, the client's {reply.status}"
    said = spoken.shown([*expected, *(bare(block) for block in last.content if not is_hidden(block))])
    shown = spoken.shown(bare(reply.content))
    if not spoken.is_begun(shown, said):
        yield f"the client was shown {_brief(shown)}, the provider said {_brief(said)}"


def _end(reply: ReadReply, rounds: Sequence[ReadReply]) -> Iterator[str]:
    last = rounds[-1].message
    calls = any(block["type"] == "tool_use" and not is_hidden(block) for block in rounds[-1].content)
    told = last.get("stop_reason")
    expected = "end_turn" if told == "tool_use" and not calls else told
    if reply.message.get("stop_reason") != expected:
        yield f"the client was told {reply.message.get('stop_reason')}, the provider said {told}"
    for key in ("stop_sequence", "stop_details", "role", "type", "model"):
        if reply.message.get(key) != last.get(key):
            yield f"{key} is {reply.message.get(key)!r}, the provider said {last.get(key)!r}"
    if reply.message.get("id") != rounds[0].message.get("id"):
        yield "the reply has another id than its first round"


def _usage(reply: ReadReply, rounds: Sequence[ReadReply]) -> Iterator[str]:
    for usage in reply.usages:
        numbers = [value for value in usage.values() if isinstance(value, int)]
        if not numbers or min(numbers) < 0:
            yield f"the usage is {usage}"
    if not all(each.usages for each in (reply, *rounds)):
        return  # a completion that broke off after its last text
    spent = sum(each.usages[-1].get("output_tokens", 0) for each in rounds)
    if not 0 < reply.usages[-1].get("output_tokens", 0) <= spent:
        yield f"the client was told of {reply.usages[-1].get('output_tokens')} tokens of output, {spent} were spent"
