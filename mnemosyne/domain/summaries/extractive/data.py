"""JSON and other records: the outer keys; values are kept by their specifics, as far as they differ."""

import re
from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.facets import Facet, each, head_of
from mnemosyne.domain.summaries.extractive.units import TextUnit

_TOP = re.compile(r"(?: {0,4}|\t)\"?[\w.-]{1,80}\"?\s{0,4}[:=]|\[+[\w.\"-]{1,80}\]+$")


def data(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of records."""
    heads = {number: head_of(units[number]) for number in within if units[number].text}
    top = [n for n, text in heads.items() if _TOP.match(text)]
    return [Facet(noun="outer key", entries=each(top), rank=0, share=0.5, told=False)]
