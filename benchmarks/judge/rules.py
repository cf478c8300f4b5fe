"""Rules that make questions about an object's source, by what it is: a file, a run, a search, a text, a record.

Files and the text of programs are asked where something is defined, its signature, a setting's value; runs for failures
and their reasons, passed tests, changes in a diff, commits; searches for lines, files, counts; texts for the user's
request, conclusions and decisions, the steps of a plan; records in JSON for the value of a field of one of them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.judge.answers import Answer, Pair, either, exactly, in_words, own_words
from benchmarks.judge.sources import Source

# Files

_NUMBERED = re.compile(r"^\s*(\d+)(?:→|\t|:)(.*)$")
_DEFINITION = re.compile(
    r"^\s{0,4}(?:export\s+|default\s+|pub\s+|async\s+|static\s+)*"
    r"(?:func(?:\s*\([^)]*\))?|def|class|type|fn|struct|interface|function)\s+([A-Za-z_]\w{3,})"
)
_PARAMETERS = re.compile(r"\(([^()]*)\)")
_NAME_IN_CODE = re.compile(r"[A-Za-z_]\w+")
_SETTING = re.compile(
    r"^(?:\t|\s{0,4})(?:export\s+|const\s+|var\s+|let\s+|static\s+)*[\"']?([A-Za-z_][\w.-]{3,})[\"']?"
    r"\s*(?::=|=|:)\s*(?:[\"']([^\"']{2,60})[\"']|(-?\d[\d._]+))\s*[,;]?\s*(?:(?://|#).*)?$"
)
_HEADING = re.compile(r"^#{1,4}\s+(\S.{5,70}?)\s*#*$")
_FEWEST_PARAMETERS = 2


def ask_about_files(source: Source) -> Iterator[Pair]:
    """What can be asked about a file that was read or written."""
    if source.pattern:
        return
    read = _match(_NUMBERED, source.lines)
    for number, line in (match.groups() for match in read):
        if match := _DEFINITION.match(line):
            yield Pair("defined-at", source.name, f"which line defines {match[1]}?", (exactly(match[1], number),))
    written = source.given.get("content")
    plain = written.split("\n") if isinstance(written, str) else source.lines
    code = [match[2] for match in read] or plain
    yield from _signatures(source, code)
    yield from _settings(source, code)
    if source.path.endswith((".md", ".rst")):
        yield from _sections(source)


def _match(pattern: re.Pattern[str], lines: Iterable[str]) -> list[re.Match[str]]:
    """The lines that a pattern matches."""
    return [match for line in lines if (match := pattern.match(line))]


def _signatures(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for match in _match(_DEFINITION, lines):
        given = _PARAMETERS.search(match.string, match.end())
        names = list(dict.fromkeys(_NAME_IN_CODE.findall(given[1] if given else "")))
        if len(names) >= _FEWEST_PARAMETERS:
            yield Pair("signature", source.name, f"what does {match[1]} take?", (exactly(match[1], *names),))


def _settings(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    """Only names that are set once, because others are ambiguous."""
    found = _match(_SETTING, lines)
    times = Counter(match[1] for match in found)
    for match in found:
        value = (match[2] or match[3]).strip()
        if times[match[1]] == 1 and value:
            yield Pair("value-of", source.name, f"what is the value of {match[1]}?", (exactly(match[1], value),))


def _sections(source: Source) -> Iterator[Pair]:
    """The first sentence below a heading."""
    lines = [match[2] if (match := _NUMBERED.match(line)) else line for line in source.lines]
    for heading, blank, first in zip(lines, lines[1:], lines[2:], strict=False):
        match = _HEADING.match(heading) if not blank.strip() and first[:1].isalpha() else None
        if match and (answer := in_words(first[:200].partition(". ")[0])):
            yield Pair("section", source.name, f"what does the section {match[1]} say first?", (answer,))


# Runs

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
_ADDED_NAME = re.compile(r"[A-Za-z_]\w{3,}")
_COMMIT = re.compile(r"^(?:commit )?([0-9a-f]{7,40}) (?:\([^)]*\) )?([A-Za-z]\S+(?: \S+){1,12})$")
_MOST_FILES = 8
_FEWEST_NAMES = 3
_SAME_REASON = 0.8


def ask_about_runs(source: Source) -> Iterator[Pair]:
    """What can be asked about the output of a command, or about a call that was refused."""
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
    failed = list(dict.fromkeys(each[1] for line in lines for pattern in _FAILED for each in _match(pattern, [line])))
    tests = [each for each in failed if "." not in each.partition("/")[0] or "::" in each]
    tests = list(dict.fromkeys(each if "::" in each else each.partition("/")[0] for each in tests)) or failed
    if source.command and 0 < len(tests) <= _MOST_FILES:
        yield Pair("what-failed", f"{source.name} failed", "which tests or packages?", tuple(map(_failed, tests)))
    if not (failed or source.failed or any("Traceback" in line for line in lines)):
        return
    for pattern in _REASON:
        found = _match(pattern, lines)
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
    if match and (answer := in_words(match[1][:200].partition("\n")[0], _SAME_REASON)):
        yield Pair("why-refused", f"{source.name} failed", "why?", (answer,))


def _counts(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for match in (match for line in lines for pattern in _COUNTS for match in _match(pattern, [line])):
        what = "tests ran" if match[2].startswith("test") else f"tests {match[2]}"
        yield Pair("how-many", source.name, f"how many {what}?", (exactly(match[1], match[2]),))


def _outcomes(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for line in lines:
        if match := _OUTCOME.match(line):
            yield Pair("outcome", source.name, f"did {match[2]} pass?", (exactly(match[2], match[1]),))
        if match := _PACKAGE.match(line):
            last = "/".join(match[2].split("/")[-2:])
            yield Pair("outcome", source.name, f"did the package {match[2]} pass?", (exactly(match[1], last),))


def _changes(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    files: dict[str, None] = {}
    for line in lines:
        if match := _STAT.match(line):
            files[match[2]] = None
        if match := _STATUS.match(line) or _DIFF.match(line):
            files[match[1].rstrip("/").rpartition("/")[2]] = None
        if match := _STAT_SUM.match(line):
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
        if match := _DIFF.match(line):
            file = match[1]
        elif file and _ADDED.match(line):
            names = list(dict.fromkeys(_ADDED_NAME.findall(line)))
            answer = Answer((tuple(names),), 0.8)
            if len(names) >= _FEWEST_NAMES and not answer.stands_in(removed):
                name = file.rpartition("/")[2]
                yield Pair("added-in", source.name, f"what does the diff add to {name}?", (answer,))
                file = ""


def _commits(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for match in _match(_COMMIT, lines if "git" in source.command else ()):
        asks = f"which commit is “{match[2]}”?"
        yield Pair("which-commit", source.name, asks, (exactly(match[1][:7], *match[2].split()[:2]),))


def _end(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    """The last output line, if it is a sentence."""
    last = next((line.strip() for line in reversed(lines) if line.strip() and not _UNTOLD.search(line)), "")
    if re.fullmatch(r"[A-Z][a-z]\w*[:,]? .{16,160}[.!:\w]", last) and (answer := in_words(last)):
        yield Pair("said-last", source.name, "what did it say last?", (answer,))


# Searches

_MATCH = re.compile(r"^(?:(?P<file>[\w./~-]+?\.\w+):)?(?P<line>\d+):(?P<text>.*\S.*)$")
_PATH = re.compile(r"^(?:\./)?[\w.~@/-]*/[\w.@-]*\.[A-Za-z]\w*$")
_FOUND = re.compile(r"^Found (\d+) (files?|(?:total )?occurrences?|lines?|matches)")
_FOUND_NAME = re.compile(r"[A-Za-z_]\w{4,}")
_TITLE = re.compile(r'"title":\s*"([^"]{8,90})",\s*"url":\s*"([^"]{8,160})"')
_SEARCHES = re.compile(r"\b(?:grep|rg|find|ag)\b")
_MOST_PATHS = 6


def ask_about_searches(source: Source) -> Iterator[Pair]:
    """What can be asked about the answer of a search."""
    for title, url in _TITLE.findall(source.text):
        yield Pair("page-of", source.name, f"at which address is “{title}”?", (exactly(url),))
    if not (source.pattern or _SEARCHES.search(source.command)):
        return
    lines = source.lines
    for match in _match(_FOUND, lines):
        answer = exactly(match[1], match[2].split()[-1])
        yield Pair("how-many", source.name, f"how many {match[2]} were found?", (answer,))
    yield from _matches(source, lines)
    yield from _files(source, lines)


def _matches(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for match in _match(_MATCH, lines):
        names = _FOUND_NAME.findall(match["text"])
        if not names or (not match["file"] and not (source.path or source.command)):
            continue
        longest = max(names, key=len)
        file = (match["file"] or "").rpartition("/")[2]
        ways = [(match["line"], longest), *([(file, match["line"])] if file else [])]
        where = f" in {file}" if file else ""
        asks = f"at which line{where} is “{match['text'].strip()[:80]}”?"
        yield Pair("matched-at", source.name, asks, (either(*ways),))


def _files(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    paths = list(dict.fromkeys(line.strip() for line in lines if _PATH.match(line.strip())))
    told = f"{source.pattern} {source.path} {source.command}"
    if 0 < len(paths) <= _MOST_PATHS and not all(path.rpartition("/")[2] in told for path in paths):
        answers = tuple(exactly(path.rpartition("/")[2]) for path in paths)
        yield Pair("matched-files", source.name, "which files were found?", answers)
    for path in paths:
        folder, _, name = path.rpartition("/")
        parent = folder.rpartition("/")[2]
        if parent and len(paths) > _MOST_PATHS:
            yield Pair("where-is", source.name, f"in which folder is {name}?", (exactly(f"{parent}/{name}"),))


# Texts

_FENCE = re.compile(r"```.*?(?:```|\Z)|<[a-z-]+>.*?</[a-z-]+>", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"])|\n+")
_MARKS = re.compile(r"^[\s>#*+\-]*(?:\d+[.)]\s*)?")
_CONCLUDED = re.compile(
    r"\b(?:the (?:\w+ )?(?:issue|problem|bug|cause|reason|difference|key|fix|answer|result|output) (?:is|was|here is)"
    r"|root cause|because|this means|which means|turns out|so the|therefore|this confirms|i found|found that"
    r"|the tests? (?:pass|fail)|all tests)\b",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:we should|i'll (?:use|add|make|go|keep|take)|i will (?:use|add|make|go|keep|modify|change)|instead of"
    r"|rather than|decided|go with|recommend|best (?:approach|option|way)|the approach|prefer|we (?:will|can))\b",
    re.IGNORECASE,
)
_PLACE = re.compile(r"([\w./-]*?([\w-]+\.(?:go|py|ts|js|sh|md|rst))):(\d+)")
_NAME = re.compile(r"`([A-Za-z_][\w.]{3,})(?:\(\))?`")
_CODE = re.compile(r"`([^`]{4,})`")
_STEP = re.compile(r"^\s*(?:#{2,4}\s+)?(?:\*\*)?(?:(?:Step|Phase|Item)\s+)?(\d+)[.:)]\s*(\S.{12,140}?)(?:\*\*)?:?$")
_UNDECIDED = re.compile(
    r"^(?:\W|THOUGHT: |Now |So |Then |Wait,? )*(?:let me|let's|based on|agentid|output_file)\b|:\W*$", re.I
)
_SHORTEST, _LONGEST = 40, 220
"""Characters of a sentence that says something and can be said again within ``NEAR`` characters."""

_SAME_STEP = 0.75
_FEWEST_WORDS, _MOST_STEPS = 3, 8


def ask_about_prose(source: Source) -> Iterator[Pair]:
    """What can be asked about prose: of people, of helpers that report, of pages."""
    yield from _open_steps(source)
    if source.speaker == "tool":
        if source.tool in ("Task", "Agent", "WebFetch", "WebSearch", "ExitPlanMode"):
            plan = source.given.get("plan")
            yield from _find_conclusions(source, plan if isinstance(plan, str) else source.text, "it")
        return
    if source.speaker == "user":
        yield from _asked(source)
    else:
        yield from _find_conclusions(source, source.text, "the assistant")


def _asked(source: Source) -> Iterator[Pair]:
    """The typed question, or its first sentence."""
    said = [each for each in _sentences(source.text) if not each.startswith(("[", "<", "Caveat"))]
    asked = [each for each in said if each.endswith("?")] or said[:1]
    for sentence in asked[:1]:
        if answer := in_words(sentence):
            topic = ", ".join(_longest_words(sentence, 4))
            yield Pair("asked", f"What the user asked about {topic}", "what?", (answer,))


def _find_conclusions(source: Source, text: str, who: str) -> Iterator[Pair]:
    about = source.name if source.speaker == "tool" else f"“{source.name}”"
    said = [each for each in _sentences(text) if not _UNDECIDED.search(each)]
    for rule, cues, verb in (("decided", _DECIDED, "decide"), ("concluded", _CONCLUDED, "conclude")):
        last = next((each for each in reversed(said) if cues.search(each)), "")
        if answer := in_words(last):
            topic = ", ".join(_longest_words(last, 2))
            yield Pair(rule, about, f"what did {who} {verb} in the end about {topic}?", (answer,))
    plain = _FENCE.sub("\n", text).split("\n")
    yield from _located(about, plain)
    yield from _steps(about, plain)


def _sentences(text: str) -> list[str]:
    found = (_MARKS.sub("", each).strip() for each in _SENTENCE.split(_FENCE.sub("\n", text)))
    return [each for each in found if _SHORTEST <= len(each) <= _LONGEST]


def _longest_words(sentence: str, count: int) -> list[str]:
    """The longest of its own words, in their order."""
    words = own_words(sentence)
    longest = sorted(words, key=len, reverse=True)[:count]
    return [word for word in words if word in longest]


def _located(about: str, lines: Sequence[str]) -> Iterator[Pair]:
    for line in lines:
        place, name = _PLACE.search(line), _NAME.search(line)
        if place and name and name[1] not in place[1]:
            answer = exactly(name[1], place[2], place[3])
            yield Pair("located", about, f"where is {name[1]}?", (answer,))


def _steps(about: str, lines: Sequence[str]) -> Iterator[Pair]:
    """The text of a numbered step or finding."""
    found = _match(_STEP, lines)
    times = Counter(match[1] for match in found)
    for match in found:
        answer = _words_of_step(match[2])
        if times[match[1]] == 1 and answer:
            yield Pair("step", about, f"what is number {match[1]}?", (answer,))


def _words_of_step(step: str) -> Answer | None:
    code = _CODE.findall(step)
    if code:
        return exactly(*(each.rpartition("/")[2] for each in code))
    words = own_words(step)
    return Answer((tuple(words),), _SAME_STEP) if len(words) >= _FEWEST_WORDS else None


def _open_steps(source: Source) -> Iterator[Pair]:
    total, still = len(source.steps), source.open_steps
    answers = tuple(Answer((tuple(own_words(each)),), _SAME_STEP) for each in still if own_words(each))
    if 0 < len(answers) <= _MOST_STEPS:
        about = f"Todo list, {total - len(still)} of {total} steps done"
        yield Pair("open-steps", about, "which are open?", answers)


# Records

_IDENTITY = re.compile(r"(?:_id|_number|^id|^name)$")
_MOST_FIELDS = 3


def ask_about_records(source: Source) -> Iterator[Pair]:
    """What can be asked about each record that has a name of its own."""
    try:
        read = json.loads(source.text)
    except (ValueError, RecursionError):
        return
    for record in _records(read):
        yield from _fields(source, record)


def _records(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _records(each)


def _fields(source: Source, record: Mapping[str, Any]) -> Iterator[Pair]:
    name = next((value for key, value in record.items() if _IDENTITY.search(key) and isinstance(value, str)), None)
    if name is None:
        return
    scalars = [(key, value) for key, value in record.items() if isinstance(value, str | int) and value != name]
    for key, value in scalars[:_MOST_FIELDS]:
        told = f"{name} {list(source.given.values())}"
        if len(str(value)) > 2 and str(value) not in told:
            asks = f"what is {key} of {name}?"
            yield Pair("field-of", source.name, asks, (exactly(name, key, str(value)),))


RULES = {
    True: (ask_about_files, ask_about_runs, ask_about_searches, ask_about_prose, ask_about_records),
    False: (ask_about_prose,),
}
"""The rules by whether a tool speaks."""
