"""JSON and other records: keys once, values as far as they differ."""

import re

from mnemosyne.domain.summaries.extractive.way import Way

WAY = Way(
    name="data",
    signs=re.compile(r"\s*[\"{}\[\]]|\s*[\w.-]+\s*[:=]\s*\S|\s*-\s+\w+:"),
    share=0.85,
    structure=((r".*\"?(?:error|message|status|name|id|title|version|type|path)\"?\s*[:=]", 0.5),),
    frame=9.0,
    holds="",
    drops="records and values like those that are shown",
    restore_for="the complete data",
)
