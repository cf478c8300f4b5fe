"""Spot checks: questions about a full content that its rendition should answer.

Some renditions are checked when they are made, off the request path. Failed questions are recorded with them, which
shows for which kinds of objects short forms are not enough. The rules are independent of how a rendition is made.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

import attrs

from mnemosyne.domain.objects.losses import SpotCheck
from mnemosyne.domain.text.parts import PartRole, TextPart
from mnemosyne.domain.text.stubs import plain

EVERY = 4
"""One of so many contents is checked, chosen by a hash of the content."""

MOST = 3
"""Maximum number of questions for one rendition."""

_LONGEST_ANSWER = 60

_ASKED = re.compile(r"^(?:file_path|filePath|path|pattern|query|command|url): (.{3,60})", re.MULTILINE)
_ERROR = re.compile(r"^[ \t]{0,20}((?:[\w.]{0,80}(?:[a-z]Error|Exception)|error|fatal|panic): .{3,60})", re.MULTILINE)
_FAILED = re.compile(r"^\s{0,20}(?:--- FAIL: |FAILED |FAIL: )([^\s(]{3,120})", re.MULTILINE)
_CHANGED = re.compile(r"^\+\+\+ (?:b/)?([^\s]{3,200})", re.MULTILINE)
_DEFINED = re.compile(
    r"^ {0,8}(\d{1,7})[→\t]\s{0,40}(?:async )?(?:def|class|func|fn|type|interface|struct) (\w{3,60})", re.MULTILINE
)
_QUESTION = re.compile(r"(?:^|[.!] )([A-Z][^.!?\n]{20,200}\?)", re.MULTILINE)


@attrs.frozen
class SpotQuestion:
    """A question. A rendition answers it if one of its lines contains all texts of ``answer``."""

    text: str
    answer: tuple[str, ...]


def is_checked(text: str) -> bool:
    """Return whether the renditions of a content are checked."""
    return sha256(text.encode("utf-8", "replace")).digest()[0] % EVERY == 0


def spot_check(parts: Sequence[TextPart], rendition: str) -> SpotCheck:
    """Ask questions that the full content, in its ``parts``, answers; return those that the rendition does not."""
    asked = _spread(list(_questions(parts)))
    lines = rendition.split("\n")
    failed = (each.text for each in asked if not any(all(text in line for text in each.answer) for line in lines))
    return SpotCheck(len(asked), tuple(failed))


def _spread(found: Sequence[SpotQuestion]) -> Sequence[SpotQuestion]:
    """Return ``MOST`` of the questions, spread from the first to the last."""
    return found if len(found) <= MOST else [found[number * (len(found) - 1) // (MOST - 1)] for number in range(MOST)]


def _questions(parts: Sequence[TextPart]) -> Iterator[SpotQuestion]:
    for part in parts:
        if part.role is PartRole.CALL:
            yield from (SpotQuestion("what was asked for", (match,)) for match in _ASKED.findall(part.text)[:1])
        elif part.role is PartRole.RESULT:
            yield from (
                SpotQuestion("what the error was", (match.rstrip(),)) for match in _ERROR.findall(part.text)[-1:]
            )
            for name in dict.fromkeys(_FAILED.findall(part.text)):
                yield SpotQuestion(f"whether {_clip(name)} failed", (name,))
            for path in dict.fromkeys(_CHANGED.findall(part.text)):
                yield SpotQuestion(f"whether {_clip(path)} changes", (path,))
            for line, name in _DEFINED.findall(part.text):
                yield SpotQuestion(f"where {_clip(name)} is defined", (line, name))
        else:
            yield from (
                SpotQuestion(f"whether it was asked: {_clip(match)}", (match,)) for match in _find_question(part.text)
            )


def _find_question(text: str) -> Sequence[str]:
    """Return the last question of a text, which is still open."""
    return _QUESTION.findall(text)[-1:]


def _clip(text: str) -> str:
    return plain(text, _LONGEST_ANSWER)
