"""Find the project of a session: the working directory that a coding agent names in its own texts.

Claude Code writes ``Working directory: /home/ada/app`` in its system prompt, newer versions ``Primary working
directory: …``, opencode the former, in any dialect. Codex names it in the environment that precedes the user's text:
``<cwd>/home/ada/app</cwd>``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import texts_in
from mnemosyne.domain.wire.transcript import Transcript

_NAMED = re.compile(r"^[ \t-]*(?:Primary w|W)orking directory:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_CODEX = re.compile(r"\A\s*<environment_context>[^<]{0,200}<cwd>([^<\n]{1,4096})</cwd>")

_FIRST = 8
"""How many messages at the beginning may contain the agent's own texts."""

_PROGRAM = ("system", "developer")


def find_project(request: Mapping[str, Any]) -> str | None:
    """Return the directory that a parsed request names; its first members and messages are enough."""
    texts = "\n".join(_list_program_texts(request))
    match = _NAMED.search(texts) or next(filter(None, map(_CODEX.search, _list_first_texts(request))), None)
    return match[1] if match else None


def project_of_transcript(read: Transcript) -> str | None:
    """Return the directory that a transcript's request names; reads only its first messages."""
    messages = [json_values.try_read(read.message_bytes(number)) for number in range(min(_FIRST, len(read.messages)))]
    members = {key: read.member(key) for key in ("system", "instructions")}
    return find_project({**members, read.dialect.array: messages})


def _list_program_texts(request: Mapping[str, Any]) -> Iterator[str]:
    yield from texts_in(request.get("system"))
    yield from texts_in(request.get("instructions"))
    for message in _messages(request):
        if message.get("role") in _PROGRAM:
            yield from texts_in(message.get("content"))


def _list_first_texts(request: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of user messages at the beginning of a Responses request, where Codex puts its own."""
    for message in _messages(request) if "input" in request else ():
        if message.get("role") == "user":
            yield from texts_in(message.get("content"))


def _messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    held = request.get("messages") if "messages" in request else request.get("input")
    return [message for message in held[:_FIRST] if isinstance(message, dict)] if isinstance(held, list) else []


def is_within(project: str | None, folder: str) -> bool:
    return project is not None and f"{project.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
