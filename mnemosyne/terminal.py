"""Escape text for a terminal: untrusted names may contain escape sequences that change its title, its clipboard or the
writing direction.
"""

import json


def harmless(text: str) -> str:
    """Replace all control characters except for tabs and line ends."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def json_text(value: object, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Readable JSON with all control characters escaped."""
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    if written.replace("\n", "").isprintable():
        return written
    return "".join(char if char.isprintable() or char == "\n" else _escape(char) for char in written)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else json.dumps(char)[1:-1]
