"""Golden events: what was stored once is readable for ever.

For each stored name, current or old, a folder holds ``<name>.json``: the stored state, pretty-printed. ``check_golden``
fails when a name has no file, when a file's name is known no more, when a file no longer decodes to the event that it
was made from, or when today's code would write a current name differently.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import orjson

from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.domain.ports import Envelope


def check_golden(
    codec: EventCodec, folder: Path, samples: Mapping[str, Envelope[object]], old: Collection[str] = frozenset()
) -> None:
    """Check every stored name against ``folder``: ``samples`` holds the envelope that each file means, by its name.

    An ``old`` name is only read; its sample is the event that it becomes today. Raises AssertionError with one line per
    problem; for a missing file the line holds the text to put into it.
    """
    names = samples.keys()
    problems = []
    files = {path.name.removesuffix(".json"): path.read_bytes() for path in sorted(folder.glob("*.json"))}
    problems += [
        f"{name}: stored once, and no longer known; names are for ever" for name in sorted(files.keys() - names)
    ]
    for name in sorted(names):
        problems += _check_one(codec, name, samples[name], files.get(name), current=name not in old)
    assert not problems, "\n".join(problems)


def golden_text(codec: EventCodec, sample: Envelope[object]) -> str:
    """What belongs into the file of a current name."""
    _, state = codec.encode(sample)
    return orjson.dumps(orjson.loads(state), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _check_one(
    codec: EventCodec, name: str, sample: Envelope[object], stored: bytes | None, *, current: bool
) -> list[str]:
    if stored is None:
        return [
            f"{name}: no golden file; " + (f"put there:\n{golden_text(codec, sample)}" if current else "restore it")
        ]
    problems = []
    if codec.decode(name, stored) != sample:
        problems.append(f"{name}: the stored event no longer means what it meant")
    if current:
        written, state = codec.encode(sample)
        if written != name:
            problems.append(f"{name}: its sample is written as {written}")
        elif orjson.loads(state) != orjson.loads(stored):
            problems.append(f"{name}: today's code writes it differently; that is a new version and an upcast")
    return problems
