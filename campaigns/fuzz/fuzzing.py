"""``python -m campaigns.fuzz.fuzzing FOLDER SECONDS TARGET``: one target, in a process that ends with its finding."""

import json
import random
import sys
import time
from hashlib import sha256
from pathlib import Path

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.damaged import damage

with atheris.instrument_imports(include=["mnemosyne"]):
    from campaigns.fuzz.targets import TARGETS, FuzzTarget

LONGEST = 16_384
"""Bytes of an input, unless a seed is longer."""


SECONDS, SECONDS_PER_KB = 2.0, 0.1
"""Of processor time, with instrumented code, which takes several times as long; what takes n² steps takes minutes."""


def within_bounds(target: FuzzTarget, data: bytes) -> None:
    """Run a target once. Raises AssertionError if it takes too long."""
    began = time.thread_time()
    target.run(data)
    took = time.thread_time() - began
    assert took < SECONDS + SECONDS_PER_KB * len(data) / 1_000, f"{took:.1f} s for {len(data):,} bytes"


def fuzz(folder: Path, seconds: int, target: FuzzTarget) -> None:
    """Fuzz one target. It does not return."""
    corpus = folder / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = target.seeds()
    for seed in seeds:
        (corpus / sha256(seed).hexdigest()[:16]).write_bytes(seed)
    longest = max(LONGEST, *map(len, seeds))
    options = [f"-max_total_time={seconds}", f"-max_len={longest}", f"-artifact_prefix={corpus}-", "-timeout=60"]

    def change(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        changed = _damage_json(data, chance) if chance.random() < 0.5 else None
        return changed[:most] if changed is not None else bytes(atheris.Mutate(data, most))

    atheris.Setup(
        [sys.argv[0], str(corpus), *options, "-rss_limit_mb=1500"],
        lambda data: within_bounds(target, data),
        custom_mutator=change,
    )
    atheris.Fuzz()


def _damage_json(data: bytes, chance: random.Random) -> bytes | None:
    """Damage one line that is JSON, or the JSON after a word; None if there is none."""
    lines = data.split(b"\n")
    number = chance.randrange(len(lines))
    start = max(lines[number].find(b"{"), 0)
    try:
        value = json.loads(lines[number][start:])
        if not isinstance(value, dict | list) or not value:
            return None
        lines[number] = lines[number][:start] + json.dumps(damage(value, chance)).encode()
    except (ValueError, RecursionError, TypeError, IndexError):
        return None
    return b"\n".join(lines)


if __name__ == "__main__":
    place, most, name = sys.argv[1:]
    fuzz(Path(place), int(most), next(each for each in TARGETS if each.name == name))
