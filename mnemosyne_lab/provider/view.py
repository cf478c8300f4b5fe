"""The view of a request that a script's rules match: the same fields in every dialect."""

from collections.abc import Iterable, Mapping

import attrs

from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    Json,
    MessageRun,
    as_dict,
    header,
    messages,
    text_in,
    tools,
    turns,
)
from mnemosyne_lab.provider.rules_features import tools_in_messages

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
    text: str
    """All text of the conversation."""
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


def merge(said: Iterable[Utterance]) -> tuple[Utterance, ...]:
    """The same with neighbours of one role joined by a line: text after results is a reminder, not a new prompt."""
    merged: list[Utterance] = []
    for each in said:
        if merged and merged[-1].role == each.role:
            before = merged.pop()
            each = Utterance(each.role, f"{before.text}\n{each.text}", before.brings_results or each.brings_results)
        merged.append(each)
    return tuple(merged)


def _make_utterance(turn: MessageRun) -> Utterance:
    text = "\n".join(text_in(item.block) for item in turn.content)
    return Utterance(turn.role, text, turn.role == "user" and turn.holds("tool_result"))


def view_messages(body: Body, headers: Headers) -> RequestView:
    """The view of a Messages API body."""
    return RequestView(
        model=str(body.get("model")),
        stream=body.get("stream") is True,
        headers=headers,
        system=text_in(body.get("system")),
        said=tuple(map(_make_utterance, turns(body))),
        text="\n".join(text_in(message) for message in messages(body)),
        tools={**{str(tool.get("name")): tool for tool in tools(body)}, **tools_in_messages(body)},
        schema=as_dict(as_dict(body.get("output_config")).get("format")).get("schema"),
        only_warms=body.get("max_tokens") == 0,
    )


_SYSTEM = {"system", "developer"}


def view_chat(body: Body, headers: Headers) -> RequestView:
    """The view of a Chat Completions body."""
    said = messages(body)
    spoken = [each for each in said if each.get("role") not in _SYSTEM]
    return RequestView(
        model=str(body.get("model")),
        stream=body.get("stream") is True,
        headers=headers,
        system="\n".join(text_in(each.get("content")) for each in said if each.get("role") in _SYSTEM),
        said=merge(
            Utterance(
                "assistant" if each.get("role") == "assistant" else "user",
                text_in(each.get("content")),
                brings_results=each.get("role") == "tool",
            )
            for each in spoken
        ),
        text="\n".join(text_in(each.get("content")) for each in said),
        tools={tool_name(tool): tool for tool in tools(body)},
        schema=as_dict(as_dict(body.get("response_format")).get("json_schema")).get("schema"),
    )


def tool_name(tool: dict[str, Json]) -> str:
    """The name of a tool's definition, which is under the tool's type."""
    kind = str(tool.get("type"))
    return str(as_dict(tool.get(kind)).get("name", kind))
