"""The tools of the demo's agent. They really run, in a folder that the demo made for them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio

COMMAND_SECONDS = 30.0

_PATH = {"path": {"type": "string", "description": "The file, from the top folder of the project."}}


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "input_schema": schema}


READ = _tool("Read", "Read a whole file. Use it before you change one.", _PATH)
BASH = _tool(
    "Bash",
    "Run a shell command in the top folder of the project and get what it prints, on both streams, and its exit code.",
    {"command": {"type": "string", "description": "The command line."}},
)
EDIT = _tool(
    "Edit",
    "Replace a passage of a file. The old passage must occur exactly once, with its spaces as they are in the file.",
    {
        **_PATH,
        "old": {"type": "string", "description": "The passage that goes, to the letter."},
        "new": {"type": "string", "description": "What stands there afterwards; empty to delete."},
    },
)
AGENT = _tool(
    "Agent",
    "Give a task to a reviewer with a context of its own. It can read files and answers once, in words.",
    {"prompt": {"type": "string", "description": "Everything that the reviewer needs to know."}},
)


@attrs.frozen
class Workshop:
    """A folder with a project in it, and the tools at work there."""

    folder: Path

    @classmethod
    def with_files(cls, folder: Path, files: Mapping[str, str]) -> "Workshop":
        """Write the project first."""
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return cls(folder)

    async def use(self, name: str, given: Mapping[str, Any]) -> str:
        """A tool's result; a missing file or passage is a result, too."""
        try:
            match name:
                case "Read":
                    return self._file(given).read_text(encoding="utf-8")
                case "Edit":
                    return self._edit(self._file(given), given["old"], given["new"])
                case "Bash":
                    return await self._run(given["command"])
        except (OSError, ValueError) as error:
            return f"Error: {error}"
        return f"Error: there is no tool {name}."

    def _file(self, given: Mapping[str, Any]) -> Path:
        return self.folder / str(given["path"])

    def _edit(self, file: Path, old: str, new: str) -> str:
        text = file.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"the passage occurs {text.count(old)} times in {file.name}")
        file.write_text(text.replace(old, new), encoding="utf-8")
        return f"{file.name} is changed."

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
