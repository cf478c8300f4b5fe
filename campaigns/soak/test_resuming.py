"""A stopped campaign is resumed: passed tests are not repeated, failed ones are."""

import json
import subprocess
import sys
from pathlib import Path

CAMPAIGN = """
def test_it_holds():
    print("seven deaths")

def test_it_breaks():
    assert False
"""


def closing_line(folder: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "campaigns.soak.resuming", "-p", "no:cacheprovider"]
    options = ["--passed", str(folder / "notes" / "passed"), "--rootdir", str(folder), str(folder / "test_campaign.py")]
    done = subprocess.run([*command, *options], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    return done.stdout.splitlines()[-1]


def test_passed_tests_are_recorded_and_skipped_and_failed_ones_repeated(tmp_path: Path) -> None:
    (tmp_path / "test_campaign.py").write_text(CAMPAIGN, encoding="utf-8")
    assert closing_line(tmp_path).startswith("1 failed, 1 passed")
    (noted,) = map(json.loads, (tmp_path / "notes" / "passed").read_text(encoding="utf-8").splitlines())
    assert (noted["test"], noted["said"]) == ("test_campaign.py::test_it_holds", "seven deaths")
    assert closing_line(tmp_path).startswith("1 failed, 1 skipped")
