"""``python -m campaigns.fuzz FOLDER SECONDS [TARGET …]``: run each target for this long, one after the other, and
keep the useful inputs in ``FOLDER``, so that the next run continues from there. Needs atheris; `make fuzz` installs
it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from campaigns.fuzz.targets import TARGETS


def _run(folder: Path, seconds: int, name: str) -> bool:
    """Run a target in a process of its own, which ends at a finding; return whether it found something."""
    command = [sys.executable, "-m", "campaigns.fuzz.fuzzing", str(folder), str(seconds), name]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    executions = re.findall(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+)", ran.stderr, re.MULTILINE)
    count, edges, features = executions[-1] if executions else ("0", "0", "0")
    found = f"FAILED, see {folder / name}.log" if ran.returncode else "nothing found"
    (folder / f"{name}.log").write_text(ran.stderr, encoding="utf-8")
    print(f"{name}: {count} executions, {edges} edges, {features} features: {found}", flush=True)  # noqa: T201
    return bool(ran.returncode)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the number of targets with findings."""
    folder, seconds, names = Path(arguments[0]), int(arguments[1]), arguments[2:]
    folder.mkdir(parents=True, exist_ok=True)
    os.nice(19)
    return sum(_run(folder, seconds, each.name) for each in TARGETS if not names or each.name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
