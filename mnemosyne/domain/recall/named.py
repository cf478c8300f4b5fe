"""Lookup of objects by source: the path of a file, or the command that was run.

Words and meaning rank the content of objects; a path names one file, whose newest object is the wanted one. So paths
are looked up among all objects, including those outside the index.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import Supersession
from mnemosyne.domain.objects.kinds import KINDS

MOST_OF_ONE = 4
"""Maximum number of objects of one file: the newest, and others that are still current, such as its slices."""

_BEFORE = re.compile(r"(?<![\w.@~+-])[\w.@~+-]++\Z")
_DETOUR = re.compile(r"(?<![\w./])(?:\.{1,2}/)*+(?:\.{1,2})?+\Z")
_AFTER = re.compile(r"[\w@+-]|\.\w|/\w")


def path_of(obj: MemoryObject) -> str | None:
    """The file of an object, also if reading or changing it failed; None for any other object."""
    if KINDS[obj.kind].is_file or (KINDS[obj.kind].is_failure and not {"read", "change"}.isdisjoint(obj.tags)):
        return obj.source_key
    return None


def find_named(question: str, objects: Iterable[MemoryObject]) -> list[MemoryObject]:
    """The objects that a question names by their path, by its end, or by their whole command, best first.

    ``objects`` are in order of creation. The newest object of each file comes first; of several files with the same
    name, the first object of each precedes the second of any.
    """
    asked = " ".join(question.replace("\\", "/").split())
    folded = asked.casefold()
    of_path: dict[str, list[MemoryObject]] = {}
    of_command: list[MemoryObject] = []
    bare = _unquote(asked)
    for obj in objects:
        if not obj.holds_content:
            continue
        path = path_of(obj)
        if path is not None:
            of_path.setdefault(path, []).append(obj)
        elif obj.source_key is not None and bare in (
            obj.source_key,
            obj.source_key.removeprefix(f"{obj.source_tool} "),
        ):
            of_command.append(obj)
    held = (path for path in of_path if path.rpartition("/")[2].casefold() in folded)
    lengths = {path: lengths for path in held if (lengths := _measure_name(asked, path))}
    order = sorted(lengths, key=lambda path: (-lengths[path], path != bare, -of_path[path][-1].last_turn))
    files = [_newest_first(of_path[path]) for path in order]
    in_turn = chain.from_iterable(zip_longest(*files))
    return [*(obj for obj in in_turn if obj is not None), *reversed(of_command[-MOST_OF_ONE:])]


def current_first(found: Iterable[str], objects: Mapping[str, MemoryObject]) -> list[str]:
    """The ids without duplicates, best first, with outdated versions of a file or a plan behind current ones.

    Only objects with the same source change places. The earlier output of a command that ran again keeps its place: it
    is a fact of its own.
    """
    order = list(dict.fromkeys(found))
    places: dict[str, list[int]] = {}
    for number, key in enumerate(order):
        places.setdefault(_source(objects[key], objects), []).append(number)
    for numbers in places.values():
        versions = sorted((order[number] for number in numbers), key=lambda key: is_outdated(objects[key]))
        for number, key in zip(numbers, versions, strict=True):
            order[number] = key
    return order


def add_named(named: Sequence[MemoryObject], found: Iterable[str], objects: Mapping[str, MemoryObject]) -> list[str]:
    """The ids of the objects that a question names, then of the other results, without duplicates."""
    return list(dict.fromkeys([*(each.id for each in named), *current_first(found, objects)]))


def _source(each: MemoryObject, objects: Mapping[str, MemoryObject]) -> str:
    """The common key of all versions of one thing: their source, or the last object that supersedes them."""
    if each.source_key is not None:
        return each.source_key
    seen = {each.id}
    while (newer := objects.get(each.superseded_by or "")) is not None and newer.id not in seen:
        each = newer
        seen.add(each.id)
    return each.id


def is_outdated(obj: MemoryObject) -> bool:
    """Whether an object is an earlier version of a file or a plan."""
    return obj.stale and (KINDS[obj.kind].is_file or obj.superseded is not Supersession.REREAD)


def _newest_first(versions: Sequence[MemoryObject]) -> list[MemoryObject]:
    """The newest, others that are still current, and the newest that shows the file, though outdated."""
    files = [obj for obj in reversed(versions) if KINDS[obj.kind].is_file]
    shows = [obj for obj in files if not {"read", "write"}.isdisjoint(obj.tags)]
    current = [obj for obj in files if not obj.stale]
    found = [*files[:1], *current[: MOST_OF_ONE - 2], *shows[:1], *current, *versions[-1:]]
    return list({obj.id: obj for obj in found}.values())[:MOST_OF_ONE]


def _unquote(text: str) -> str:
    return text.strip("\"'`").rstrip("?").rstrip("\"'`")


def _measure_name(asked: str, path: str) -> int:
    """How much of a path a question names, in characters; 0 if it names another path, or none.

    A bare name counts if it looks like a file name, or if the question contains nothing else.
    """
    name = path.rpartition("/")[2]
    best = 0
    for match in re.finditer(re.escape(name), asked, re.IGNORECASE) if name else ():
        if _AFTER.match(asked, match.end()):
            continue
        best = max(best, _measure_before(asked, match.start(), match.end(), path))
    return best


def _measure_before(asked: str, start: int, end: int, path: str) -> int:
    """How much of a path precedes its name in a question; 0 if something else does."""
    folders = path[: len(path) - (end - start)]
    while folders and start and asked[start - 1].casefold() == folders[-1].casefold():
        start, folders = start - 1, folders[:-1]
    before = _DETOUR.sub("", asked[:start])
    cut = not folders or folders.endswith("/") or asked[start : start + 1] == "/"
    if not cut or _BEFORE.search(before):
        return 0
    if before.endswith("/") and folders.lstrip("/"):
        return 0
    mention = asked[start:end]
    looks_like_a_file = "." in mention or "/" in mention or not mention.islower()
    return len(mention) if looks_like_a_file or _unquote(asked) == mention else 0
