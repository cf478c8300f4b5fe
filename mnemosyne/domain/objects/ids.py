"""The ids of objects, how the model sees them, and the fixed texts in place of omitted content."""

from hashlib import blake2b

ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""The characters of an object's id: none is easily mistaken for another, and they take few tokens."""

ID_LENGTH = 7
"""31⁷ ids: an id of another session cannot be guessed, and the ids of a thousand objects do not collide."""


def object_id(salt: bytes, *origin: bytes) -> str:
    """Return an id without meaning: a hash of the object's origin, keyed by the session."""
    number = int.from_bytes(blake2b(b"\0".join(origin), key=salt[:64], digest_size=16).digest(), "big")
    letters = []
    for _ in range(ID_LENGTH):
        number, letter = divmod(number, len(ID_LETTERS))
        letters.append(ID_LETTERS[letter])
    return "".join(letters)


MARK = "#"
"""Prefix of an object's id in all text that the model reads."""

NOTE = "[Memory] Next, out of context:"
"""First words of a note, written once for each run of evicted rounds and therefore short; each line of a note names one
object.
"""


REPLACED_TEXT = "replaced text"
"""What an edit at L1 names as missing."""
