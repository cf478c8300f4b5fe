"""Prose: headings, and the sentences that say most in fewest words."""

import re

from mnemosyne.domain.summaries.extractive.way import Way

WAY = Way(
    name="prose",
    signs=re.compile(r""),
    share=0.0,
    structure=(
        (r"\s{0,3}#{1,6}\s+\S|\*\*[^*]+\*\*:?\s*$", 2.0),
        (
            r".*\b(?i:must|never|always|decided|because|instead of|chose|important|note|warning|bug|root cause|"
            r"fix(?:ed)?|should|conclusion|result|error|fail(?:s|ed)?|todo|next step)\b",
            1.0,
        ),
    ),
    frame=2.0,
    holds="what it is about: every heading",
    drops="sentences that say less",
    restore_for="the wording, and the details of the argument",
    sentences=True,
)
