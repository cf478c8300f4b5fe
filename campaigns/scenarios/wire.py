r"""The rules for a request to the provider, compared with the client's own request.

Written from the API's documentation, not from the code that makes the requests. The strict scripted provider checks
single requests and signatures; this module checks what only a comparison shows, and independently repeats the rules
that a rewrite breaks most easily.
"""

import itertools
import json
from collections import Counter
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

MOST_MARKERS = 4
OURS_TO_CHANGE = ("messages", "tools", "system")
SERVER_RESULT = ("web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result", "mcp_tool_result")


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


def faults_of(body: Json, client: Json, said: ProviderOutput, *, has_order: bool = True) -> Iterator[str]:
    """The faults of a request, compared with the client's request. ``has_order``: results follow the message with
    their calls, and so a request ends with the user.
    """
    yield from _structure(body, client, has_order=has_order)
    yield from _pairs(body, has_order=has_order)
    yield from _markers(body)
    yield from _frame(body, client)
    yield from _kept(body, client, said)


def _structure(body: Json, client: Json, *, has_order: bool) -> Iterator[str]:
    roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
    own = [message["role"] for message in client["messages"] if message["role"] != "system"]
    if roles[:1] != ["user"] or (has_order and roles[-1:] not in (own[-1:], ["user"])):
        yield f"the roles are {roles[:1]} … {roles[-1:]}, the client ended with {own[-1:]}"
    if _doubles(roles) > _doubles(own):
        yield "roles do not alternate"
    for number, message in enumerate(messages_of(body)):
        if not message["content"] and not (message["role"] == "system" and "output_config" in message):
            yield f"message {number} is empty"
        if message["role"] == "system":
            before = body["messages"][number - 1]["role"] if number else None
            after = body["messages"][number + 1]["role"] if number + 1 < len(body["messages"]) else "assistant"
            if message["content"] and (before != "user" or after != "assistant"):
                yield f"the system message {number} stands between {before} and {after}"
        for block in message["content"]:
            if block["type"] == "text" and not block["text"].strip():
                yield f"an empty text in message {number}"
            if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                yield f"an input that is no object in message {number}"


def _doubles(roles: list[str]) -> int:
    return sum(one == other for one, other in itertools.pairwise(roles))


def _pairs(body: Json, *, has_order: bool) -> Iterator[str]:
    said = [message for message in messages_of(body) if message["role"] != "system"]
    ids = Counter(block["id"] for message in said for block in message["content"] if block["type"] == "tool_use")
    yield from (f"the id {each} is used {count} times" for each, count in ids.items() if count > 1)
    if not has_order:  # a call and its result must be a pair wherever they are: the strict provider checks that
        return
    for number, message in enumerate(said):
        before = said[number - 1]["content"] if number and said[number - 1]["role"] == "assistant" else []
        if message["role"] == "user" and number and said[number - 1]["role"] == "user":
            continue  # the API merges them, so the client may send them
        content = list(message["content"])
        following = number + 1
        while message["role"] == "user" and following < len(said) and said[following]["role"] == "user":
            content += said[following]["content"]
            following += 1
        asked = [block["id"] for block in before if block["type"] == "tool_use"]
        kinds = [block["type"] == "tool_result" for block in content]
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if message["role"] == "user" and sorted(asked) != sorted(results):
            yield f"message {number}: called {asked}, answered {results}"
        if message["role"] == "user" and kinds != sorted(kinds, reverse=True):
            yield f"message {number}: a result behind another block"
        server = {block["id"] for block in content if block["type"] in ("server_tool_use", "mcp_tool_use")}
        answered = {block["tool_use_id"] for block in content if block["type"] in SERVER_RESULT}
        if server != answered and number + 1 < len(said):
            yield f"message {number}: server tools called {sorted(server)}, answered {sorted(answered)}"


def _markers(body: Json) -> Iterator[str]:
    found: list[tuple[str, str]] = []
    for place in (*body.get("tools", []), *blocks_of(body.get("system") or [])):
        found += _marker(place)
    for message in messages_of(body):
        for block in message["content"]:
            found += _marker(block)
            if any("cache_control" in each for each in blocks_of(block.get("content") or [])):
                yield "a marker within another block"
    if len(found) + ("cache_control" in body) > MOST_MARKERS:
        yield f"{len(found)} markers"
    if any(kind in THINKING for kind, _ in found):
        yield "a marker on thinking"
    ttls = [ttl for _, ttl in found]
    if ttls != sorted(ttls):  # "1h" before "5m"
        yield f"the lifetimes of the markers are {ttls}"


def _marker(block: Json) -> list[tuple[str, str]]:
    marker = block.get("cache_control")
    return [(block.get("type", "tool"), marker.get("ttl", "5m"))] if marker else []


def _frame(body: Json, client: Json) -> Iterator[str]:
    """Everything except the history."""
    for key in sorted({*body, *client} - {*OURS_TO_CHANGE}):
        if body.get(key) != client.get(key):
            yield f"the client's {key} was changed"
    if bare(body.get("system")) not in _as_sent(bare(client.get("system"))):
        yield "the system prompt was changed"
    names = [tool.get("name") for tool in body.get("tools", [])]
    own = bare(client.get("tools", []))
    if len(set(names)) < len(names):
        yield "two tools of one name"
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
