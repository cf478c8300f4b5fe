"""Every wish has one state, and what shows it exists. `campaigns/test_wishes.py` runs the commands."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.test_docs import parse_command
from tests.wishes import read_file, state_of, wishes_of

ROOT = Path(__file__).parents[1]
COUNTS = {
    **{"PXY": 15, "SES": 12, "OBJ": 13, "SEG": 10, "FID": 14, "CMP": 13, "PRS": 13, "EVI": 10, "LOS": 8, "TAG": 4},
    **{"PHT": 12, "FLT": 16, "PIN": 9, "QRY": 8, "GOL": 8, "PFT": 10, "ADM": 9, "ENT": 4, "REL": 7, "WSM": 17},
    **{"MAN": 14, "CLM": 7, "MMD": 9, "TIM": 11, "FRK": 9, "TOL": 5, "PRC": 11, "PLN": 4, "XSM": 13, "KWT": 3},
    **{"AUT": 12, "SRV": 7, "BIT": 18, "PTL": 9, "SCL": 9, "UIX": 9, "MET": 19, "EVL": 7, "FAI": 11, "HLP": 5},
    **{"DBS": 5, "INT": 9, "OBS": 6},
}
MEMBERS = {"works": {"works"}, "part": {"part", "shown"}, "declined": {"declined", "adr"}, "open": set[str]()}


def test_every_wish_has_one_state_with_its_proof_or_its_reason() -> None:
    groups, _ = read_file()
    assert {name: [*wishes_of(group)] for name, group in groups.items()} == {
        name: [*range(1, count + 1)] for name, count in COUNTS.items()
    }
    assert sum(COUNTS.values()) == 424
    for name, group in groups.items():
        for number, wish in wishes_of(group).items():
            assert wish.keys() == {"wish"} | MEMBERS[state_of(wish)], (name, number)


def test_every_decision_that_declines_a_wish_exists() -> None:
    numbers = {wish["adr"] for group in read_file()[0].values() for wish in wishes_of(group).values() if "adr" in wish}
    assert [number for number in numbers if not [*(ROOT / "docs/adr").glob(f"{number:04}-*.md")]] == []


def test_every_test_that_shows_a_wish_exists() -> None:
    named = [proof.partition("::") for proof in proofs() if proof.startswith(("tests/", "campaigns/"))]
    assert len(named) > 300
    assert [(path, name) for path, _, name in named if name not in find_tests(path)] == []


@cache
def find_tests(path: str) -> set[str]:
    """The tests of a file; empty if it does not exist."""
    if not (ROOT / path).exists():
        return set()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    classes = [(f"{node.name}::", node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        f"{prefix}{node.name}"
        for prefix, body in [("", tree.body), *classes]
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_command_that_shows_a_wish_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for proof in [*proofs(), *(row["run"] for row in read_file()[1])]:
        match shlex.split(proof):
            case ["mnemosyne", *_] as words:
                parse_command(words)
            case ["python", "-m", "benchmarks", name, *_]:
                assert [*(ROOT / "benchmarks").glob(f"{name.partition('.')[0]}*")], proof
            case ["python", "-m", module]:
                assert (ROOT / module.replace(".", "/") / "__main__.py").exists(), proof
            case ["make", target]:
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), proof
            case _:
                assert proof.startswith(("tests/", "campaigns/")), proof


def proofs() -> Iterator[str]:
    for group in read_file()[0].values():
        for wish in wishes_of(group).values():
            yield from (wish[member] for member in ("works", "shown") if member in wish)
