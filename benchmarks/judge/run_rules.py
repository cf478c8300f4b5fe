"""Questions about runs: failures and their reasons, passed tests, changes in a diff, commits."""

import re
from collections.abc import Iterator, Sequence

from benchmarks.judge.answers import Answer, Pair, either, exactly, in_words
from benchmarks.judge.sources import Source

_FAILED = (
    re.compile(r"^\s*--- FAIL: (\S+)"),
    re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\S+)?)"),
    re.compile(r"^(?:FAIL|ERROR): (\w+) \("),
    re.compile(r"^FAIL\t(\S+)\t"),
)
_REASON = (
    re.compile(
        r"^\s+(?P<where>\w+_test\.go:\d+): (?P<said>.*(?i:error|fail|expected|want|should|unexpected|got|not).*)$"
    ),
    re.compile(r"^(?:E\s+)?(?P<where>[\w.]*(?:Error|Exception|Failed|DoesNotExist|Warning)): (?P<said>\S.*)$"),
    re.compile(r"^(?:vet: )?(?P<where>\.?[\w./-]+\.(?:go|py|ts|js):\d+:\d+): (?P<said>\S.*)$"),
    re.compile(r"^(?P<where>fatal|error): (?P<said>\S.*)$"),
    re.compile(r"^- (?P<where>[EF]\d{3}) (?P<said>\S.*)$"),
    re.compile(r"^(?P<where>bash|sh|/bin/sh): (?P<said>.*(?:not found|No such).*)$"),
)
_FIRST_TELLS = _REASON[2:3]
"""A compiler's first error is the cause; a run's last one is."""

_FAILS = ("FAIL", "FAILED", "ERROR", "failed", "failure")
_UNTOLD = re.compile(r"Shell cwd was reset|(?:Creating|Destroying) test database|Created (?:context|shadow)|agentId:")
_REFUSED = re.compile(r"^(?:<tool_use_error>|Error: )(.+?)(?:</tool_use_error>)?$", re.DOTALL)
_OUTCOME = re.compile(r"^\s*--- (PASS|FAIL): (\S+)")
_PACKAGE = re.compile(r"^(ok|FAIL)\s+\t?(\S+/\S+)\t")
_COUNTS = (
    re.compile(r"^=+ .*?\b(\d+) (passed|failed)\b.* in [\d.]+s.*=+$"),
    re.compile(r"^(?:Ran) (\d+) (tests?) in "),
    re.compile(r"^(?:Tests:|test result:).*?(\d+) (passed|failed)"),
)
_STAT = re.compile(r"^ (?:\.\.\.)?(\S*?)([\w.-]+)\s+\|\s+\d+ [+-]+$")
_STAT_SUM = re.compile(r"^ \d+ files? changed, (\d+) (insertion|deletion)")
_STATUS = re.compile(r"^(?:[ MADRU?]{2} |\t?(?:modified|new file|deleted):\s+)(\S+)$")
_DIFF = re.compile(r"^diff --git a/(\S+) b/\S+")
_ADDED = re.compile(r"^\+\s*(?:func|def|class|type|const|import|if|return|self|[A-Za-z_]).{18,}$")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{3,}")
_COMMIT = re.compile(r"^(?:commit )?([0-9a-f]{7,40}) (?:\([^)]*\) )?([A-Za-z]\S+(?: \S+){1,12})$")
_MOST_FILES = 8
_FEWEST_NAMES = 3
_SAME_REASON = 0.8


def pairs(source: Source) -> Iterator[Pair]:
    """What can be asked about the output of a command, or about a call that was refused."""
    if source.speaker != "tool":
        return
    lines = source.lines
    yield from _failures(source, lines)
    yield from _refusal(source)
    if source.command:
        yield from _counts(source, lines)
        yield from _outcomes(source, lines)
        yield from _changes(source, lines)
        yield from _commits(source, lines)
        yield from _end(source, lines)


def _failures(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    failed = list(dict.fromkeys(match[1] for line in lines for pattern in _FAILED if (match := pattern.match(line))))
    tests = [each for each in failed if "." not in each.partition("/")[0] or "::" in each]
    tests = list(dict.fromkeys(each if "::" in each else each.partition("/")[0] for each in tests)) or failed
    if source.command and 0 < len(tests) <= _MOST_FILES:
        yield Pair("what-failed", f"{source.name} failed", "which tests or packages?", tuple(map(_failed, tests)))
    if not (failed or source.failed or any("Traceback" in line for line in lines)):
        return
    for pattern in _REASON:
        found = [match for line in lines if (match := pattern.match(line))]
        if found:
            told = found[0] if pattern in _FIRST_TELLS else found[-1]
            answer = _reason(told["where"], told["said"])
            yield Pair("why-failed", f"{source.name} failed", "why?", (answer,))
            return


def _failed(test: str) -> Answer:
    """A test or package by its name, and that it failed."""
    return either(*((name, word) for name in dict.fromkeys((test, test.rpartition("::")[2])) for word in _FAILS))


def _reason(where: str, said: str) -> Answer:
    words = in_words(said[:200], _SAME_REASON)
    return Answer(((where, *words.ways[0]),), words.share) if words else exactly(where, *said.split()[:6])


def _refusal(source: Source) -> Iterator[Pair]:
    match = _REFUSED.match(source.text.strip())
    answer = in_words(match[1][:200].partition("\n")[0], _SAME_REASON) if match else None
    if answer:
        yield Pair("why-refused", f"{source.name} failed", "why?", (answer,))


def _counts(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for line in lines:
        for pattern in _COUNTS:
            match = pattern.match(line)
            if match:
                what = "tests ran" if match[2].startswith("test") else f"tests {match[2]}"
                yield Pair("how-many", source.name, f"how many {what}?", (exactly(match[1], match[2]),))


def _outcomes(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for line in lines:
        match = _OUTCOME.match(line)
        if match:
            said = (exactly(match[2], match[1]),) if match[1] == "PASS" else (exactly(match[2], "FAIL"),)
            yield Pair("outcome", source.name, f"did {match[2]} pass?", said)
        match = _PACKAGE.match(line)
        if match:
            last = "/".join(match[2].split("/")[-2:])
            yield Pair("outcome", source.name, f"did the package {match[2]} pass?", (exactly(match[1], last),))


def _changes(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    files: dict[str, None] = {}
    for line in lines:
        match = _STAT.match(line)
        if match:
            files[match[2]] = None
        for pattern in (_STATUS, _DIFF):
            match = pattern.match(line)
            if match:
                files[match[1].rstrip("/").rpartition("/")[2]] = None
        match = _STAT_SUM.match(line)
        if match:
            asks = f"how many {match[2]}s?"
            yield Pair("how-many", source.name, asks, (either((match[1], f"{match[2]}s"), (match[1], match[2])),))
    files = {name: None for name in files if name not in source.command}
    if "git" in source.command and 0 < len(files) <= _MOST_FILES:
        yield Pair("changed-files", source.name, "which files are changed?", tuple(map(exactly, files)))
    yield from _added(source, lines)


def _added(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    """The first line of each file's diff that adds something with names that it does not take out elsewhere."""
    file, removed = "", "\n".join(line for line in lines if line.startswith("-"))
    for line in lines:
        match = _DIFF.match(line)
        if match:
            file = match[1]
        elif file and _ADDED.match(line):
            names = list(dict.fromkeys(_IDENTIFIER.findall(line)))
            answer = Answer((tuple(names),), 0.8)
            if len(names) >= _FEWEST_NAMES and not answer.stands_in(removed):
                name = file.rpartition("/")[2]
                yield Pair("added-in", source.name, f"what does the diff add to {name}?", (answer,))
                file = ""


def _commits(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for line in lines:
        match = _COMMIT.match(line) if "git" in source.command else None
        if match:
            subject = match[2].split()
            asks = f"which commit is “{match[2]}”?"
            yield Pair("which-commit", source.name, asks, (exactly(match[1][:7], *subject[:2]),))


def _end(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    """The last output line, if it is a sentence."""
    last = next((line.strip() for line in reversed(lines) if line.strip() and not _UNTOLD.search(line)), "")
    said = re.fullmatch(r"[A-Z][a-z]\w*[:,]? .{16,160}[.!:\w]", last)
    answer = in_words(last) if said else None
    if answer:
        yield Pair("said-last", source.name, "what did it say last?", (answer,))
