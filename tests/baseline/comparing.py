"""Tells two sets of hashes apart: groups of named entries, such as a session with its turns."""

from collections.abc import Iterator, Mapping

Groups = dict[str, dict[str, str]]
"""Hashes by the name of an entry, by the name of its group."""


def compare(reference: Mapping[str, Mapping[str, str]], found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """A line for each group that differs: how many of its entries do, and which is the first."""
    for name in sorted(reference.keys() | found.keys()):
        before, now = reference.get(name), found.get(name)
        if before is None:
            yield f"{name}: new"
        elif now is None:
            yield f"{name}: missing"
        else:
            entries = dict.fromkeys((*now, *before))
            differing = [entry for entry in entries if before.get(entry) != now.get(entry)]
            if differing:
                yield f"{name}: {len(differing)} of {len(entries)} differ, first {differing[0]}"
