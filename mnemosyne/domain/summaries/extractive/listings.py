"""Listings of files and results of searches: as many places as fit, and what differs from the rest."""

import re

from mnemosyne.domain.summaries.extractive.way import Way

WAY = Way(
    name="listing",
    signs=re.compile(
        r"\s*[-dlrwx]{10}[.+@]?\s|(?=\S*[\w~.-]/)\S++$|\S+\.\w{1,10}$|[^\s:/.]*+[/.][^\s:]*[:-]\d+[:-]|\d+[:-]|--$|"
        r"\s*(?:[?ADMRUC]{1,2}|modified:|new file:|deleted:)\s+\S+$|[ │├└─|`]*+(?:\S++|(?<=\S))$|"
        r"total \d+$|Found \d+|(?=[^\s:]+/[^\s:])[^\s:]++:"
    ),
    share=0.7,
    structure=(
        (r"Found \d+|total \d+|\d+ (?:matches|files|results|lines)\b|No (?:files|matches)", 3.0),
        (r".*(?:[Ee]rror|denied|No such file|truncated|omitted|\.\.\.$|more (?:files|lines|results))", 2.0),
        (
            r".*:\d+:\s*(?:(?:export|pub|public|private|async|static) )*(?:def|class|func|fn|function|type|struct|"
            r"interface)\b",
            1.0,
        ),
    ),
    frame=3.0,
    holds="how much was found",
    drops="entries like those that are shown",
    restore_for="the complete list",
)
