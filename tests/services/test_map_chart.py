"""The map has a band for each visible object, and no markup from names."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.services.context_map import ContextMap, MapObject, MapTurn, Span
from mnemosyne.services.map_chart import MapLinks, map_chart
from tests.domain.remembered import made


def turn(number: int, tokens: int = 1000, **more: object) -> MapTurn:
    fields = {"estimated": tokens, "fixed": 100, "usable": 5000, "zone": "normal", "counted": tokens, **more}
    return MapTurn(turn=number, **fields)  # type: ignore[arg-type]


def span(name: str, first: int, last: int, fidelity: Fidelity, tokens: int, place: int) -> Span:
    known = MapObject(id=name, kind="file_context", turn=first, tokens=tokens, version=place)
    return Span(object=known, first=first, last=last, fidelity=fidelity, tokens=tokens, place=(place, place))


def elements(found: ContextMap) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(map_chart([found])).iter())


def bands(found: ContextMap) -> list[tuple[str, str]]:
    return [
        (str(each.get("class")), each.attrib["data-object"]) for each in elements(found) if "data-object" in each.attrib
    ]


def test_each_fidelity_with_tokens_has_a_band() -> None:
    spans = [
        span("a", 1, 3, Fidelity.FULL, 400, 1),
        span("a", 4, 9, Fidelity.COMPACT, 100, 1),
        span("b", 2, 6, Fidelity.FULL, 300, 2),
        span("b", 7, 9, Fidelity.EVICTED, 0, 2),
    ]
    found = ContextMap(branch="main", turns=[turn(number) for number in range(1, 10)], spans=spans)
    assert set(bands(found)) == {("files L0", "a"), ("L2", "a"), ("files L0", "b")}


def test_band_names_its_object_as_text_in_the_colour_of_its_kind_and_links_to_it() -> None:
    spans = [span("a", 1, 4, Fidelity.FULL, 900, 1), span("a", 5, 9, Fidelity.STUB, 300, 1)]
    found = ContextMap(branch="main", turns=[turn(number) for number in range(1, 10)], spans=spans)
    objects = {"a": made("a", 0, source_key="<b>\u202emake")}
    drawn = ElementTree.fromstring(map_chart([found], links=MapLinks(objects, "/-/session/s")))
    links = [each for each in drawn.iter() if each.tag.endswith("a")]
    assert {each.get("href") for each in links} == {"/-/session/s/object/a"}
    full, shortened = [each[0] for each in links]
    assert (full.get("class"), shortened.get("fill")) == ("results L0", "url(#map-results-L3)")
    assert (full[0].text or "").startswith("Tool results: <b>\N{REPLACEMENT CHARACTER}make, L0 full, 900 tokens")


def test_turns_over_the_usable_window_are_listed() -> None:
    turns = [turn(1, 5100), turn(2, 5101), turn(3, 9000, usable=0), turn(4, 9000)]
    assert ContextMap(branch="main", turns=turns, spans=[]).over == [2, 4]


def test_bands_are_in_wire_order_without_overlap() -> None:
    spans = [span("late", 1, 1, Fidelity.FULL, 300, 9), span("early", 1, 1, Fidelity.FULL, 400, 1)]
    found = ContextMap(branch="main", turns=[turn(1)], spans=spans)
    tops = {each.attrib["data-object"]: each for each in elements(found) if "data-object" in each.attrib}
    early, late = tops["early"], tops["late"]
    assert abs(float(late.attrib["y"]) + float(late.attrib["height"]) - float(early.attrib["y"])) < 0.2


def test_thin_bands_are_joined_and_grow_with_each_object() -> None:
    spans = [span(f"o{number}", 1 + number, 50, Fidelity.FULL, 100, number) for number in range(50)]
    turns = [turn(number, tokens=100_000, fixed=0, usable=0) for number in range(1, 51)]
    found = ContextMap(branch="main", turns=turns, spans=spans)
    assert bands(found) == []
    assert "No turns of this branch are recorded" in map_chart([ContextMap(branch="main", turns=[], spans=[])])
    (joined,) = [each for each in elements(found) if each.get("class") == "files L0"]
    assert "50 small objects" in (joined[0].text or "")
    heights = [float(y) for y in re.findall(r"V([\d.]+)", joined.attrib["d"])][:-1]
    assert len(heights) > 20
    assert heights == sorted(heights, reverse=True)


def test_map_of_many_turns_joins_more_bands_to_stay_small() -> None:
    spans = [span(f"o{number}", 1 + number, 3000, Fidelity.FULL, 1000, number) for number in range(3000)]
    turns = [turn(number, tokens=number * 1000) for number in range(1, 3001)]
    assert len(bands(ContextMap(branch="main", turns=turns[:100], spans=spans[:100]))) == 100
    assert len(map_chart([ContextMap(branch="main", turns=turns, spans=spans)])) < 100_000
    beyond = [turn(number, tokens=1000) for number in range(1, 3001)]  # most of the objects are above the chart
    assert len(map_chart([ContextMap(branch="main", turns=beyond, spans=spans)])) < 100_000


def test_rewrites_misses_and_the_cache_are_drawn_at_their_turns() -> None:
    turns = [turn(1), turn(2, epoch=True, read=0), turn(3, missed=2, read=900)]
    found = ContextMap(branch="main", turns=turns, spans=[])
    titles = {child.text for each in elements(found) for child in each if child.tag.endswith("title")}
    assert {"compaction before turn 2", "turn 3: 2 needed again"} <= titles
    assert "turn 2: not cached" in titles
    assert "turn 3: cached" in titles


def test_each_compaction_links_to_what_it_changed() -> None:
    turns = [turn(1, epoch=True), turn(2), turn(3, epoch=True), turn(4, epoch=True)]
    found = ContextMap(branch="a&b", turns=turns, spans=[])
    drawn = ElementTree.fromstring(map_chart([found], links=MapLinks(session="/-/session/s")))
    links = [each.get("href") for each in drawn.iter() if each.tag.endswith("a") and each[0].get("class") == "cut"]
    assert links == [f"/-/session/s/turn/{before}/to/{before + 1}?branch=a%26b" for before in (2, 3)]


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20), st.sampled_from(Fidelity), st.integers(0, 10**7))))
def test_any_map_is_well_formed_without_scripts(spanned: list[tuple[int, int, Fidelity, int]]) -> None:
    spans = [
        span(f'"<script>{number}', first, first + length, fidelity, tokens, number)
        for number, (first, length, fidelity, tokens) in enumerate(spanned)
    ]
    turns = [turn(number, tokens=1 + number * 1000) for number in range(1, 41)]
    tags = {each.tag for each in elements(ContextMap(branch="<b>", turns=turns, spans=spans))}
    assert not any("script" in tag for tag in tags)


def test_successive_windows_are_adjacent_with_their_own_turns() -> None:
    main = ContextMap(branch="main", turns=[turn(1), turn(2), turn(3)], spans=[])
    after = ContextMap(branch="successor-1", turns=[turn(1)], spans=[])
    spanned = list(ElementTree.fromstring(map_chart([main, after])).iter())
    held = [each.attrib for each in spanned if "data-branch" in each.attrib]
    assert [(each["data-branch"], each["data-first"], each["data-last"]) for each in held] == [
        ("main", "1", "4"),
        ("successor-1", "1", "2"),
    ]
    assert held[0]["data-right"] == held[1]["data-left"] == f"{56 + 896 * 3 / 4:g}"
    assert [each.get("x1") for each in spanned if each.get("class") == "joint"] == [held[1]["data-left"]]
