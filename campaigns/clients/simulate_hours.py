"""The long session without clients: ``python -m campaigns.clients.simulate_hours [STEPS]...``.

It plays ``ten_hours.txt`` through the real planner, with the sizes of Codex and the prices of its default model, and
prints the table of ``docs/research/planning.md``; each STEPS, another file of ``draw_steps.py``, adds a column. Sizes
are estimates, an object is a call, and no cache entry expires.
"""

import sys
from collections import Counter, defaultdict
from fractions import Fraction
from functools import partial
from math import isqrt
from pathlib import Path
from typing import Any

import attrs

from campaigns.clients.ten_hours import AROUND, PART, USES, Part, Plan
from mnemosyne.domain.objects.fidelity import Fidelity, FidelityMode
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.window.ages import AGES, EDITED, Age, Candidate, Later, Quotable, Reuse, find_quotable, later_of
from mnemosyne.domain.window.planning import RULE, Rule, Situation, planner
from mnemosyne_lab.evaluation.policies import MNEMOSYNE

TOKENS, CALL = Fraction(366, 1000), 325
"""Tokens per character of the scripted provider, and characters of a call around its result."""

HEAD, FIXED = 26_000, 200
"""Tokens of instructions and tools. Codex sends them as messages, so the planner counts only ``FIXED`` as fixed."""

LINE, SUMMARY, CHARACTERS = 45, 2_000, 54
"""Tokens of the line about an evicted object, tokens of the client's own summary, and characters of a file's line."""

PRICES = {"its own": (Fraction(1, 20), Fraction(5, 4)), "api-5m": (Fraction(1, 10), Fraction(5, 4))}
"""Of a token that is read from the cache, and of one that is written to it. Plans are made for the first."""

LIMIT = 467_000
"""Tokens at which, as the server assumes, this model's client compacts: the limit if none is set."""

COMPACTS = (120_000, 258_000, 450_000)
"""Tokens at which Codex compacts: in the campaign, by default with most models, and with its default model."""


@attrs.define
class Shown:
    """The result of a call at a step: lines of a file, or another text."""

    at: int
    each: Candidate
    lines: range

    def has(self, line: int) -> bool:
        is_extract = self.each.fidelity is Fidelity.DETAILED and EDITED not in self.each.tags  # it shows the last lines
        shown = self.lines[-isqrt(6 * len(self.lines)) :] if is_extract else self.lines
        return self.each.fidelity <= Fidelity.DETAILED and line in shown


@attrs.define(kw_only=True)
class Run:
    """A session: managed in a ``window``, or unmanaged with a client that ``compacts`` at this number of tokens. With
    ``knows``, it releases the files that no later step needs and keeps the others.
    """

    plan: Plan
    window: int = 0
    limit: int = 0
    compacts: int = 10**9
    mode: FidelityMode = FidelityMode.GRADED
    rule: Rule = RULE
    knows: bool = False
    shown: list[Shown] = attrs.field(factory=list)
    by_file: defaultdict[int, list[Shown]] = attrs.field(factory=lambda: defaultdict(list))
    edited: dict[tuple[int, int], int] = attrs.field(factory=dict)
    counts: Counter[str] = attrs.field(factory=Counter)
    lowered: dict[str, bool] = attrs.field(factory=dict)
    """Objects below L1, and whether they were read again."""
    cached: int = 0
    written: int = 0
    shadow: int = 0
    """Tokens read from the cache if nothing ever left the window: too many from LIMIT on, where that binds no more."""
    whole: int = 0
    at: int = 0
    prompt: int = 0
    new: int = HEAD
    peak: int = 0
    turn: int = 0
    exchange: int = 1
    epoch: int | None = None

    def play(self) -> "Run":
        steps = zip(self.plan.kinds, self.plan.sizes, self.plan.parts, strict=True)
        for self.at, (kind, size, part) in enumerate(steps):
            self.request()
            if part is None:
                self.add(size)
            elif kind not in USES:
                self.show(part.file, part.lines)
            else:
                if not self.find(part):
                    self.counts[kind] += 1
                    around = range(max(0, part.used - AROUND), part.used + AROUND + 1)
                    self.show(part.file, part.lines if kind == "u" else around)
                    self.request()
                if kind == "e":
                    self.edited[part.file, part.used] = self.at
                    self.add(200, part.file, range(part.used, part.used + 1), EDITED)
                else:
                    self.add(200)
            if not (self.at + 1) % PART:
                self.request()
                self.exchange = self.turn + 1
        return self

    def find(self, part: Part) -> list[Shown]:
        """The results that show the current text of a line."""
        since = self.edited.get((part.file, part.used), -1)
        return [s for s in self.by_file[part.file] if s.at >= since and s.has(part.used)]

    def show(self, file: int, lines: range) -> None:
        self.counts["reads"] += 1
        whole = file in self.plan.wholes
        lines = range(len(self.plan.files[file])) if whole else lines
        known = [s for s in self.by_file[file] if s.lines.start < lines.stop and lines.start < s.lines.stop]
        before = next((s.each for s in reversed(known) if "read" in s.each.tags), None)
        if before is not None and before.key in self.lowered:
            self.lowered[before.key] = True
        shown = "whole" if whole else f"lines:{lines.start}-{lines.stop}"
        self.add(CHARACTERS * len(lines), file, lines, "read", shown)

    def add(self, size: int, file: int | None = None, lines: range = range(0), *tags: str) -> None:
        """The result of a command, or what a call showed of a file."""
        full = int(TOKENS * (CALL + size))
        extract = full - 40 if EDITED in tags else 230 + 14 * isqrt(full)
        if file is not None and EDITED in tags:  # a use of the newest read of it; none of them is current any more
            for number, old in enumerate(s for s in reversed(self.by_file[file]) if "read" in s.each.tags):
                used = old.each.last_use if number else self.turn
                old.each = attrs.evolve(old.each, stale=True, last_use=max(used, old.each.last_use))
        made = Candidate(
            key=str(len(self.shown)),
            kind=ObjectKind.TOOL_RESULT if file is None else ObjectKind.FILE_CONTEXT,
            role=Role.TRANSCRIPT,
            tags=tags or ("run",),
            source_key=None if file is None else str(file),
            fidelity=Fidelity.FULL,
            tokens=(full, extract, None, min(full, 190), LINE),
            thinking=20,
            born=self.turn + 1,
            last_use=self.turn + 1,
            last_fault=None,
            stale=False,
            kept=False,
        )
        self.shown.append(Shown(self.at, made, lines))
        if file is not None:
            self.by_file[file].append(self.shown[-1])
        self.new += full

    def request(self) -> None:
        self.turn += 1
        if self.prompt + self.new > self.compacts:
            self.counts["compactions"] += 1
            self.cached += self.prompt
            self.prompt, self.new = HEAD, SUMMARY
            self.by_file.clear()
        plan = planner(self._situation(), self._list_candidates, self.rule) if self.window else None
        self.shadow += self.whole
        self.whole += self.new
        kept, prompt = self.prompt, self.prompt + self.new
        if plan is not None:
            for key, after in plan.fidelities.items():
                old = self.shown[int(key)]
                old.each = attrs.evolve(old.each, fidelity=after)
                if after > Fidelity.DETAILED:
                    self.lowered.setdefault(key, False)
            there = [s.each.at(s.each.fidelity) or 0 for s in self.shown if s.each.fidelity is not Fidelity.EVICTED]
            named = min(int(RULE.told * self.window), LINE * (len(self.shown) - len(there)))
            kept, prompt, self.epoch = HEAD, HEAD + named + sum(there), self.turn
        self.cached += kept
        self.written += prompt - kept
        self.prompt, self.new, self.peak = prompt, 0, max(self.peak, prompt)

    def _count_reuse(self) -> dict[Quotable, Reuse]:
        found: defaultdict[Quotable, list[bool]] = defaultdict(list)
        for key, needed in self.lowered.items():
            each = self.shown[int(key)].each
            if (kind := find_quotable(each.kind, each.tags)) is not None:
                found[kind].append(needed)
        return {kind: Reuse(len(known), sum(known)) for kind, known in found.items()}

    def _situation(self) -> Situation:
        read, write = PRICES["its own"]
        return Situation(
            turn=self.turn,
            prompt=self.prompt + self.new,
            fixed=FIXED,
            new=self.new,
            idle=0 if self.turn > 1 else None,
            ttl=1,
            write=write,
            read=read,
            window=self.window,
            limit=self.limit,
            billed=self.cached * read + self.written * write,
            shadow=self.shadow * read + self.whole * write,
            unmanaged=self.whole + self.new,
            last_epoch=self.epoch,
            exchange=self.exchange,
            reuse=self._count_reuse(),
            mode=self.mode,
        )

    def _list_candidates(self) -> list[Candidate]:
        later = later_of((s.each.key, s.each.source_key, s.each.tags) for s in self.shown)
        there = [s.each for s in self.shown if s.each.fidelity is not Fidelity.EVICTED or EDITED in s.each.tags]
        needed = self._list_needed() if self.knows else {each.key for each in there}
        return [
            attrs.evolve(
                each,
                kept=each.born > self.turn - 3 or (self.knows and each.key in needed),
                last_use=0 if each.source_key is not None and each.key not in needed else each.last_use,
                thinking=20 if each.born > (self.epoch or 0) else 0,
                later=later.get(each.key, Later.NOTHING),
            )
            for each in there
        ]

    def _list_needed(self) -> set[str]:
        """The newest object in full for each later use or edit."""
        steps = zip(self.plan.kinds[self.at :], self.plan.parts[self.at :], strict=True)
        return {shown[-1].each.key for kind, part in steps if part and kind in USES and (shown := self.find(part))}


def stay(times: int) -> Rule:
    """The rule with files staying so many times as long."""
    files = {name: getattr(AGES, name) for name in ("whole", "part", "whole_edited", "part_edited")}
    longer: Any = {name: Age(age.turns * times, age.fewer * times) for name, age in files.items()}
    return attrs.evolve(RULE, ages=attrs.evolve(AGES, **longer))


FOUR, SIXTEEN = (attrs.evolve(MNEMOSYNE, name=f"x {n}", planner=partial(planner, rule=stay(n))) for n in (4, 16))
"""For recorded sessions: ``mnemosyne evaluate --policy mnemosyne,campaigns.clients.simulate_hours:FOUR FILE``."""

VARIANTS: dict[str, dict[str, Any]] = {
    "`graded`": {},
    "`thrifty`": {"mode": FidelityMode.THRIFTY},
    "ages of files x 4": {"rule": stay(4)},
    "ages of files x 16": {"rule": stay(16)},
    "knows the future": {"knows": True},
}


def main(*others: str) -> None:
    plans = [Plan.load(), *map(Plan.load, map(Path, others))]
    runs: dict[str, dict[str, Any]] = {f"unmanaged, compacts at {at:,}": {"compacts": at} for at in COMPACTS}
    for window, limit in ((100_000, 100_000), (160_000, LIMIT)):
        runs |= {f"{window:,}, {name}": {"window": window, "limit": limit} | each for name, each in VARIANTS.items()}
    for name, settings in runs.items():
        played = [Run(plan=plan, **settings).play() for plan in plans]
        shares = [f"{100 * (each.counts['e'] + each.counts['u']) / each.counts['reads']:.1f} %" for each in played]
        first = played[0]
        bills = [f"{float(first.cached * read + first.written * write) / 1e6:.1f}M" for read, write in PRICES.values()]
        again = f"{first.counts['e']} + {first.counts['u']} of {first.counts['reads']} ({shares[0]})"
        row = (name, again, first.counts["compactions"], *bills, f"{first.peak:,}", *shares[1:])
        sys.stdout.write(f"| {' | '.join(map(str, row))} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
