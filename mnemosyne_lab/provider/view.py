"""The view of a request that a script's rules match: the same fields in every dialect."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import attrs

from mnemosyne_lab.provider.openai_messages import SYSTEM, read_chat_message, read_item
from mnemosyne_lab.provider.reading import Body, Headers, Json, as_dict, blocks, header, messages, text_in, tools
from mnemosyne_lab.provider.responses import item_type, list_items, list_tools
from mnemosyne_lab.provider.rules import tools_in_messages

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
    """Runs in order: two that follow each other have different roles."""
    tools: Mapping[str, Json]
    """Definitions by name."""
    schema: Json = None
    """The JSON schema that the reply must fit, if one is asked for."""
    only_warms: bool = False
    """No reply is wanted, only that the prompt is in the cache."""
    compacts: bool = False
    """The conversation is to be replaced by one opaque item."""

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
    """Neighbours of one role are joined by lines: text after results is a reminder, not a new prompt."""
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
    """The name of a tool's definition, which is under the tool's type."""
    kind = str(tool.get("type"))
    return str(as_dict(tool.get(kind)).get("name", kind))
