"""What failed: the line that says so, its cause, the tests that failed, the counts, and where it points."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mnemosyne.domain.summaries.extractive.facets import Facet, begins_line, each, head_of, lines
from mnemosyne.domain.summaries.extractive.units import MARK, SourceLine, TextUnit, find_root

ERROR = re.compile(
    r"<tool_use_error>"
    r"|\s{0,40}(?:error|fatal|panic|Error|Fatal|PANIC)(?:\[\w{1,20}\])?: "
    r"|E {2,}\S"
    r"|\s{0,40}[\w.$]{0,200}(?:[a-z]Error|Exception|[a-z]Warning|Interrupt|[a-z]Exit)\b(?: \[|[:(]|$)"
    r"|\s{0,40}[^\s:]{1,200}:\d{1,6}(?::\d{1,6})?: (?!(?:INFO|DEBUG|Hook|note)\b)"
    r"|(?:\S{1,60}: )?(?:bash|zsh|sh|/bin/\S{1,20}): "
    r"|(?:rm|cp|mv|cat|ls|grep|find|sed|cd|mkdir|git|python3?|node|npm|go|make|pip): "
    r"|npm (?:ERR!|error) "
    r"|The user doesn't want|String to replace not found|File has not been read|No such tool|Web search error"
    r"|Your proposed edit has introduced|Permission (?:to|for) |InputValidationError"
    r"|\s{0,40}(?:error|Error|Err)(?: Trace)?:\s|\s{0,40}(?:Expected|expected|Received|received|actual|want|"
    r"got)\s{0,4}:"
)
"""A line that says what went wrong."""

_PLACE = re.compile(r"\s{0,40}[^\s:]{1,200}:\d{1,6}(?::\d{1,6})?: ")

_ERROR_WITHIN = re.compile(
    r".*?(?:\b(?:[Ee]rror|ERROR|FATAL|CRITICAL|panic|fatal|undefined|cannot|[Cc]ould not|[Ff]ailed to|denied|refused|"
    r"not found|No such|unable to|mismatch|timed? ?out|conflict|CONFLICT|rejected|[Ii]nvalid|[Uu]nexpected|"
    r"[Ee]xpected|should|Should|want|got|does not exist|must be)\b|[a-z](?:Error|Exception)\b|[✗✘] )"
)
"""A line that speaks of an error, but may not be the one."""

_PROGRESS = re.compile(
    r"\s{0,40}(?:ok\s|--- PASS|=== |PASS\b|\?\s{1,8}\S|✓|✔|.{0,80}\.\.\. ok$|.{0,200} PASSED\b|.{0,200}\bINFO\b|"
    r".{0,200}\bDEBUG\b|Destroying |Creating |Applying |Running migrations|Downloading |Collecting |Compiling |"
    r"\d{1,9} passed)"
)
"""A line of something that went well."""

_VERDICT = re.compile(
    r"Exit code -?[1-9]|exit status [1-9]|<returncode>-?[1-9]|FAIL\s{0,4}$|.{0,80}\bERROR task failed|"
    r"make(?:\[\d{1,3}\])?: \*\*\*|error Command failed"
)
FAILED_TEST = re.compile(
    r"\s{0,40}--- FAIL: \S|(?:FAILED|ERROR) \S{1,400}::\S|(?:FAIL|ERROR): \S|\s{0,40}[✗✕✘] \S|not ok \d|"
    r"\s{0,40}● \S|test \S{1,200} \.\.\. FAILED|.{1,400} \.\.\. (?:FAIL|ERROR)$|_{4,60} \S.{0,200} _{4,60}$|"
    r"\s{0,40}FAIL\s{1,4}\S{1,400}\.(?:js|ts|jsx|tsx|mjs|rb|php)\b"
)
FAILED_PACKAGE = re.compile(r"FAIL\s{1,8}\S{1,400}(?:\s|$)|# [\w./-]{1,300}$")
COUNTS = re.compile(
    r"=+ .{0,160}\b(?:passed|failed|error|errors|skipped)\b.{0,80}=*$|\d{1,9} (?:passed|failed|errors?|tests?)\b|"
    r"\s{0,8}Tests?:?\s{1,8}\d|test result: |Ran \d{1,9} tests?|FAILED \(|OK(?: \(|$)|\s{0,8}# (?:pass|fail|tests) \d|"
    r"Test Suites: |DONE \d|.{0,80}\b\d{1,9} (?:issues?|problems?|failures?)\b"
)
PASSED_TEST = re.compile(
    r"\s{0,40}--- PASS: \S|ok\s{1,8}\S|PASS$|\S{1,400}::\S{1,400} PASSED|test \S{1,200} \.\.\. ok|"
    r".{1,400} \.\.\. ok$|\s{0,40}[✓✔] \S"
)
_FRAME = re.compile(
    r"\s{0,40}File \"[^\"]{1,400}\", line \d|\s{1,40}at \S.{0,300}:\d|\s{1,40}(?:-->|/\S{1,300}:\d)|"
    r"\s{0,40}Error Trace:|\s{0,40}\S{1,300}:\d{1,6}(?::\d{1,6})?:? |goroutine \d|\s{0,40}Test:\s"
)
_WARNS = re.compile(r"(?:.{0,200}[\s.])?\w{0,60}[Ww]arning(?:: | \[|$)")
"""A line that only warns."""

_PACKAGE = re.compile(r"(?P<lead>(?:ok|FAIL|\?|---)\s{1,8})(?P<name>[\w.@-]{1,200}(?:/[\w.@-]{1,200}){2,40})(?=\s|$)")
"""A package by the path of its module, and how it went."""

_PASSED_ALONE = re.compile(
    r"(?:ok\s{1,8}|(?P<lead>\s{0,40}--- PASS: ))(?P<name>\S{1,200})"
    r"(?:\s{1,8}(?:\([\w.]{1,12}\)|[\d.]{1,12}s))?\s{0,4}$"
)
"""A test or a package that passed, and no more than how long it took."""

_TICK = re.compile(r"\s{0,40}[✓✔]")
_PASSED_LEAD = re.compile(r"ok |\s{0,40}--- PASS: ")
_TOLD_OF_IT = re.compile(r"[\d.]s\b|\(cached\)|\t")
_ENDED = re.compile(r"\s{0,40}--- (?:PASS|FAIL|SKIP): (\S{1,400})")
_BEGAN = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME)\s{1,8}(\S{1,400})$")
_UNTESTED = re.compile(r"\?\s{1,8}\S{1,400}\s{1,8}\[no test files\]$")
_LONGEST_OUTCOME = 96
"""Characters of a line of what passed: of so many a line is cut nowhere."""

_LONG_ROOT = 12
"""Characters of a path from which on it is told once."""

_MOST_FRAMES = 3
"""Frames above an error that lead to it."""

_USER_SAID = "the user said:"

_RAISED = re.compile(r"E {2,}[\w.]{1,200}(?:Error|Exception)\b")
"""What a test runner marks as the exception."""

_TRACEBACK_END = re.compile(r"[^\W\d][\w.]{0,200}(?:: |$)")


def by_module(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """The lines of a test run with the path that all its packages share only in the first that tells it; of the others
    the last two parts stay, behind a mark.
    """
    told = {n: match for n, line in enumerate(lines) if line.text and (match := _PACKAGE.match(line.text[:4_000]))}
    root = find_root([match["name"] for match in told.values()])
    if len(root) < _LONG_ROOT:
        return list(lines)
    found = list(lines)
    for n, match in list(told.items())[1:]:
        end = "/".join(match["name"].removeprefix(root).split("/")[-2:])
        text = f"{match['lead']}{MARK}/{end}{(found[n].text or '')[match.end() :]}"
        found[n] = found[n]._replace(text=text)
    return found


def by_outcome(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """The lines of a test run with those that passed one after the other on as few lines as hold them
    (``ok a b c``, ``--- PASS: A B``). How long each took is left out, and that a test began of which it is told how it
    ended.
    """
    ended = {match[1] for line in lines if line.text and (match := _ENDED.match(line.text))}
    found: list[SourceLine] = []
    lead = ""
    for line in lines:
        text = line.text or ""
        passed = _PASSED_ALONE.match(text)
        began = _BEGAN.match(text)
        said = (passed["lead"] or "ok ") if passed else ""
        if passed and said == lead and len(found[-1].text or "") + len(passed["name"]) < _LONGEST_OUTCOME:
            before = found[-1]
            found[-1] = before._replace(text=f"{before.text} {passed['name']}", lines=before.lines + line.lines)
        elif passed:
            lead = said
            found.append(line._replace(text=f"{lead}{passed['name']}"))
        elif (began and began[1] in ended) or _UNTESTED.match(text):
            if lead:
                found[-1] = found[-1]._replace(lines=found[-1].lines + line.lines)
            else:
                found.append(line._replace(text=None))
        else:
            lead = ""
            found.append(line)
    return found


def passing(numbers: Sequence[int], heads: Mapping[int, str], **how: Any) -> Facet:
    """The facet of the lines that tell of tests and packages that passed. What is only ticked off counts as no test."""
    ticked = [_TICK.match(heads[number]) is not None for number in numbers]
    counts = tuple(
        0 if tick and not all(ticked) else _count_names(heads[number])
        for number, tick in zip(numbers, ticked, strict=True)
    )
    return Facet(noun="ticked line" if all(ticked) else "passing test", entries=each(numbers), counts=counts, **how)


def _count_names(text: str) -> int:
    match = _PASSED_LEAD.match(text)
    return len(text[match.end() :].split()) if match and not _TOLD_OF_IT.search(text) else 1


def failures(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of what failed, whether it is one error or a run of tests."""
    heads = {number: head_of(units[number]) for number in within if units[number].text}
    failed = has_failure(units, within)
    tests = [number for number, text in heads.items() if FAILED_TEST.match(text)]
    parts = [number for number in tests if heads[number][0].isspace()]
    outer = [number for number in tests if not heads[number][0].isspace()]
    taken = set(tests)
    errors = _distinct(heads, [n for n in heads if n not in taken and _is_error(heads[n], failed=failed)])
    ends = _ends_of_tracebacks(heads, within)
    errors = _telling(heads, sorted({*errors, *ends}), tests)
    taken.update(errors)
    counts = [n for n, text in heads.items() if n not in taken and COUNTS.match(text)]
    packages = [n for n, text in heads.items() if n not in taken and FAILED_PACKAGE.match(text)]
    verdicts = [n for n, text in heads.items() if n not in taken and _VERDICT.match(text)]
    taken.update(counts, packages, verdicts)
    passed = [n for n, text in heads.items() if n not in taken and PASSED_TEST.match(text)]
    taken.update(passed)
    passed = sorted(_distinct(heads, passed), key=lambda n: heads[n][:1].isspace(), reverse=True)
    other = [n for n, text in heads.items() if n not in taken and _speaks_of_errors(text)]
    taken.update(other)
    began = [n for n, text in heads.items() if _BEGAN.match(text)]
    noted = [n for test in outer for n in _find_last_note(heads, test, frozenset(errors))]
    errors = list(dict.fromkeys([*_find_refusal(heads), *_best_first(heads, errors, ends, noted)]))
    frames = list(dict.fromkeys(n for error in errors for n in _frames(heads, error) if n not in taken))
    return [
        lines("failing test", units, outer[:1], within, rank=0, share=0.4),
        lines("error line", units, errors[:1], within, rank=0, share=0.75),
        Facet(noun="count", entries=each(counts[:-2:-1]), rank=0, told=False, share=0.2),
        lines("failing test", units, outer, within, rank=0, share=0.6),
        lines("error line", units, errors, within, rank=0, share=0.5),
        Facet(noun="test under way", entries=each(began[-1:]), rank=1, told=False, share=0.2),
        lines("failing test", units, parts, within, rank=1, share=0.5),
        Facet(noun="count", entries=each(counts[-2::-1]), rank=2, told=False, share=0.3),
        Facet(noun="failing package", entries=each(packages), rank=3, told=bool(tests), share=0.3),
        Facet(noun="verdict", entries=each(_last_of_each(heads, verdicts)), rank=3, told=False, share=0.3),
        Facet(noun="frame", entries=each(frames), rank=4, told=False, share=0.4),
        Facet(noun="line about an error", entries=each(_distinct(heads, other)), rank=5, told=False),
        Facet(noun="line beside an error", entries=each(_beside(units, heads, errors, taken)), rank=6, told=False),
        passing(passed[::-1], heads, rank=7 if failed else 2, share=0.4 if failed else 0.6),
    ]


def _telling(heads: dict[int, str], errors: Sequence[int], tests: Sequence[int]) -> list[int]:
    """The errors without warnings and what a test only noted with its place, where others, or failing ``tests``, say
    what is wrong.
    """
    wrong = [n for n in errors if not _WARNS.match(heads[n])]
    found = [n for n in wrong if not _PLACE.match(heads[n]) or _ERROR_WITHIN.match(heads[n])]
    return found or wrong or ([] if tests else list(errors))


def has_failure(units: Sequence[TextUnit], within: range) -> bool:
    """Whether there is an error, a failing test or a failing package in it."""
    heads = (head_of(units[number]) for number in within if units[number].text)
    return any(
        FAILED_TEST.match(text) or _VERDICT.match(text) or FAILED_PACKAGE.match(text) or _is_error(text, failed=False)
        for text in heads
    )


def _is_error(text: str, *, failed: bool) -> bool:
    """Whether a line says what went wrong. Where nothing ``failed``, a place in a file alone does not."""
    if ERROR.match(text) is None or _PROGRESS.match(text) is not None:
        return False
    return failed or _PLACE.match(text) is None or _ERROR_WITHIN.match(text) is not None


def _speaks_of_errors(text: str) -> bool:
    return _ERROR_WITHIN.match(text) is not None and not (_PROGRESS.match(text) or _WARNS.match(text))


def _find_last_note(heads: dict[int, str], test: int, errors: frozenset[int]) -> list[int]:
    """The error that a failing test noted last, with its place: those before may be of its log. Of a test that is told
    as it runs it stands above the verdict, of any other below.
    """
    for step in (1, -1):
        noted = [n for n in _list_block(heads, test + step, step) if n in errors and _PLACE.match(heads[n])]
        if noted:
            return [max(noted)]
    return []


def _list_block(heads: dict[int, str], start: int, step: int) -> Iterator[int]:
    """The lines on one side of a test's verdict that are its own: indented, up to the next line that is not."""
    number = start
    while number in heads and heads[number][:1].isspace():
        yield number
        number += step


def _best_first(heads: dict[int, str], errors: Sequence[int], ends: Sequence[int], noted: Sequence[int]) -> list[int]:
    """The error in which the last traceback ended, what the first failing test ``noted`` last, or else the first error,
    then the last one, then what each other test noted last, then the others in order.
    """
    named = [n for n in errors if not _FRAME.match(heads[n])] or list(errors)
    ended = [n for n in ends[-1:] if n in errors] or [n for n in named if _RAISED.match(heads[n])][:1]
    first = list(dict.fromkeys((*ended, *(noted or named)[:1], *named[-1:], *noted)))
    return [*first, *(n for n in errors if n not in first)]


def _find_refusal(heads: dict[int, str]) -> list[int]:
    """What the user said when they refused."""
    numbers = list(heads)
    before = (at for at, number in enumerate(numbers) if heads[number].rstrip().endswith(_USER_SAID))
    return [numbers[at + 1] for at in before if at + 1 < len(numbers)]


def _ends_of_tracebacks(heads: dict[int, str], within: range) -> list[int]:
    """The line behind each traceback, whatever the error's name is."""
    found, inside = [], False
    for number in within:
        text = heads.get(number, "")
        if text.lstrip().startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and text and not text[0].isspace():
            inside = False
            if _TRACEBACK_END.match(text):
                found.append(number)
    return found


def _distinct(heads: dict[int, str], numbers: Sequence[int]) -> list[int]:
    """Those that say something new: of lines that differ in their digits alone the first."""
    seen: set[str] = set()
    found = []
    for number in numbers:
        text = heads[number].strip()
        if text not in seen:
            seen.add(text)
            found.append(number)
    return found


def _last_of_each(heads: dict[int, str], numbers: Sequence[int]) -> list[int]:
    """Of equal lines the last."""
    return sorted({heads[number].strip(): number for number in numbers}.values())


def _frames(heads: dict[int, str], error: int) -> list[int]:
    """The frames right before an error, the nearest first, each with the code that it shows."""
    found: list[int] = []
    for number in range(error - 1, max(-1, error - 1 - 2 * _MOST_FRAMES), -1):
        text = heads.get(number, "")
        if _FRAME.match(text) and number + 1 in heads and number + 1 != error:
            found += [number, number + 1]
        elif _FRAME.match(text):
            found.append(number)
    return found


def _beside(units: Sequence[TextUnit], heads: dict[int, str], errors: Sequence[int], taken: set[int]) -> list[int]:
    """What stands on the lines right behind errors."""
    near = [n for error in errors for n in (error + 1, error + 2) if n in heads and begins_line(units, n)]
    return [n for n in dict.fromkeys(near) if n not in taken and not _PROGRESS.match(heads[n])]
