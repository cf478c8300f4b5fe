"""Renderings of an object below full fidelity: the extractive summary, the stub and the line in the index."""

from collections.abc import Mapping

from mnemosyne.domain.objects.aggregate import extract_chars
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import REPLACED_TEXT
from mnemosyne.domain.objects.kinds import is_its_own_detail
from mnemosyne.domain.objects.losses import measure, render_counts, render_need
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation.index_line import LINE, NAMED, last_part, path_of, without_facts
from mnemosyne.domain.segmentation.segment import Draft
from mnemosyne.domain.summaries import renditions
from mnemosyne.domain.summaries.extractive import summarize
from mnemosyne.domain.text.stubs import plain
from mnemosyne_lab.evaluation.trace import TracePart

_TELLING = ("command", "pattern", "query", "url", "description", "prompt")
"""Inputs that identify a call; they stay visible until the object is evicted."""


ByFidelity = Mapping[Fidelity, str]


def list_renditions(draft: Draft) -> tuple[ByFidelity, ByFidelity, ByFidelity]:
    """The texts at L1, L3 and L4, the kinds of specifics that L1 lacks, and the purposes that it is not enough for."""
    texts = {Fidelity.STUB: draft.stub, Fidelity.EVICTED: draft.line}
    lost: dict[Fidelity, str] = {}
    asks: dict[Fidelity, str] = {}
    if is_its_own_detail(draft.tags):
        texts[Fidelity.DETAILED], lost[Fidelity.DETAILED] = draft.stub, REPLACED_TEXT
    elif draft.places and extract_chars(draft.kind, len(draft.text)):
        made = _cut(draft, extract_chars(draft.kind, len(draft.text)))
        if made.text:
            texts[Fidelity.DETAILED] = made.text
            measured = measure(draft.text, made.text)
            told = render_counts({loss.kind.value: loss.lost for loss in measured.losses})
            lost[Fidelity.DETAILED], asks[Fidelity.DETAILED] = told, render_need(made.declared.fault_when)
    return texts, lost, asks


def _cut(draft: Draft, target: int) -> renditions.ProposedRendition:
    asked = renditions.RenditionRequest(
        kind=draft.kind,
        source_tool=draft.source_tool,
        source_key=draft.source_key,
        text=draft.text,
        parts=draft.parts,
        target_chars=target,
    )
    return summarize(asked)


def part_of(part: Description) -> TracePart:
    """A part of an object, with its names."""
    path = path_of(part)
    if path is not None:
        return TracePart((plain(last_part(path), LINE),), part.text)
    what = without_facts(part).removeprefix(f"{part.tool} ")
    asked = [line.partition(": ") for line in part.text.split("\n", 8)[:8]]
    told = [value for name, _, value in asked if name in _TELLING]
    names = [plain(each, LINE).rstrip("…")[:NAMED].strip() for each in (what, *told)]
    return TracePart(tuple(dict.fromkeys(name for name in names if len(name) > 1)), part.text)
