r"""A day of work in one session: ``python -m campaigns.clients.ten_hours codex|claude [--unmanaged] [--turns 2600]``.

A real client works on the 2,600 turns of ``ten_hours.txt``, whole recorded sessions one after the other
(``draw_steps.py``). The scripted model uses or edits one line that an earlier turn showed. It reads this part of the
file again exactly when the current text of the line is not in the request. Files, lines and order are the same in every
run. After each part the numbers so far are printed. Of the reads again, those for a use are where the recorded agent
read the text again, too.
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

from campaigns.clients.agents import Codex
from mnemosyne.app.threads import in_a_thread
from mnemosyne_lab.provider import from_data, open_standin
from mnemosyne_lab.provider.reading import Body
from mnemosyne_lab.provider.script import ScriptedReply
from tests.clients.agents import CLAUDE_CODE, Agent, Block
from tests.clients.installing import installed
from tests.clients.workspace import MNEMOSYNE, bare_environment, finished, open_workspace, serving

Json = dict[str, Any]

PART = 50
"""Turns for one prompt."""

WINDOW, LIMIT = 100_000, 120_000
"""Tokens: the window of a managed session; and where the client compacts its history, in both runs. Claude Code
compacts 33,000 below the window that it is told.
"""

STEPS = Path(__file__).with_suffix(".txt")

USES = ("u", "e")
"""The steps that need text of an earlier one: a use and an edit (``draw_steps.py``)."""

FORK = "FORKED PART"

CHARACTERS = 53
"""Of a line."""

AROUND = 20
"""So many lines before and after an edited one are read again; and so many follow the first lines of a file."""


@attrs.define
class Part:
    """Lines of a file that a step shows, and the line of them that it uses."""

    file: int
    lines: range
    used: int = 0


@attrs.define
class Plan:
    kinds: list[str] = attrs.field(factory=list)
    sizes: list[int] = attrs.field(factory=list)
    parts: list[Part | None] = attrs.field(factory=list)
    files: list[list[str]] = attrs.field(factory=list)
    wholes: set[int] = attrs.field(factory=set)
    """The files of which one step reads all."""

    @classmethod
    def load(cls, steps: Path = STEPS) -> "Plan":
        plan, chance, edited = cls(), random.Random(50), set[tuple[int, int]]()
        lines = steps.read_text().splitlines()
        for at, word in enumerate(" ".join(line for line in lines if line[0] != "#").split()):
            kind, (ago, size) = word[0], map(int, (["0", *word[1:].split(":")])[-2:])
            part = None
            if kind in USES:
                shown = plan._part(at - size)
                free = [line for line in shown.lines if (shown.file, line) not in edited] or shown.lines
                part = attrs.evolve(shown, used=chance.choice(free))
                if kind == "e":
                    part.lines = range(part.used, part.used + 1)
                    edited.add((part.file, part.used))
            elif kind != "t":
                file = plan._part(at - ago).file if kind == "p" else plan._add_file(whole=kind == "r")
                plan.wholes -= {file} if kind == "p" else set()
                part = plan._add_lines(file, max(1, size // CHARACTERS), chance)
            plan.kinds.append(kind)
            plan.sizes.append(size)
            plan.parts.append(part)
        for file in range(len(plan.files)):
            if file not in plan.wholes:
                plan._add_lines(file, AROUND, chance)
        return plan

    def _part(self, at: int) -> Part:
        part = self.parts[at]
        assert part is not None
        return part

    def _add_file(self, *, whole: bool) -> int:
        self.files.append([])
        if whole:
            self.wholes.add(len(self.files) - 1)
        return len(self.files) - 1

    def _add_lines(self, file: int, count: int, chance: random.Random) -> Part:
        first = len(self.files[file])
        self.files[file] += [
            f"rate_{file:04}_{line:04} = {chance.getrandbits(64)} + {chance.getrandbits(32)} v0"
            for line in range(first, first + count)
        ]
        return Part(file, range(first, first + count))


Look = Callable[[Path, range | None], Block]
"""The call that reads lines of a file, or all."""


@attrs.define
class Model:
    """Plays the turns; the only state beside the request is the place in the plan and the files' current lines."""

    project: Path
    look: Look
    edit: Callable[[Path, str, str], Block]
    shell: Callable[[str], Block]
    fork: Callable[[str], Block] | None = None
    end: int = 0
    at: int = 0
    counts: Counter[str] = attrs.field(factory=Counter)
    largest: int = 0
    plan: Plan = attrs.field(factory=Plan.load)
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
        kind, size, part = self.plan.kinds[self.at], self.plan.sizes[self.at], self.plan.parts[self.at]
        if part is None:
            self.at += 1
            self.counts["commands"] += 1
            return self.shell(f"seq -s ' ' {self.at}000000 {self.at}999999 | head -c {size}")
        path, lines = self._path(part.file), self.plan.files[part.file]
        if kind not in USES:
            self.at += 1
            self.counts["reads"] += 1
            if not path.exists():
                path.write_text("".join(f"{line}\n" for line in lines))
            return self._read(part)
        old = lines[part.used]
        if old not in text:
            if self._asked:
                self.counts["reads without the text"] += 1
            self._asked = True
            self.counts["reads"] += 1
            self.counts[f"reads again for {'a use' if kind == 'u' else 'an edit'}"] += 1
            return self._read(part)
        self._asked = False
        self.at += 1
        if kind == "u":
            self.counts["uses"] += 1
            return self.shell(f"echo {old.split()[0]} is used")
        lines[part.used] = f"{old.rpartition(' ')[0]} v{self.at}"
        self.counts["edits"] += 1
        return self.edit(path, old, lines[part.used])

    def _read(self, part: Part) -> Block:
        """Read the part, or the lines around its edited line."""
        lines = part.lines
        if len(lines) == 1:
            lines = range(max(0, part.used - AROUND), min(len(self.plan.files[part.file]), part.used + AROUND + 1))
        return self.look(self._path(part.file), None if part.file in self.plan.wholes else lines)

    def _play_fork(self, task: str, text: str) -> ScriptedReply:
        """The fork uses a line of a file that its parent has used; without it, it reads the file."""
        self.counts["fork requests"] += 1
        name = task[task.index(FORK) :].split(".")[0]
        part = self.plan.parts[int(name.split()[2])]
        assert part is not None
        line = self.plan.files[part.file][part.used]
        if self._forked[name]:
            return ScriptedReply(text="The part is done.")
        if line not in text:
            self.counts["reads"] += 1
            self.counts["fork reads again"] += 1
            return ScriptedReply(content=[self._read(part)])
        self._forked[name] = True
        return ScriptedReply(content=[self.shell(f"echo {line.split()[0]} is used")])

    def _name_fork(self) -> str:
        """The task of this part's fork, which names the turn closest to the middle of it that used or edited a line."""
        turns = (at for at, kind in enumerate(self.plan.kinds[: self.end]) if kind in USES)
        return f"{FORK} {min(turns, key=lambda at: abs(self.end - PART // 2 - at))} of turn {self.end}"

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
    agent: Agent = CLAUDE_CODE if client == "claude" else Codex(None, compacts_at=LIMIT)
    fork = CLAUDE_CODE.fork if client == "claude" else None
    look = _read if client == "claude" else lambda *part: agent.shell(_print(*part))
    model = Model(project, look, agent.edit, agent.shell, fork)
    settings = ("--manage", "--manage-window", str(WINDOW)) if manage else ()
    with (
        in_a_thread(lambda: open_standin(from_data({}), model=model), "the provider of the campaign") as standin,
        serving(standin, *settings, data_dir=data_dir) as server,
    ):
        workspace = open_workspace(agent, programs, server, folder)
        options = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(LIMIT + 33_000)}
        while model.at < turns:
            model.end = min(model.at + PART, turns)
            said = workspace.run(f"Go on up to turn {model.end}.", goes_on=model.at > 0, **options)
            assert said.text == f"{model.end} turns are done."
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


def _read(file: Path, lines: range | None) -> Block:
    block = CLAUDE_CODE.read(file)
    block["input"] |= {"offset": lines.start + 1, "limit": len(lines)} if lines else {}
    return block


def _print(file: Path, lines: range | None) -> str:
    return f"sed -n '{lines.start + 1},{lines.stop}p' {file}" if lines else f"cat {file}"


def _usage(payload: bytes) -> tuple[int, int]:
    """The tokens of a prompt, and how many of them were read from the cache."""

    def first(name: bytes) -> int:
        found = re.search(rb'"%s": ?(\d+)' % name, payload)
        return int(found[1]) if found else 0

    read = first(b"cache_read_input_tokens")
    return first(b"input_tokens") + read + first(b"cache_creation_input_tokens"), read + first(b"cached_tokens")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=("codex", "claude"))
    parser.add_argument("--unmanaged", action="store_true")
    parser.add_argument("--turns", type=int, default=len(Plan.load().kinds))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mnemosyne-ten-hours-") as folder:
        play(asked.client, Path(folder), asked.turns, manage=not asked.unmanaged)


if __name__ == "__main__":
    main()
