"""How one kind of text is cut down: what carries its structure, and what can be said of it then."""

import re

import attrs

_HEAD, _TAIL = 800, 200
"""Characters of a longer line that say what kind of line it is."""


@attrs.frozen(kw_only=True)
class Way:
    """The way for one kind of text.

    ``signs`` matches the lines by which the kind is known; at least the ``share`` of the text's lines must match.
    ``structure`` gives lines their weight, in specifics: the first pattern (without groups that capture) that matches
    a line's beginning counts. One with
    ``frame`` weight belongs to what ``holds`` promises: if all such lines are kept, the rendition ``holds`` that.
    ``drops`` says what the rest was, and ``restore_for`` when the original is needed.
    """

    name: str
    signs: re.Pattern[str]
    share: float
    structure: tuple[tuple[str, float], ...]
    frame: float
    holds: str
    drops: str
    restore_for: str
    sentences: bool = False
    _any: re.Pattern[str] = attrs.field(init=False, repr=False)

    @_any.default
    def _any_structure(self) -> re.Pattern[str]:
        return re.compile("|".join(f"({pattern})" for pattern, _ in self.structure))

    def fits(self, line: str) -> bool:
        """Whether a line is one of those by which the kind is known."""
        return self.signs.match(_ends_of(line)) is not None

    def weight(self, line: str) -> float:
        """How much a line counts besides the specifics it has."""
        match = self._any.match(_ends_of(line))
        return self.structure[match.lastindex - 1][1] if match and match.lastindex else 0.0


def _ends_of(line: str) -> str:
    return line if len(line) <= _HEAD + _TAIL else f"{line[:_HEAD]}{line[-_TAIL:]}"
