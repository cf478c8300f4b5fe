"""How an object is named to the model, and the words that stand for what it lacks."""

MARK = "#"
"""Before an object's id, wherever the model reads one."""


REPLACED_TEXT = "replaced text"
"""What an edit at L1 says that it lacks."""
