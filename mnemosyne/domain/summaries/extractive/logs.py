"""What commands print: errors, verdicts and totals, where tracebacks point, the first and the last lines."""

import re

from mnemosyne.domain.summaries.extractive.way import Way

WAY = Way(
    name="log",
    signs=re.compile(
        r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d|=== (?:RUN|PAUSE|CONT)|--- (?:PASS|FAIL|SKIP)|PASS|FAIL|ok\s|"
        r"\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|error|warning|info)\b|Traceback|File \"|E\s{2,}|=====|"
        r"_____|-----|"
        r"Exit code|npm |added \d|Compiling|Downloading|Collecting|test |Ran \d|"
        r"\$ |\+ |[✓✗✔✘●]|\[\d+/\d+\]|at \S+ ?\()"
        r"|.*(?:\.\.\. ok|\.\.\. FAIL|\.\.\. ERROR|PASSED|FAILED|\bpassed\b|\bfailed\b|\[ *\d+%\]|\b[Ee]rror:)"
    ),
    share=0.18,
    structure=(
        (
            r".*?(?:\b(?:ERROR|FATAL|CRITICAL|FAIL(?:ED)?|FAILURE|panic|fatal|undefined|"
            r"cannot|[Ff]ailed to|denied|not found|No such|Exit code [1-9]|exit status [1-9])\b|"
            r"(?:[a-z]Error|Exception)\b|\b[Ee]rror(?:\[\w+\])?:|^E\s{2,}|[✗✘●] )",
            4.0,
        ),
        (
            r".*\b\d+ (?:passed|failed|errors?|warnings?|tests?|skipped|problems?)\b|\s*(?:Ran \d|ok\s+\S+|PASS$)",
            3.0,
        ),
        (r"\s*(?:File \"[^\"]+\", line|at \S+ ?\(|-->|\S+:\d+(?::\d+)?:)", 1.0),
        (r".*\b(?:WARN|WARNING|warning)\b", 1.0),
    ),
    frame=4.0,
    holds="what failed: every line that reports an error",
    drops="lines of progress and what is repeated",
    restore_for="the output line by line",
)
