r"""The rules for a request to the provider that only a comparison with the client's own request shows.

Written from the API's documentation, not from the code that makes the requests. The strict scripted provider checks
single requests and signatures; what it finds is a fault, too.
"""

import json
from collections.abc import Iterator
from typing import Any

import attrs

from campaigns.scenarios.messages import (
    BILLING,
    MEMORY_TOOLS,
    THINKING,
    Json,
    attachments_in,
    blocks_of,
    is_hidden,
    messages_of,
)
from tests.http.managing import bare

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
        yield f"tools of nobody: {names[len(own) :]}"
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
                yield f"thinking that nobody said: {json.dumps(block)[:120]}"
            elif kind.startswith(("server_", "mcp_")) or kind.endswith("_tool_result") or kind == "fallback":
                if not said.holds(block) and json.dumps(bare(block), sort_keys=True) not in known:
                    yield f"a block of the provider's was changed: {json.dumps(block)[:120]}"
            elif kind == "tool_use" and is_hidden(block) and not said.holds(block):
                yield f"a hidden call that nobody made: {json.dumps(block)[:120]}"
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
                yield f"words of the operator's are not there: {json.dumps(block)[:120]}"
    if client["messages"][-1]["role"] == "user":
        for block in blocks_of(client["messages"][-1]["content"]):
            if json.dumps(bare(block), sort_keys=True) not in sent:
                yield f"what is new was not sent as it is: {json.dumps(block)[:120]}"
