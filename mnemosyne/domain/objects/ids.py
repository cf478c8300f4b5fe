"""How the model sees the id of an object, and the fixed texts in place of omitted content."""

MARK = "#"
"""Prefix of an object's id in all text that the model reads."""

NOTE = "[Memory] Next, out of context:"
"""First words of a note, written once for each run of evicted rounds and therefore short; each line of a note names one
object.
"""


REPLACED_TEXT = "replaced text"
"""What an edit at L1 names as missing."""
