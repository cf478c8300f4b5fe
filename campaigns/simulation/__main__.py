"""``python -m campaigns.simulation [SEED …]``, or ``FIRST-LAST``: run these seeds, with a line of output for each."""

import sys
import time
import traceback
from collections.abc import Iterator, Sequence

import attrs

from campaigns.simulation.world import simulate


def _read_seeds(words: Sequence[str]) -> Iterator[int]:
    for word in words:
        first, _, last = word.partition("-")
        yield from range(int(first), int(last or first) + 1)


def main(words: Sequence[str]) -> int:
    """Run them; return 1 if one of them failed."""
    failed = []
    for seed in _read_seeds(words):
        began = time.process_time()
        try:
            found = simulate(seed)
        except Exception:
            traceback.print_exc()
            failed.append(seed)
        else:
            told = " ".join(f"{name}={value}" for name, value in attrs.asdict(found).items())
            print(f"{told} processor={time.process_time() - began:.2f}", flush=True)  # noqa: T201
    print(f"failed: {failed}")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
