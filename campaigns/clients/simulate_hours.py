"""The long session without clients: ``python -m campaigns.clients.simulate_hours TARIFF [STEPS]``.

It plays ``ten_hours.txt``, or another file of ``draw_steps.py``, through the real planner, with the sizes of Codex and
its default model, and counts the rereads. Sizes are estimates, each call makes one object, and no cache entry expires.
"""

import sys
from collections import Counter
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Any

import attrs

from campaigns.clients.ten_hours import AROUND, PART, USES, Part, Plan
from mnemosyne.domain.objects.fidelity import Fidelity, FidelityMode
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.window.ages import AGES, EDITED, Age, Candidate, Later, Quotable, Reuse, find_quotable, later_of
from mnemosyne.domain.window.planning import RULE, Rule, Situation, planner

TOKENS, CALL = Fraction(366, 1000), 325
"""Tokens per character of the scripted provider, and characters of a call around its result."""

HEAD, FIXED = 26_000, 200
"""Tokens of instructions and tools. Codex sends them as messages, so the planner counts only ``FIXED`` as fixed."""

LINE, SUMMARY, CHARACTERS = 45, 2_000, 54
"""Tokens of the line about an evicted object, tokens of the client's own summary, and characters of a file's line."""

PRICES = {
    "codex": (Fraction(1, 20), Fraction(5, 4)),
    "api-5m": (Fraction(1, 10), Fraction(5, 4)),
    "quota": (Fraction(1), Fraction(1)),
}
"""Prices of a cache read and a cache write, relative to a token of plain input."""

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
        lines, fidelity = self.lines, self.each.fidelity
        if fidelity is Fidelity.DETAILED and EDITED not in self.each.tags:
            lines = lines[-isqrt(6 * len(lines)) :]  # the extract shows the last ones
        return fidelity <= Fidelity.DETAILED and line in lines


@attrs.define(kw_only=True)
class Run:
    """A session: managed in a ``window``, or unmanaged with a client that ``compacts`` at this number of tokens. With
    ``knows``, it releases the files that no later step needs and keeps the others.
    """

    plan: Plan
    read: Fraction
    write: Fraction
    window: int = 0
    limit: int = 0
    compacts: int = 10**9
    mode: FidelityMode = FidelityMode.GRADED
    rule: Rule = RULE
    knows: bool = False
    shown: list[Shown] = attrs.field(factory=list)
    edited: dict[tuple[int, int], int] = attrs.field(factory=dict)
    counts: Counter[str] = attrs.field(factory=Counter)
    lowered: dict[str, bool] = attrs.field(factory=dict)
    """Whether each object that was lowered below L1 was read again, by its key."""
    reuse: dict[Quotable, Reuse] = attrs.field(factory=dict)
    billed: Fraction = Fraction(0)
    shadow: Fraction = Fraction(0)
    """The bill without evictions. It is too high above 467,000 tokens, but has no effect there."""
    whole: int = 0
    prompt: int = 0
    new: int = HEAD
    peak: int = 0
    turn: int = 0
    exchange: int = 1
    epoch: int | None = None

    def play(self) -> "Run":
        for at, (kind, size, part) in enumerate(zip(self.plan.kinds, self.plan.sizes, self.plan.parts, strict=True)):
            self.request(at)
            if part is None:
                self.add(at, ("run",), None, range(0), size)
            elif kind not in USES:
                self.show(at, part.file, part.lines)
            else:
                if not self.find(part):
                    self.counts[kind] += 1
                    self.show(at, part.file, part.lines if kind == "u" else _around(part))
                    self.request(at)
                if kind == "e":
                    self.edited[part.file, part.used] = at
                self.add(at, (EDITED,) if kind == "e" else ("run",), part.file, range(part.used, part.used + 1), 200)
            if not (at + 1) % PART:
                self.request(at)
                self.exchange = self.turn + 1
        return self

    def find(self, part: Part) -> list[Shown]:
        """The results that show the current text of a line."""
        since = self.edited.get((part.file, part.used), -1)
        return [s for s in self.shown if s.each.source_key == str(part.file) and s.at >= since and s.has(part.used)]

    def show(self, at: int, file: int, lines: range) -> None:
        self.counts["reads"] += 1
        whole = file in self.plan.wholes
        lines = range(len(self.plan.files[file])) if whole else lines
        known = [s for s in self.shown if s.each.source_key == str(file) and "read" in s.each.tags]
        before = next((s for s in reversed(known) if s.lines.start < lines.stop and lines.start < s.lines.stop), None)
        if before is not None and self.lowered.get(before.each.key) is False:
            self.lowered[before.each.key] = True
            self._count(before.each, needed=1)
        self.add(at, ("read", "whole" if whole else f"lines:{lines.start}-{lines.stop}"), file, lines, 0)

    def add(self, at: int, tags: tuple[str, ...], file: int | None, lines: range, size: int) -> None:
        kind = ObjectKind.TOOL_RESULT if "run" in tags else ObjectKind.FILE_CONTEXT
        full = int(TOKENS * (CALL + (size or CHARACTERS * len(lines))))
        extract = full - 40 if EDITED in tags else 230 + 14 * isqrt(full)
        if EDITED in tags:  # an edit uses the newest read of the file and outdates all of them
            reads = [s for s in self.shown if s.each.source_key == str(file) and "read" in s.each.tags]
            for number, old in enumerate(reversed(reads)):
                used = old.each.last_use if number else self.turn
                old.each = attrs.evolve(old.each, stale=True, last_use=max(used, old.each.last_use))
        made = Candidate(
            key=str(len(self.shown)),
            kind=kind,
            role=Role.TRANSCRIPT,
            tags=tags,
            source_key=None if "run" in tags else str(file),
            fidelity=Fidelity.FULL,
            tokens=(full, extract, None, min(full, 190), LINE),
            thinking=20,
            born=self.turn + 1,
            last_use=self.turn + 1,
            last_fault=None,
            stale=False,
            kept=False,
        )
        self.shown.append(Shown(at, made, lines))
        self.new += full

    def request(self, at: int) -> None:
        self.turn += 1
        if self.prompt + self.new > self.compacts:
            self.counts["compactions"] += 1
            self.billed += self.prompt * self.read
            self.prompt, self.new = HEAD, SUMMARY
            for old in self.shown:
                old.each = attrs.evolve(old.each, fidelity=Fidelity.EVICTED)
        plan = planner(self._situation(), lambda: self._list_candidates(at), self.rule) if self.window else None
        self.shadow += self.whole * self.read + self.new * self.write
        self.whole += self.new
        if plan is None:
            self.billed += self.prompt * self.read + self.new * self.write
            self.prompt += self.new
        else:
            for key, after in plan.fidelities.items():
                old = self.shown[int(key)]
                old.each = attrs.evolve(old.each, fidelity=after)
                if after > Fidelity.DETAILED and key not in self.lowered:
                    self.lowered[key] = False
                    self._count(old.each, evicted=1)
            there = [s.each.at(s.each.fidelity) or 0 for s in self.shown if s.each.fidelity is not Fidelity.EVICTED]
            named = min(int(RULE.told * self.window), LINE * (len(self.shown) - len(there)))
            self.prompt, self.epoch = HEAD + named + sum(there), self.turn
            self.billed += HEAD * self.read + (self.prompt - HEAD) * self.write
        self.new, self.peak = 0, max(self.peak, self.prompt)

    def _count(self, each: Candidate, evicted: int = 0, needed: int = 0) -> None:
        kind = find_quotable(each.kind, each.tags)
        if kind is not None:
            known = self.reuse.get(kind, Reuse())
            self.reuse[kind] = Reuse(known.evicted + evicted, known.needed + needed)

    def _situation(self) -> Situation:
        return Situation(
            turn=self.turn,
            prompt=self.prompt + self.new,
            fixed=FIXED,
            new=self.new,
            idle=0 if self.turn > 1 else None,
            ttl=1,
            write=self.write,
            read=self.read,
            window=self.window,
            limit=self.limit,
            billed=self.billed,
            shadow=self.shadow,
            unmanaged=self.whole + self.new,
            last_epoch=self.epoch,
            exchange=self.exchange,
            reuse=dict(self.reuse),
            mode=self.mode,
        )

    def _list_candidates(self, at: int) -> list[Candidate]:
        later = later_of((s.each.key, s.each.source_key, s.each.tags) for s in self.shown)
        needed = self._list_needed(at) if self.knows else set()
        found = []
        for each in (s.each for s in self.shown):
            if each.born <= self.turn and (each.fidelity is not Fidelity.EVICTED or EDITED in each.tags):
                gone = self.knows and each.source_key is not None and each.key not in needed
                kept = each.born > self.turn - 3 or each.key in needed
                used, thinks = 0 if gone else each.last_use, 20 if each.born > (self.epoch or 0) else 0
                found.append(
                    attrs.evolve(
                        each, kept=kept, last_use=used, thinking=thinks, later=later.get(each.key, Later.NOTHING)
                    )
                )
        return found

    def _list_needed(self, at: int) -> set[str]:
        """The keys of the newest objects that show the lines of later uses and edits."""
        steps = [p for kind, p in zip(self.plan.kinds[at:], self.plan.parts[at:], strict=True) if kind in USES and p]
        return {found[-1].each.key for part in steps if (found := self.find(part))}


def _around(part: Part) -> range:
    return range(max(0, part.used - AROUND), part.used + AROUND + 1)


def stay(times: int) -> Rule:
    """The rule under which files may stay this many times as long."""
    ages: dict[str, Any] = {}
    for name in ("whole", "part", "whole_edited", "part_edited"):
        age = getattr(AGES, name)
        ages[name] = Age(age.turns * times, age.fewer * times)
    return attrs.evolve(RULE, ages=attrs.evolve(AGES, **ages))


def main(tariff: str, *steps: str) -> None:
    read, write = PRICES[tariff]
    runs: dict[str, dict[str, Any]] = {f"unmanaged, compacts at {at:,}": {"compacts": at} for at in COMPACTS}
    for window, limit in ((100_000, 100_000), (160_000, LIMIT)):
        there = {"window": window, "limit": limit}
        runs[f"graded, {window:,}"] = there
        runs |= {f"ages x {times}, {window:,}": {**there, "rule": stay(times)} for times in (16, 4)}
        runs[f"knows, {window:,}"] = {**there, "knows": True}
        runs[f"thrifty, {window:,}"] = {**there, "mode": FidelityMode.THRIFTY}
    for name, settings in runs.items():
        run = Run(plan=Plan.load(*map(Path, steps)), read=read, write=write, **settings).play()
        again, reads = run.counts["e"] + run.counts["u"], run.counts["reads"]
        sys.stdout.write(
            f"{tariff}: {name}: {run.counts['e']} + {run.counts['u']} of {reads} reads again"
            f" ({100 * again / reads:.1f} %), {float(run.billed) / 1e6:.1f}M, peak {run.peak:,},"
            f" {run.counts['compactions']} compactions\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
