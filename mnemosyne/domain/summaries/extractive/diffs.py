"""Patches: which files, where in them, and the changed lines before their context."""

import re

from mnemosyne.domain.summaries.extractive.way import Way

WAY = Way(
    name="diff",
    signs=re.compile(r"(?:@@ -\d|diff --git |--- \S|\+\+\+ \S|index [0-9a-f]{7}|[-+](?![-+])| \S)"),
    share=0.6,
    structure=(
        (r"diff --git ", 4.0),
        (r"@@ -\d", 4.0),
        (r"(?:new|deleted) file|rename |similarity|commit [0-9a-f]|Author:|Date:", 1.0),
        (r"\+\s*(?:def|class|func|fn|function|type|struct|interface|export|public|pub)\b", 1.2),
        (r"\+\s*\S", 0.5),
        (r"-\s*\S", 0.3),
    ),
    frame=4.0,
    holds="which files change, and where: every head",
    drops="changed lines and their context, partly",
    restore_for="the exact change: to apply, review or revert it",
)
