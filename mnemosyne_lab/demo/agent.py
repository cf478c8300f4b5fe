"""A minimal coding agent: it asks, runs the tools that the model calls, and asks again with the results.

It is a plain client of the Messages API and knows nothing of the proxy, except that it names its session in a header.
"""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import orjson
import trio

from mnemosyne import __version__
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.exchange import Upstream, UpstreamRequest
from mnemosyne.domain.wire.rereads import WORDINGS, RefersTo
from mnemosyne.errors import UpstreamFailed

# The tools of the agent, which really run, in a folder of the demo

COMMAND_SECONDS = 30.0

PROJECT = "/shop/"
"""The project's folder, as the model knows it."""

UNCHANGED = next(each.text for each in WORDINGS if each.refers_to is RefersTo.EARLIER_RESULT)
"""The answer to a second read of an unchanged file, as Claude Code gave it until version 2.1.300."""

_PATH = {"file_path": {"type": "string", "description": "The file's absolute path."}}


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS = [
    _tool("Read", "Read a whole file. Use it before you change one.", _PATH),
    _tool(
        "Bash",
        "Run a shell command in the project's folder and get its output and exit code.",
        {"command": {"type": "string", "description": "The command line."}},
    ),
    _tool(
        "Edit",
        "Replace a passage of a file. The old passage must occur exactly once, with its exact whitespace.",
        {
            **_PATH,
            "old_string": {"type": "string", "description": "The passage to replace."},
            "new_string": {"type": "string", "description": "The new text; empty to delete the passage."},
        },
    ),
]


@attrs.frozen
class Workshop:
    """The tools in a folder with a project. ``_seen`` holds the contents of the files that the model has read."""

    folder: Path
    _seen: dict[Path, str] = attrs.field(factory=dict)

    @classmethod
    def with_files(cls, folder: Path, files: Mapping[str, str]) -> "Workshop":
        """Write the project first."""
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return cls(folder)

    async def use(self, name: str, given: Mapping[str, Any]) -> str:
        """A tool's result; an error is a result, too."""
        try:
            match name:
                case "Read":
                    return self._read(self._file(given))
                case "Edit":
                    return self._edit(self._file(given), given["old_string"], given["new_string"])
                case "Bash":
                    return await self._run(given["command"])
        except (OSError, ValueError) as error:
            return f"Error: {error}"
        return f"Error: there is no tool {name}."

    def _file(self, given: Mapping[str, Any]) -> Path:
        return self.folder / str(given["file_path"]).removeprefix(PROJECT)

    def _read(self, file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        if self._seen.get(file) == text:
            return UNCHANGED
        self._seen[file] = text
        return "".join(f"{number:6}\t{line}\n" for number, line in enumerate(text.splitlines(), 1))

    def _edit(self, file: Path, old: str, new: str) -> str:
        text = file.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"the passage occurs {text.count(old)} times in {file.name}")
        file.write_text(text.replace(old, new), encoding="utf-8")
        return f"The file {PROJECT}{file.name} has been updated."

    async def _run(self, command: str) -> str:
        # The Python that we run on may not be on the PATH.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        with trio.move_on_after(COMMAND_SECONDS):
            done = await trio.run_process(
                command,
                shell=True,
                cwd=self.folder,
                env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=b"",
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output = done.stdout.decode(errors="replace").rstrip()
            return f"{output}\nexit code {done.returncode}"
        return f"Error: the command took more than {COMMAND_SECONDS:g} s."


# The agent

SESSION = "demo"
MAX_TOKENS = 4096

_MARKER = {"cache_control": {"type": "ephemeral"}}

Block = dict[str, Any]


@attrs.define(kw_only=True)
class Agent:
    """One conversation. ``watch`` gets each reply before its calls are run."""

    server: Upstream
    workshop: Workshop
    model: str
    system: str
    watch: Callable[[list[Block]], Awaitable[None]]
    messages: list[dict[str, Any]] = attrs.field(factory=list)

    async def ask(self, prompt: str) -> None:
        """Work on a prompt until the model calls no more tools."""
        content: list[Block] = [{"type": "text", "text": prompt}]
        while content:
            self.messages.append({"role": "user", "content": content})
            reply = await self._next_reply()
            self.messages.append({"role": "assistant", "content": reply})
            await self.watch(reply)
            content = [await self._result(call) for call in reply if is_call(call)]

    async def _result(self, call: Block) -> Block:
        result = await self.workshop.use(call["name"], call["input"])
        return {"type": "tool_result", "tool_use_id": call["id"], "content": result}

    async def _next_reply(self) -> list[Block]:
        """One request and its reply. Raises UpstreamFailed if it is an error."""
        request = UpstreamRequest("POST", b"/v1/messages", _headers(), orjson.dumps(self._body()))
        async with self.server.exchange(request, lambda: None) as reply:
            body = b"".join([chunk async for chunk in reply.chunks()])
            if reply.head.status != 200:
                raise UpstreamFailed(f"The demo got status {reply.head.status}: {body.decode(errors='replace')}")
        content: list[Block] = orjson.loads(body)["content"]
        return content

    def _body(self) -> dict[str, Any]:
        *before, last = self.messages
        return {
            "model": self.model,
            "max_tokens": MAX_TOKENS,
            "system": [{"type": "text", "text": self.system, **_MARKER}],
            "tools": TOOLS,
            "messages": [*before, _mark(last)],
        }


def _headers() -> tuple[tuple[bytes, bytes], ...]:
    headers = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": "the stand-in takes any",
        "user-agent": f"mnemosyne-demo/{__version__}",
        "x-mnemosyne-session": SESSION,
    }
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


def _mark(message: dict[str, Any]) -> dict[str, Any]:
    """The message with a cache marker on its last block."""
    *blocks, last = message["content"]
    return {**message, "content": [*blocks, {**last, **_MARKER}]}
