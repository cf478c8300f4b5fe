r"""A day of work in one session: ``python -m campaigns.clients.ten_hours codex|claude [--unmanaged] [--turns 2600]``.

A real client works on the turns of ``ten_hours.txt``: 2,600 drawn with seed 50, one by one, from the 11,063 results in
the public sessions of Claude Code, with their sizes (at most 12,000 characters) and reuse distances. The scripted
model needs one line of the file that it uses. It reads the file again exactly when the current text of that line is
not in the request. Files, lines and order are the same in every run. After each part the numbers so far are printed.
"""

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.app.threads import in_a_thread
from mnemosyne_lab.provider import from_data, open_standin
from mnemosyne_lab.provider.reading import Body
from mnemosyne_lab.provider.script import ScriptedReply
from tests.clients.agents import CLAUDE_CODE, Block
from tests.clients.installing import installed
from tests.clients.test_codex import codex, execute
from tests.clients.workspace import MNEMOSYNE, Server, bare_environment, finished, open_workspace, serving

Json = dict[str, Any]

STEPS = [(word[0], int(word[1:])) for word in Path(__file__).with_suffix(".txt").read_text().split("\n", 1)[1].split()]
PART = 50
"""Turns for one prompt."""

WINDOW, LIMIT = 100_000, 120_000
"""Tokens: the window of a managed session; and where the client compacts its history, in both runs. Claude Code
compacts 33,000 below the window that it is told.
"""

FORK = "FORKED PART"


@attrs.define
class Model:
    """Plays the turns; the only state beside the request is the place in the plan and the files' current lines."""

    project: Path
    look: Callable[[Path], Block]
    edit: Callable[[Path, str, str], Block]
    shell: Callable[[str], Block]
    fork: Callable[[str], Block] | None = None
    end: int = 0
    at: int = 0
    counts: Counter[str] = attrs.field(factory=Counter)
    largest: int = 0
    _chance: random.Random = attrs.field(factory=lambda: random.Random(50))
    _files: dict[int, list[str]] = attrs.field(factory=dict)
    _used: dict[int, int] = attrs.field(factory=dict)
    _need: tuple[int, int] | None = None
    """The file and the line that the next call uses, until it was in a request."""
    _asked: bool = False
    _forked: dict[str, bool] = attrs.field(factory=dict)

    def __call__(self, body: Body) -> ScriptedReply:
        items: list[Json] = body.get("input") or body["messages"]
        if _compacts(items):
            self.counts["compactions"] += 1
            summary = f"<summary>\nThe work so far: {self.at} turns are done. Go on.\n</summary>"
            if items[-1].get("type") == "compaction_trigger":
                return ScriptedReply(content=[{"type": "compaction", "text": summary}])
            return ScriptedReply(text=summary)
        text = json.dumps(items)
        task = next((each for each in _texts(items) if FORK in each), None)
        if task is not None and self.fork is not None:
            return self._play_fork(task, text)
        self.counts["requests"] += 1
        if self.at >= self.end:
            name = self._name_fork()
            if self.fork is not None and name not in self._forked:
                self._forked[name] = False
                return ScriptedReply(content=[self.fork(f"{name}. Use this line of the file.")])
            return ScriptedReply(text=f"{self.at} turns are done.")
        return ScriptedReply(content=[{"type": "thinking", "thinking": f"Turn {self.at}."}, self._next(text)])

    def _next(self, text: str) -> Block:
        kind, size = STEPS[self.at]
        if self._need is None and kind in ("u", "e"):
            self._need = self._choose(size)
        if self._need is not None:
            file, line = self._need
            if not self._has(file, line, text):
                return self._read_again(file)
            self._need, self._asked = None, False
            self.counts["needs"] += 1
            self._done(file)
            if kind == "u":
                return self.shell(f"echo {self._files[file][line].split()[0]} is used")
            old = self._files[file][line]
            new = self._files[file][line] = f"{old.rpartition(' ')[0]} v{self.at}"
            self.counts["edits"] += 1
            return self.edit(self._path(file), old, new)
        if kind == "t":
            self._done(None)
            self.counts["commands"] += 1
            return self.shell(f"seq -s ' ' {self.at}000000 {self.at}999999 | head -c {size}")
        return self._read_new(size)

    def _done(self, file: int | None) -> None:
        if file is not None:
            self._used[file] = self.at
        self.at += 1

    def _read_new(self, size: int) -> Block:
        file = len(self._files)
        count = max(1, size // 45)
        self._files[file] = [
            f"rate_{file:04}_{line:03} = {self._chance.getrandbits(64)} + {self._chance.getrandbits(32)} v0"
            for line in range(count)
        ]
        self._path(file).write_text("".join(f"{line}\n" for line in self._files[file]))
        self._done(file)
        self.counts["reads"] += 1
        return self.look(self._path(file))

    def _choose(self, distance: int) -> tuple[int, int] | None:
        """A line of the file whose last use is closest to so many turns ago; None before the first file."""
        if not self._used:
            return None
        file = min(self._used, key=lambda each: abs(self.at - self._used[each] - distance))
        return file, self._chance.randrange(len(self._files[file]))

    def _read_again(self, file: int) -> Block:
        if self._asked:
            self.counts["reads without the text"] += 1
        self._asked = True
        self.counts["reads"] += 1
        self.counts["reads again"] += 1
        return self.look(self._path(file))

    def _play_fork(self, task: str, text: str) -> ScriptedReply:
        """The fork uses a line of a file that its parent has used; without it, it reads the file."""
        self.counts["fork requests"] += 1
        name = task[task.index(FORK) :].split(".")[0]
        file, line = map(int, name.split()[2:4])
        if self._forked[name]:
            return ScriptedReply(text="The part is done.")
        if not self._has(file, line, text):
            self.counts["reads"] += 1
            self.counts["fork reads again"] += 1
            return ScriptedReply(content=[self.look(self._path(file))])
        self._forked[name] = True
        return ScriptedReply(content=[self.shell(f"echo {self._files[file][line].split()[0]} is used")])

    def _name_fork(self) -> str:
        """The task of this part's fork, which names a file and a line."""
        chance = random.Random(self.end)
        file = min(self._used, key=lambda each: (abs(self.end - self._used[each] - PART // 2), each))
        return f"{FORK} {file} {chance.randrange(len(self._files[file]))} of turn {self.end}"

    def _has(self, file: int, line: int, text: str) -> bool:
        return self._files[file][line] in text

    def _path(self, file: int) -> Path:
        return self.project / f"part_{file:04}.py"


def _compacts(items: list[Json]) -> bool:
    return items[-1].get("type") == "compaction_trigger" or any(
        "CONTEXT CHECKPOINT" in each or "create a detailed summary" in each for each in _texts(items[-1:])
    )


def _texts(items: list[Json]) -> Iterator[str]:
    """The texts that users or clients wrote, without results, newest first."""
    for each in reversed(items):
        if each.get("role") == "user":
            content = each["content"]
            parts = [{"text": content}] if isinstance(content, str) else content
            yield from (str(part["text"]) for part in parts if "text" in part)


def play(client: str, folder: Path, turns: int, *, manage: bool) -> Model:
    """Play so many turns and print the numbers after each part; then verify the whole log."""
    programs, project, data_dir = installed(), folder / "project", folder / "data"
    model = Model(project, lambda file: execute(f"cat {file}"), lambda *edit: execute(_sed(*edit)), execute)
    if client == "claude":
        model = Model(project, CLAUDE_CODE.read, CLAUDE_CODE.edit, CLAUDE_CODE.shell, CLAUDE_CODE.fork)
    settings = ("--manage", "--manage-window", str(WINDOW)) if manage else ()
    with (
        in_a_thread(lambda: open_standin(from_data({}), model=model), "the provider of the campaign") as standin,
        serving(standin, *settings, data_dir=data_dir) as server,
    ):
        work = _make(client, programs, folder, server)
        while model.at < turns:
            model.end = min(model.at + PART, turns)
            assert work(f"Go on up to turn {model.end}.", model.at > 0) == f"{model.end} turns are done."
            for each in standin.messages:
                model.counts[f"status {each.status}"] += 1
                prompt, cached = _usage(bytes(each.payload))
                model.counts["prompt tokens"] += prompt
                model.counts["cached tokens"] += cached
                model.largest = max(model.largest, prompt)
            standin.exchanges.clear()
            model.counts["refusals"] = len(standin.violations)
            sys.stdout.write(f"{json.dumps({'turns': model.at, 'largest': model.largest, **model.counts})}\n")
            sys.stdout.flush()
        finished([*MNEMOSYNE, "verify", "--data-dir", str(data_dir)], bare_environment(folder / "home"), folder)
    return model


def _sed(file: Path, old: str, new: str) -> str:
    return f"sed -i 's/{old}/{new}/' {file}"


def _usage(payload: bytes) -> tuple[int, int]:
    """The tokens of a prompt, and how many of them were read from the cache."""

    def first(name: bytes) -> int:
        found = re.search(rb'"%s": ?(\d+)' % name, payload)
        return int(found[1]) if found else 0

    read = first(b"cache_read_input_tokens")
    return first(b"input_tokens") + read + first(b"cache_creation_input_tokens"), read + first(b"cached_tokens")


def _make(client: str, programs: Path, folder: Path, server: Server) -> Callable[[str, bool], str]:
    """What sends a prompt to the client and waits for the end of its work."""
    if client == "claude":
        workspace = open_workspace(CLAUDE_CODE, programs, server, folder)
        limit = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(LIMIT + 33_000)}
        return lambda prompt, goes_on: workspace.run(prompt, goes_on=goes_on, **limit).text
    for name in ("home", "project"):
        (folder / name).mkdir()

    def send(prompt: str, goes_on: bool) -> str:
        options = ["-c", f"model_auto_compact_token_limit={LIMIT}", *(["resume", "--last"] if goes_on else [])]
        return codex(server, programs, folder / "home", folder / "project", prompt, *options, model=None)

    return send


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=("codex", "claude"))
    parser.add_argument("--unmanaged", action="store_true")
    parser.add_argument("--turns", type=int, default=len(STEPS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mnemosyne-ten-hours-") as folder:
        play(asked.client, Path(folder), asked.turns, manage=not asked.unmanaged)


if __name__ == "__main__":
    main()
