"""Every wish is done, declined with a reason, or open, and the counts on the page are right."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GROUPS = {
    **{"PXY": 15, "SES": 12, "OBJ": 13, "SEG": 10, "FID": 14, "CMP": 13, "PRS": 13, "EVI": 10, "LOS": 8, "TAG": 4},
    **{"PHT": 12, "FLT": 16, "PIN": 9, "QRY": 8, "GOL": 8, "PFT": 10, "ADM": 9, "ENT": 4, "REL": 7, "WSM": 17},
    **{"MAN": 14, "CLM": 7, "MMD": 9, "TIM": 11, "FRK": 9, "TOL": 5, "PRC": 11, "PLN": 4, "XSM": 13, "KWT": 3},
    **{"AUT": 12, "SRV": 7, "BIT": 18, "PTL": 9, "SCL": 9, "UIX": 9, "MET": 19, "EVL": 7, "FAI": 11, "HLP": 5},
    **{"DBS": 5, "INT": 9, "OBS": 6},
}
Wish = tuple[str, int]


def numbers(text: str) -> Iterator[int]:
    """``1-3, 7`` as 1, 2, 3, 7."""
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        yield from range(int(first), int(last or first) + 1)


def read_page() -> dict[str, list[set[int]]]:
    """By group: the done, declined and open wishes."""
    page = (ROOT / "docs/research/seeds.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]{3}) \| [^|]+ \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", page, re.MULTILINE)
    return {group: [set(numbers(each)) for each in words] for group, *words in rows}


def test_every_wish_has_one_status() -> None:
    page = read_page()
    assert page.keys() == GROUPS.keys()
    for group, count in GROUPS.items():
        done, declined, left = page[group]
        assert sorted([*done, *declined, *left]) == list(range(1, count + 1)), group


def test_page_counts_are_right() -> None:
    text = (ROOT / "docs/research/seeds.md").read_text(encoding="utf-8")
    sums = [sum(len(each[word]) for each in read_page().values()) for word in range(3)]
    assert f"{sums[0]} are done, {sums[1]} are declined and {sums[2]} are open" in " ".join(text.split())
    assert sum(sums) == sum(GROUPS.values()) == 424


def test_exactly_the_declined_wishes_have_a_reason() -> None:
    text = (ROOT / "docs/research/seeds.md").read_text(encoding="utf-8").partition("\n## Declined wishes\n")[2]
    reasons: list[Wish] = []
    for wishes in re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)[1:]:
        for part in wishes.split(";"):
            group = part.strip()[:3]
            reasons += [(group, number) for number in numbers(part.strip()[3:])]
    declined = {(group, number) for group, words in read_page().items() for number in words[1]}
    assert len(reasons) == len(set(reasons))
    assert set(reasons) == declined
