"""``python -m campaigns.mutation COSMIC_RAY FOLDER [MODULE …]``: mutate the code at one place after the other; the
tests of the module must detect each mutation. ``COSMIC_RAY`` is that program; ``FOLDER`` holds the results, so that
a stopped run can continue. It works on a copy of the tree.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 60
"""Seconds after which the tests of a change count as failed: it loops."""

TESTS: Mapping[str, str] = {
    "mnemosyne/domain/objects/losses.py": "tests/domain/objects/test_losses.py",
    "mnemosyne/domain/history/verification.py": "tests/services/test_verifying.py",
    "mnemosyne/domain/session/redaction.py": "tests/domain/session/test_redaction.py",
    "mnemosyne/domain/wire/echoed_keys.py": "tests/domain/wire/test_echoed_keys.py",
    "mnemosyne/domain/history/replay.py": "tests/domain/history/test_replay.py tests/replay/test_deciding.py",
}
"""The modules that are changed, and the tests that have to notice."""


def run(cosmic_ray: str, folder: Path, module: str) -> None:
    """Try the remaining mutations of a module, and report the undetected ones."""
    tree, name = folder / "tree", f"{Path(module).stem}-{_digest(module)}"
    _copy(tree)
    settings, session = folder / f"{name}.toml", folder / f"{name}.sqlite"
    settings.write_text(_settings(module), encoding="utf-8")
    if not session.exists():
        subprocess.run([cosmic_ray, "init", settings, session], cwd=tree, check=True)
    subprocess.run([cosmic_ray, "exec", settings, session], cwd=tree, check=True)
    dumped = subprocess.run([cosmic_ray, "dump", session], cwd=tree, check=True, capture_output=True, text=True)
    tried = [json.loads(line) for line in dumped.stdout.splitlines()]
    survived = list(_survivors(tried))
    print(f"{module}: {len(tried)} changes, {len(survived)} not noticed\n", *survived, sep="\n")  # noqa: T201


def _digest(module: str) -> str:
    """A hash of the module and its tests: if either changes, all mutations are tried again."""
    return sha256(b"".join((ROOT / each).read_bytes() for each in (module, *TESTS[module].split()))).hexdigest()[:8]


def _copy(tree: Path) -> None:
    """Copy today's code and tests over the rest of any stopped run."""
    for part in ("mnemosyne", "tests"):
        shutil.rmtree(tree / part, ignore_errors=True)
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for file in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / file, tree)


def _settings(module: str) -> str:
    pytest = f"{sys.executable} -B -m pytest -q -x -p no:cacheprovider -m 'not soak' {TESTS[module]}"
    values = {
        "module-path": module,
        "timeout": float(LONGEST),
        "excluded-modules": [],
        "test-command": f"env PYTHONPATH=. HYPOTHESIS_PROFILE=ci {pytest}",
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(["[cosmic-ray]", *lines, "[cosmic-ray.distributor]", 'name = "local"', ""])


def _survivors(tried: list[list[dict[str, object]]]) -> Iterator[str]:
    """Each undetected mutation, as a patch."""
    for _, result in tried:
        if result and result["test_outcome"] == "survived":
            yield str(result["diff"])


if __name__ == "__main__":
    program, place, *modules = sys.argv[1:]
    Path(place).mkdir(parents=True, exist_ok=True)
    for each in modules or TESTS:
        run(str(Path(program).resolve()), Path(place).resolve(), each)
