"""The sources of an object in the recording: calls with their results, and texts."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from benchmarks.recordings import result_text
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.wire.normal_form import content_blocks

_FILE = ("file_path", "path", "notebook_path")
_ASKED = ("command", "pattern", "url", "query", "description")
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_FRAME = re.compile(r"^</?(?:output|output_head|output_tail|warning|persisted-output)>$|^<returncode>\d*</returncode>$")
_OPENING = 10
_LONGEST_NAME = 120


@attrs.frozen(kw_only=True)
class Source:
    """A call with its result, or a text. ``speaker`` is "tool", "user" or "assistant"; ``text`` the result or the
    words; ``failed`` the recorded outcome of a call.
    """

    speaker: str
    tool: str = ""
    given: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    text: str = attrs.field(repr=False)
    failed: bool = False

    @property
    def path(self) -> str:
        """The file that a call names; empty if it names none."""
        return self._find(*_FILE)

    @property
    def command(self) -> str:
        """The command of a shell; empty for any other tool."""
        return self._find("command")

    @property
    def pattern(self) -> str:
        return self._find("pattern")

    def _find(self, *names: str) -> str:
        """The first of these arguments that is a text; empty without one."""
        return next((value for name in names if isinstance(value := self.given.get(name), str)), "")

    @property
    def lines(self) -> Sequence[str]:
        """The lines of the result without what clients and runners put around it."""
        return [line for line in _REMINDER.sub("", self.text).split("\n") if not _FRAME.match(line)]

    @property
    def name(self) -> str:
        """Its name in a question: tool and file, the request, or its first words."""
        if self.speaker != "tool":
            return " ".join(self.text.split()[:_OPENING])
        return f"{self.tool} {' '.join(self._asked.split())[:_LONGEST_NAME]}"

    @property
    def key(self) -> str:
        """The common key of two calls for the same thing: the file whatever its part, or the request."""
        if self.speaker != "tool":
            return self.text
        if self.steps:
            return f"{self.tool} {len(self.open_steps)} of {len(self.steps)}"
        return self.name if "plan" in self.given else self._asked

    @property
    def steps(self) -> Sequence[Mapping[str, Any]]:
        """The steps of a todo list that a call writes; none if it writes none."""
        todos = self.given.get("todos")
        return [each for each in todos if isinstance(each, dict)] if isinstance(todos, list) else ()

    @property
    def open_steps(self) -> Sequence[str]:
        """Unfinished items."""
        return [str(each.get("content")) for each in self.steps if each.get("status") != "completed"]

    @property
    def _asked(self) -> str:
        if self.pattern:
            return f"{self.pattern} in {self.path}" if self.path else self.pattern
        scalars = (f"{name} {value}" for name, value in self.given.items() if isinstance(value, str | int | float))
        return self._find(*_FILE, *_ASKED) or " ".join(scalars)


def sources_of(messages: Sequence[Mapping[str, Any]], places: Sequence[BlockPlace]) -> list[Source]:
    """The sources at these places of a recorded history, in order."""
    found: list[Source] = []
    calls: dict[str, Mapping[str, Any]] = {}
    for place in places:
        block = content_blocks(messages[place.message]["content"])[place.block]
        match block:
            case {"type": "text", "text": str(text)}:
                found.append(Source(speaker=messages[place.message]["role"], text=text))
            case {"type": "tool_use", "id": str(identity)}:
                calls[identity] = block
            case {"type": "tool_result", "tool_use_id": str(identity)}:
                call, failed = calls.get(identity, {}), block.get("is_error") is True
                given, tool = call.get("input"), str(call.get("name", ""))
                given = given if isinstance(given, dict) else {}
                found.append(Source(speaker="tool", tool=tool, given=given, text=result_text(block), failed=failed))
    return found
