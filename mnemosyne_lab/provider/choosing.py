"""The view of a request that a script's rules match, the same in every dialect, and the choice of its reply."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

import attrs
import orjson

from mnemosyne_lab.provider.openai_messages import (
    SYSTEM,
    item_type,
    list_items,
    list_tools,
    read_chat_message,
    read_item,
)
from mnemosyne_lab.provider.reading import Body, Headers, Json, as_dict, blocks, header, messages, text_in, tools
from mnemosyne_lab.provider.rules import tools_in_messages
from mnemosyne_lab.provider.script import Script, ScriptedReply, ScriptRule, When

_AGENT_HEADERS = ("x-claude-code-agent-id", "x-parent-session-id", "x-codex-parent-thread-id")


@attrs.frozen
class Utterance:
    """Consecutive messages of one role. `brings_results`: it contains answers to tool calls."""

    role: str
    """`user` or `assistant`."""
    text: str
    brings_results: bool = False


@attrs.frozen
class RequestView:
    """One request. Its dialect reads the fields; all else follows from them."""

    model: str
    stream: bool
    headers: Headers
    system: str
    said: tuple[Utterance, ...]
    """The runs of messages in order; adjacent ones have different roles."""
    tools: Mapping[str, Json]
    """Definitions by name."""
    schema: Json = None
    """The JSON schema that the reply must fit, if one is asked for."""
    only_warms: bool = False
    """Whether it only asks to cache the prompt, without a reply."""
    compacts: bool = False
    """Whether it asks to replace the conversation by one opaque item."""

    @property
    def prompt(self) -> str:
        """The text of the last user turn without tool results: the typed prompt, with the client's reminders."""
        typed = (each.text for each in reversed(self.said) if each.role == "user" and not each.brings_results)
        return next(typed, "")

    @property
    def last(self) -> str:
        """All text of the last user turn, tool results included."""
        return next((each.text for each in reversed(self.said) if each.role == "user"), "")

    @property
    def rounds(self) -> int:
        """The number of user turns with tool results after the last typed prompt.

        It depends on the request alone: a repeated request counts the same.
        """
        done = 0
        for each in reversed(self.said):
            if each.role == "user":
                if not each.brings_results:
                    break
                done += 1
        return done

    @property
    def is_after_tools(self) -> bool:
        """Whether the request's last user or assistant turn brings tool results."""
        return bool(self.said) and self.said[-1].brings_results

    @property
    def lane(self) -> str:
        """`side` for a request without tools (titles, summaries), `agent` for a sub-agent's, else `main`."""
        if not self.tools:
            return "side"
        return "agent" if any(header(self.headers, name) for name in _AGENT_HEADERS) else "main"


def _make_view(body: Body, headers: Headers, said: Iterable[Body], system: Iterable[str], **fields: Any) -> RequestView:
    """The view of a body whose messages are ``said``, in the form of the Messages API."""
    return RequestView(
        model=str(body.get("model")),
        stream=body.get("stream") is True,
        headers=headers,
        system="\n".join(system),
        said=tuple(_merge(each for each in said if each.get("role") not in SYSTEM)),
        **fields,
    )


def _merge(said: Iterable[Body]) -> Iterator[Utterance]:
    """Join adjacent messages of one role, by lines: text after results is a reminder, not a new prompt."""
    for is_model, run in groupby(said, key=lambda each: each.get("role") == "assistant"):
        content = [block for each in run for block in blocks(each.get("content"))]
        brings_results = not is_model and any(block.get("type") == "tool_result" for block in content)
        yield Utterance("assistant" if is_model else "user", "\n".join(map(text_in, content)), brings_results)


def view_messages(body: Body, headers: Headers) -> RequestView:
    return _make_view(
        body,
        headers,
        messages(body),
        [text_in(body.get("system"))],
        tools={**{str(tool.get("name")): tool for tool in tools(body)}, **tools_in_messages(body)},
        schema=as_dict(as_dict(body.get("output_config")).get("format")).get("schema"),
        only_warms=body.get("max_tokens") == 0,
    )


def view_chat(body: Body, headers: Headers) -> RequestView:
    said = list(map(read_chat_message, messages(body)))
    return _make_view(
        body,
        headers,
        said,
        _list_instructions(said),
        tools={tool_name(tool): tool for tool in tools(body)},
        schema=as_dict(as_dict(body.get("response_format")).get("json_schema")).get("schema"),
    )


def view_responses(body: Body, headers: Headers) -> RequestView:
    items = list_items(body)
    said = list(map(read_item, items))
    return _make_view(
        body,
        headers,
        said,
        [text_in(body.get("instructions")), *_list_instructions(said)],
        tools={str(tool.get("name", tool.get("type"))): tool for tool in list_tools(body)},
        schema=as_dict(as_dict(body.get("text")).get("format")).get("schema"),
        compacts=bool(items) and item_type(items[-1]) == "compaction_trigger",
    )


def _list_instructions(said: Iterable[Body]) -> list[str]:
    return [text_in(each["content"]) for each in said if each["role"] in SYSTEM]


def tool_name(tool: dict[str, Json]) -> str:
    """The name of a Chat Completions tool, which is in the member named by the tool's type."""
    kind = str(tool.get("type"))
    return str(as_dict(tool.get(kind)).get("name", kind))


# Choice

Model = Callable[[Body], ScriptedReply]
"""What answers a request with tools that fits no rule of the script: it knows that request's body and nothing else."""


class ReplyChooser:
    """A script at work: it counts the requests and how often each rule has fitted."""

    def __init__(self, script: Script, model: Model | None) -> None:
        self.script = script
        self._model = model
        self._requests = 0
        self._fits = Counter[int]()
        """How many requests each rule has fitted, by its number."""

    def change_script(self, script: Script) -> None:
        """Go on with another one, whose rules fitted nothing yet."""
        self.script = script
        self._fits.clear()

    def count_request(self) -> int:
        """The number of a request for a message, from 1."""
        self._requests += 1
        return self._requests

    def choose(self, view: RequestView, body: Body) -> tuple[str, ScriptedReply]:
        """The rule's name and its reply; the name is empty for a default."""
        rounds = view.rounds
        for number, rule in enumerate(self.script.rules):
            reply = rule.reply_for(rounds)
            if reply is not None and not rule.counting and self._fires(number, rule, view):
                return _label(number, rule), reply
        if self._model is not None and view.tools:
            return "model", self._model(body)
        return "", default_reply(self.script, view)

    def choose_for_counting(self, view: RequestView) -> tuple[str, ScriptedReply] | None:
        """The failure or literal response that a rule has for count_tokens, or nothing."""
        for number, rule in enumerate(self.script.rules):
            if rule.counting and self._fires(number, rule, view):
                reply = rule.reply_for(0)
                if reply is not None and (reply.failure or reply.raw):
                    return _label(number, rule), reply
        return None

    def _fires(self, number: int, rule: ScriptRule, view: RequestView) -> bool:
        if not _fits(rule.when, view, self._requests):
            return False
        self._fits[number] += 1
        return rule.times is None or self._fits[number] <= rule.times


def _label(number: int, rule: ScriptRule) -> str:
    return rule.name or f"rules[{number}]"


def _fits(when: When, view: RequestView, request: int) -> bool:
    """Whether all given conditions hold; `request` is the number of this message request."""
    checks: tuple[tuple[object, Callable[[], bool]], ...] = (
        (when.lane, lambda: view.lane == when.lane),
        (when.prompt, lambda: str(when.prompt) in view.prompt),
        (when.last, lambda: str(when.last) in view.last),
        (when.system, lambda: str(when.system) in view.system),
        (when.tools, lambda: bool(view.tools) == when.tools),
        (when.tool, lambda: when.tool in view.tools),
        (when.model, lambda: fnmatchcase(view.model, str(when.model))),
        (when.after_tools, lambda: view.is_after_tools == when.after_tools),
        (when.rounds, lambda: view.rounds == when.rounds),
        (when.request, lambda: request == when.request),
        (when.agent, lambda: header(view.headers, "x-claude-code-agent-id") == when.agent),
        (when.stream, lambda: view.stream == when.stream),
    )
    return all(holds() for wanted, holds in checks if wanted is not None)


_UNFIT = "The stand-in provider has nothing to add: no rule of its script fits this request."


def default_reply(script: Script, view: RequestView) -> ScriptedReply:
    """A JSON document where a schema is asked for, a summary where one is, a short text otherwise."""
    if view.only_warms:
        return ScriptedReply(stop_reason="max_tokens")
    if view.compacts:
        return ScriptedReply(content=[{"type": "compaction", "text": "The work so far, by the stand-in."}])
    if isinstance(view.schema, dict):
        return ScriptedReply(text=orjson.dumps(sample(view.schema)).decode())
    if "<summary>" in view.prompt:
        return ScriptedReply(text="<summary>\nThe work so far, in one sentence by the stand-in.\n</summary>")
    if view.lane == "side":
        return ScriptedReply(text="Stand-in conversation")
    return script.default or ScriptedReply(text=_UNFIT)


def sample(schema: dict[str, Json]) -> Json:
    """A small value that fits a simple JSON schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: sample(as_dict(part)) for name, part in as_dict(schema.get("properties")).items()}
        case "array":
            return []
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case "null":
            return None
    return "Stand-in conversation"
