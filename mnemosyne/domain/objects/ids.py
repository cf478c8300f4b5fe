"""How an object is named to the model, and the words that stand for what it lacks."""

MARK = "#"
"""Before an object's id, wherever the model reads one."""

NOTE = "[Memory] Next, out of context:"
"""What a note begins with, once for each run of rounds that left, so in few words; its lines name one object each."""


REPLACED_TEXT = "replaced text"
"""What an edit at L1 says that it lacks."""
