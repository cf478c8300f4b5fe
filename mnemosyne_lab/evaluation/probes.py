"""Questions about a session's past whose answers can be checked letter by letter: no model asks and none judges.

Each has a text that an agent which goes on needs to know, and that stood in the history word for word: the last errors,
the files that were changed and how, what was asked for and settled, and what is still open.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne_lab.evaluation.demand import plain, texts_of

SHORTEST, LONGEST = 12, 300
"""Characters of a text that is asked for; shorter ones are found everywhere."""

FAILURES, FILES, PROMPTS, TESTS = 3, 5, 3, 5
"""So many of the last of each are asked for."""

_ERROR = re.compile(r"error|exception|fail|not found|denied|cannot|traceback", re.IGNORECASE)
_FAILED_TEST = re.compile(r"^[^\w\n]{0,8}(?:FAILED|FAIL:?|not ok)[ \t]{1,4}(\S.*)", re.MULTILINE)
_TESTS = re.compile(r"\b(?:pytest|unittest|tox|jest|vitest|mocha|go test|cargo test|make test|npm (?:run )?test)\b")
_PATHS = ("file_path", "notebook_path", "path")
_WRITTEN = ("new_string", "content", "new_source", "edits")


class ProbeClass(Enum):
    """What a probe asks about."""

    RECALL = "recall"
    """How something failed."""
    ARTIFACT = "artifact"
    """Which files were changed, and what was written to each last."""
    DECISION = "decision"
    """What the user asked for."""
    CONTINUATION = "continuation"
    """What is open: items of the list of things to do, tests that fail."""
    PLANTED = "planted"
    """A fact that was put into the recording."""


@attrs.frozen(kw_only=True)
class Probe:
    """A ``question`` that is answered where its ``text`` is read."""

    about: ProbeClass
    question: str
    text: str


class Past:
    """What there is to ask about a history so far. It is read message by message, and never back."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._messages = messages
        self._read = 0
        self.forget()

    def forget(self) -> None:
        """The user had all of it dropped."""
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._failures: deque[Probe] = deque(maxlen=FAILURES)
        self._prompts: deque[Probe] = deque(maxlen=PROMPTS)
        self._changes: dict[str, str] = {}
        self._todos: dict[str, str] = {}
        self._failing: list[str] = []

    def read_to(self, number: int) -> None:
        """Go on to before this message."""
        for message in self._messages[self._read : number]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                self._take(message["role"], block)
        self._read = max(self._read, number)

    def probes(self) -> list[Probe]:
        """What may be asked now; each text once."""
        found = [*self._failures, *self._of_files(), *self._prompts, *self._of_what_is_open()]
        return list({each.text: each for each in found}.values())

    def _take(self, role: str, block: Mapping[str, Any]) -> None:
        if is_call(block):
            self._calls[str(block.get("id"))] = block
            self._take_call(block)
        elif is_result(block):
            self._take_result(block)
        elif role == "user" and block.get("type") == "text":
            self._take_prompt(str(block.get("text")))

    def _take_call(self, call: Mapping[str, Any]) -> None:
        given = call.get("input")
        if not isinstance(given, dict):
            return
        path = next((given[key] for key in _PATHS if isinstance(given.get(key), str)), None)
        written = next((_first_text(given[key]) for key in _WRITTEN if given.get(key)), None)
        if path is not None and written is not None:
            self._changes.pop(path, None)
            self._changes[path] = written
        match call.get("name"), given:
            case "TodoWrite", {"todos": list(todos)}:
                items = [each for each in todos if isinstance(each, dict)]
                self._todos = {str(each.get("content")): str(each.get("status")) for each in items}
            case "TaskCreate", {"subject": str(subject)}:
                self._todos[subject] = "pending"
            case "TaskUpdate", {"taskId": str(number), "status": str(status)} if number.isdigit():
                for subject in list(self._todos)[int(number) - 1 : int(number)]:
                    self._todos[subject] = status

    def _take_result(self, result: Mapping[str, Any]) -> None:
        call = self._calls.pop(str(result.get("tool_use_id")), {})
        text = "\n".join(texts_of([{"content": [result]}]))
        label = _label(call)
        if _TESTS.search(label):
            names = map(str.rstrip, _FAILED_TEST.findall(text))
            self._failing = [name for name in names if SHORTEST <= len(name) <= LONGEST][:TESTS]
        if result.get("is_error") is True and label:
            line = next(filter(_ERROR.search, _lines(text)), None) or next(_lines(text), None)
            if line is not None:
                question = f"What was the error of {label}?"
                self._failures.append(Probe(about=ProbeClass.RECALL, question=question, text=line))

    def _take_prompt(self, said: str) -> None:
        line = next(_lines(_without_reminders(said)), None)
        if line is not None and not line.startswith("<"):
            question = f"What did the user say about {_topic(line)}?"
            self._prompts.append(Probe(about=ProbeClass.DECISION, question=question, text=line))

    def _of_files(self) -> Iterator[Probe]:
        for path, written in list(self._changes.items())[-FILES:]:
            name = path.rpartition("/")[2]
            yield Probe(about=ProbeClass.ARTIFACT, question=f"Where is {name}, which was changed?", text=path)
            line = max(_lines(written), key=len, default=None)
            if line is not None:
                question = f"What was written to {name} last about {_topic(line)}?"
                yield Probe(about=ProbeClass.ARTIFACT, question=question, text=line)

    def _of_what_is_open(self) -> Iterator[Probe]:
        for subject, status in self._todos.items():
            if status not in ("completed", "deleted") and SHORTEST <= len(subject) <= LONGEST:
                question = f"What is still to be done about {_topic(subject)}?"
                yield Probe(about=ProbeClass.CONTINUATION, question=question, text=subject)
        for name in self._failing:
            question = f"Which test of {_topic(name)} failed?"
            yield Probe(about=ProbeClass.CONTINUATION, question=question, text=name)


def _lines(text: str) -> Iterator[str]:
    stripped = (line.strip() for line in plain(text).splitlines())
    return (line for line in stripped if SHORTEST <= len(line) <= LONGEST)


def _without_reminders(said: str) -> str:
    """What the user typed, without what the client put around it."""
    first, *others = said.split("<system-reminder>")
    return first + "".join(each.partition("</system-reminder>")[2] for each in others)


def _first_text(value: object) -> str | None:
    """What was written: a text, or that of the last of several edits."""
    match value:
        case str():
            return value
        case [*_, {"new_string": str(text)}]:
            return text
        case _:
            return None


def _label(call: Mapping[str, Any]) -> str:
    given = call.get("input")
    keys = ("command", *_PATHS, "pattern", "query", "url")
    found = next((given[key] for key in keys if isinstance(given.get(key), str)), "") if isinstance(given, dict) else ""
    return str(found).partition("\n")[0][:80]


def _topic(line: str) -> str:
    """The longest three words of a line, in its order: what somebody who asks for it remembers of it."""
    words = re.findall(r"\w{3,}", line)
    longest = sorted(range(len(words)), key=lambda number: (-len(words[number]), number))[:3]
    return " ".join(words[number] for number in sorted(longest))
