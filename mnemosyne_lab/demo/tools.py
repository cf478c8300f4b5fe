"""The tools of the demo's agent. They really run, in a folder that the demo made for them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio

from mnemosyne.domain.wire.rereads import WORDINGS, RefersTo

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
