"""Recognize from an answer whether a call failed."""

import re

_END = 6_000
"""How many characters at either end of an answer are searched for failures."""

_EXIT = re.compile(r"\A\s*(?:<returncode>|Exit code |exit status |\[exit code: )(-?\d{1,4})")
_EXIT_AT_END = re.compile(
    r"(?:^exit status|\[?(?:Command )?exit(?:ed with)? (?:code|status):?) (\d{1,4})\]?\s*\Z", re.MULTILINE
)
_FAILURES = re.compile(
    r"^Traceback \(most recent call last\):"
    r"|^[^\S\n]*+--- FAIL: "
    r"|^FAIL(?:ED)?(?:[:\s]|$)"
    r"|^(?:ERROR|FAILED) \S+::"
    r"|^=+ .{0,60}\b[1-9]\d* (?:failed|errors?)\b"
    r"|^Tests: +.{0,40}\b[1-9]\d* failed"
    r"|^FAILED \((?:failures|errors)="
    r"|^error(?:\[E\d+\])?: "
    r"|^fatal: "
    r"|^panic: "
    r"|^npm (?:ERR!|error) "
    r"|^(?:\w+\.)*\w*(?:Error|Exception): "
    r"|^(?:/bin/)?(?:ba|z)?sh: .{0,200}(?:not found|No such file)"
    r"|^\S{1,200}:\d+(?::\d+)?: (?:fatal )?error:",
    re.MULTILINE,
)
_SAYS_ERROR = re.compile(
    r"""\A\s*(?:<tool_use_error>|Your proposed edit has introduced|Error\b[:\s]|ERROR\b[:\s]|\{\s*"error"\s*:)"""
)
_NAMED = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Exception): .{1,200}|^(?:error|fatal|panic)\b.{0,40}: .{1,200}", re.MULTILINE
)
_WRAPPER = re.compile(r"</?(?:tool_use_error|output|warning|returncode)>|(?<=<returncode>)-?\d+|^Exit code -?\d+")
_CUT_SHORT = re.compile(
    r"<persisted-output>|output of your last command was too long|\(File has more lines|\btruncated\b|PARTIAL view"
)
_REFUSED = re.compile(
    r"\A(?:The user doesn't want to (?:proceed|take this action)|\[Request interrupted|The user rejected)"
)


def exit_code(text: str) -> int | None:
    """Return the exit code that an answer states."""
    match = _EXIT.search(text[:200]) or _EXIT_AT_END.search(text[-200:])
    return int(match[1]) if match else None


def shows_failure(text: str) -> bool:
    """Return whether the output of a command has the shape of a failure."""
    both_ends = text if len(text) <= 2 * _END else f"{text[:_END]}\n{text[-_END:]}"
    return _FAILURES.search(both_ends) is not None


def says_error(text: str) -> bool:
    """Return whether an answer is nothing but an error."""
    return _SAYS_ERROR.match(text[:200]) is not None


def cut_short(text: str) -> bool:
    """Return whether an answer says at its beginning or end that it was cut."""
    return _CUT_SHORT.search(f"{text[:400]}\n{text[-400:]}") is not None


def was_refused_by_user(text: str) -> bool:
    return _REFUSED.match(text[:200]) is not None


def find_failure(text: str) -> str:
    """Return the line that best describes a failure: the last one that names an error, else the first line."""
    both_ends = text if len(text) <= 2 * _END else f"{text[:_END]}\n{text[-_END:]}"
    named = _NAMED.findall(both_ends)
    if named:
        return str(named[-1])
    lines = (_WRAPPER.sub("", line).strip() for line in both_ends.splitlines())
    code = exit_code(text)
    return next((line for line in lines if line), "" if code is None else f"exit code {code}")
