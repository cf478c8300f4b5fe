"""Tools that an API takes behind the cached head of a prompt: in an element of the history, from which on they exist.

Sources: Messages API documentation (mid-conversation system messages and tool changes), Responses API documentation
(tool search: add tools at a specific point in the input). Chat Completions has no such element.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from mnemosyne.domain.wire.model_names import read_gpt_version
from mnemosyne.domain.wire.reply import as_json

Header = tuple[bytes, bytes]

_BETA = b"inline-tools-2026-09-15"


@attrs.frozen(kw_only=True)
class ToolsBehind:
    """How an API takes them. ``hosts`` are those of the providers that do, for models that it ``takes``. ``write``
    writes the element for tools in the dialect's form; ``beginning`` are its first bytes. A request with the element
    needs the ``header``, a list of names, if there is one. A refusal mentions one of the ``words``.
    """

    hosts: frozenset[str]
    takes: Callable[[str], bool]
    write: Callable[[Iterable[Mapping[str, Any]]], bytes]
    beginning: bytes
    header: Header | None = None
    words: tuple[str, ...]

    def is_refused(self, message: str) -> bool:
        """Whether an error gives the element as its reason."""
        return any(word in message for word in self.words)


def _write_system_message(tools: Iterable[Mapping[str, Any]]) -> bytes:
    added = [
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}} for definition in tools
    ]
    return as_json({"role": "system", "content": added})


KINDS = frozenset({"tool_addition", "additional_tools"})
"""The kinds of the blocks that add tools."""

_BEGINNING = b'{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{'

_SINCE = {"fable": (5, 0), "mythos": (5, 0), "opus": (4, 8), "sonnet": (5, 5), "haiku": (5, 5)}


def _takes_system_messages(model: str) -> bool:
    named = re.match(r"claude-([a-z]+)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)", model)
    if named is None or named[1] not in _SINCE:
        return False
    return (int(named[2]), int(named[3] or 0)) >= _SINCE[named[1]]


IN_MESSAGES = ToolsBehind(
    hosts=frozenset({"api.anthropic.com"}),
    takes=_takes_system_messages,
    write=_write_system_message,
    beginning=_BEGINNING,
    header=(b"anthropic-beta", _BETA),
    words=("tool_addition", "tool_definition", _BETA.decode(), "role system", "role 'system'", 'role "system"'),
)


def find_header(body: bytes) -> Header | None:
    """The header that a request with this body needs, if the proxy wrote such an element into it."""
    return IN_MESSAGES.header if _BEGINNING in body else None


def _write_item(tools: Iterable[Mapping[str, Any]]) -> bytes:
    return as_json({"type": "additional_tools", "role": "developer", "tools": [*tools]})


IN_RESPONSES = ToolsBehind(
    hosts=frozenset({"api.openai.com"}),
    takes=lambda model: read_gpt_version(model) >= (5, 4),
    write=_write_item,
    beginning=b'{"type":"additional_tools","role":"developer","tools":[',
    words=("additional_tools",),
)
