"""The weight of a text: an estimate of its tokens by the older of the provider's tokenizers, in thousandths.

No tokenizer of the models is public. A tokenizer splits at words, at humps as in camelCase, at numbers, punctuation and
lines; these are counted, each with its own weight. So code, JSON, prose and encoded data need not be distinguished. The
weights were fitted on turns of recorded Claude Code sessions, whose exact sizes the provider reported, as
``benchmarks/tokens.py`` describes.

All counting is done by ``bytes.translate`` and ``bytes.count``.
"""

_KINDS = (
    (b"a", range(0x61, 0x7B)),
    (b"A", range(0x41, 0x5B)),
    (b"1", range(0x30, 0x3A)),
    (b" ", (0x20, 0x09)),
    (b"n", (0x0A, 0x0D)),
    (b"-", range(0x80, 0xC0)),  # the rest of a character in UTF-8, not its first byte
    (b"2", range(0xC0, 0xE0)),  # Latin with accents, Greek, Cyrillic, Hebrew, Arabic
    (b"s", (0xE2,)),  # punctuation, arrows, lines of tables: U+2000 to U+2FFF
    (b"3", (0xE0, 0xE1, *range(0xE3, 0xF0))),  # Chinese, Japanese, Korean, scripts of India
    (b"4", range(0xF0, 0x100)),  # emoji
)
_KIND_OF = bytearray(b"." * 256)
for _kind, _values in _KINDS:
    for _value in _values:
        _KIND_OF[_value] = _kind[0]

_PER_CHARACTER = ((b"a", 33), (b"A", 126), (b"1", 44), (b".", 287), (b"n", 1049))
_BEYOND_ASCII = ((b"s", 479), (b"2", 600), (b"3", 1100), (b"4", 2000))
"""The recordings contain almost none of the last three, so their weights are not fitted."""

_HUMP = 1482
"""For an upper-case letter after a lower-case one, as in camelCase."""


def _ones(kinds: bytes) -> bytes:
    return bytes(b"01"[kind in kinds] for kind in range(256))


_RUNS = ((_ones(b"aA"), b"1", 850), (_ones(b"1"), b"1", 1491), (_ones(b"."), b"1", 798), (_ones(b" "), b"11", 1185))
"""For each word, number, run of punctuation, and gap of at least two blanks."""

_UNREADABLE = 8000
"""For each 20 consecutive letters of one case, which are hardly a word: encoded data, sequences. Assumed, not
fitted.
"""


_PIECE = 1 << 16
_MOST_PIECES = 16
"""A longer text is weighed by this many evenly spaced pieces of it: a megabyte takes 25 ms."""


def weight(text: str) -> int:
    """Return the weight in thousandths of a token. The weights of two parts add up, except at the cut."""
    if len(text) <= _PIECE * _MOST_PIECES:
        return _weigh(text)
    starts = range(0, len(text), -(-len(text) // _MOST_PIECES))
    weighed = sum(_weigh(text[start : start + _PIECE]) for start in starts)
    return weighed * len(text) // sum(min(_PIECE, len(text) - start) for start in starts)


def _weigh(text: str) -> int:
    kinds = text.encode("utf-8", "replace").translate(_KIND_OF)
    total = _HUMP * kinds.count(b"aA")
    for kind, factor in _PER_CHARACTER if text.isascii() else (*_PER_CHARACTER, *_BEYOND_ASCII):
        total += factor * kinds.count(kind)
    for ones, start, factor in _RUNS:
        runs = kinds.translate(ones)
        total += factor * (runs.count(b"0" + start) + runs.startswith(start))
    return total + _UNREADABLE * (kinds.count(b"a" * 20) + kinds.count(b"A" * 20))
