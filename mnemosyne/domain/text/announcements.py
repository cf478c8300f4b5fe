"""Recognize sentences without content of their own: announcements of the next step, and praise."""

import re

_ANNOUNCES = re.compile(
    r"\W{0,8}(?:THOUGHT: )?(?i:(?:now |first,? |next,? |ok(?:ay)?,? |so,? )?(?:let me|let's|let us|i'll|i will|"
    r"i need to|"
    r"i'm going to|i should|i can)(?: now| also| first| just| start by)? (?:check|look|read|run|see|search|"
    r"examine|verify|"
    r"explore|find|start|view|list|inspect|continue|think)|"
    r"(?:good|great|perfect|excellent|sure|ok|okay|alright|done|thanks?|"
    r"you.re (?:absolutely |completely |quite )?right)\b[^.!?]{0,20}[.!,]?$|"
    r"here(?:'s| is| are)\b.{0,60}:$|reminder: you must|"
    r"you can now continue with the user's answers|"
    r"(?:now )?i (?:now )?(?:understand|have|see|get)(?: the| a)?(?: \w+){0,2} "
    r"(?:picture|structure|context|understanding)\b[^.!?:]{0,40}[.!]?$|"
    r"here(?:'s| is) what i (?:found|know|see)[.!]?$|"
    r"(?:this is (?:a|an) |that's a )?(?:good|great|excellent|fair|interesting) "
    r"(?:question|point|catch|observation|idea)s?\b[^.!?:]{0,20}[.!]?$)"
)

_LONGEST = 200
"""The maximum length of a text that only announces something, in characters."""


def only_announces(text: str) -> bool:
    """Return whether a text is one short line that only announces something."""
    line = text.strip()
    return len(line) <= _LONGEST and "\n" not in line and line[-1:] in (".", ":", "!") and bool(_ANNOUNCES.match(line))
