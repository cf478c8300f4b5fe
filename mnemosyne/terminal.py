"""What may be written to a terminal. Names of sessions, models and tools come from outside, and may hold what commands
one: escape sequences that change its title, fill its clipboard, or turn the direction of writing.
"""

import json


def harmless(text: str) -> str:
    """A text that commands nothing; lines end where they did."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def json_text(value: object, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """JSON that people can read, in which what would command a terminal is escaped."""
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    if written.replace("\n", "").isprintable():
        return written
    return "".join(char if char.isprintable() or char == "\n" else _escape(char) for char in written)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else json.dumps(char)[1:-1]
