"""Objects found by where they came from: the path of a file, or the command that was run.

Words and meaning rank what objects say; a path names one file, whose newest object is what was asked for. So paths are
looked up among all objects, also those that the index does not hold.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.recall.retrieval import WordIndex

MOST_OF_ONE = 4
"""Objects of one file that are named: the newest, and others that still say how it is, such as its slices."""

MOST_CALLED = 12
"""Objects that a question may call by their names."""

LEAST_CALLED = 0.5
"""How much of a question a name must hold; rare words count more."""

_BEFORE = re.compile(r"(?<![\w.@~+-])[\w.@~+-]++\Z")
_DETOUR = re.compile(r"(?<![\w./])(?:\.{1,2}/)*+(?:\.{1,2})?+\Z")
_AFTER = re.compile(r"[\w@+-]|\.\w|/\w")


def path_of(each: MemoryObject) -> str | None:
    """The file that an object came from, also where reading or changing it failed; None of any other object."""
    if KINDS[each.kind].is_file or (KINDS[each.kind].is_failure and not {"read", "change"}.isdisjoint(each.tags)):
        return each.source_key
    return None


def find_named(question: str, objects: Iterable[MemoryObject]) -> list[MemoryObject]:
    """The objects that a question names by their path, by the end of one, or by their whole command, best first.

    ``objects`` come in the order in which they were made. Of each file the newest comes first; of several files of one
    name the first of each come before the second of any.
    """
    asked = " ".join(question.replace("\\", "/").split())
    folded = asked.casefold()
    of_path: dict[str, list[MemoryObject]] = {}
    of_command: list[MemoryObject] = []
    bare = _unquote(asked)
    for each in objects:
        if not each.places:
            continue
        path = path_of(each)
        if path is not None:
            of_path.setdefault(path, []).append(each)
        elif each.source_key is not None and bare in (each.source_key, _command(each)):
            of_command.append(each)
    held = (path for path in of_path if path.rpartition("/")[2].casefold() in folded)
    told = {path: told for path in held if (told := _measure_name(asked, path))}
    order = sorted(told, key=lambda path: (-told[path], path != bare, -of_path[path][-1].last_turn))
    files = [_newest_first(of_path[path]) for path in order]
    in_turn = chain.from_iterable(zip_longest(*files))
    return [*(each for each in in_turn if each is not None), *reversed(of_command[-MOST_OF_ONE:])]


def name_of(each: MemoryObject) -> str:
    """What an object is called, by which somebody may ask for it."""
    return " ".join((each.line, each.stub, each.source_key or ""))


def find_called(question: str, objects: Iterable[MemoryObject]) -> list[str]:
    """The ids of the objects whose names hold most of a question, best first."""
    index: WordIndex[str] = WordIndex()
    for each in objects:
        index.add(each.id, name_of(each))
    hits = index.search(question, MOST_CALLED)
    return [hit.key for hit in hits if index.coverage(question, hit.key) >= LEAST_CALLED]


def current_first(found: Iterable[str], objects: Mapping[str, MemoryObject]) -> list[str]:
    """The ids that were found, best first, each once, where what is out of date stands behind what is not.

    Only objects of one source change places.
    """
    order = list(dict.fromkeys(found))
    places: dict[str, list[int]] = {}
    for number, key in enumerate(order):
        places.setdefault(_source(objects[key], objects), []).append(number)
    for numbers in places.values():
        versions = sorted((order[number] for number in numbers), key=lambda key: objects[key].stale)
        for number, key in zip(numbers, versions, strict=True):
            order[number] = key
    return order


def add_named(named: Sequence[MemoryObject], found: Iterable[str], objects: Mapping[str, MemoryObject]) -> list[str]:
    """The ids of what a question names, then of what else was found for it, each once."""
    return list(dict.fromkeys([*(each.id for each in named), *current_first(found, objects)]))


def _source(each: MemoryObject, objects: Mapping[str, MemoryObject]) -> str:
    """What versions of one thing have in common: where they came from, or the last of those that took its place."""
    if each.source_key is not None:
        return each.source_key
    seen = {each.id}
    while (newer := objects.get(each.superseded_by or "")) is not None and newer.id not in seen:
        each = newer
        seen.add(each.id)
    return each.id


def _newest_first(versions: Sequence[MemoryObject]) -> list[MemoryObject]:
    """The newest, others that still say how the file is, and the newest that shows it, though out of date."""
    files = [each for each in reversed(versions) if KINDS[each.kind].is_file]
    shows = [each for each in files if not {"read", "write"}.isdisjoint(each.tags)]
    current = [each for each in files if not each.stale]
    found = [*files[:1], *current[: MOST_OF_ONE - 2], *shows[:1], *current, *versions[-1:]]
    return list({each.id: each for each in found}.values())[:MOST_OF_ONE]


def _command(each: MemoryObject) -> str | None:
    return each.source_key and each.source_key.removeprefix(f"{each.source_tool} ")


def _unquote(text: str) -> str:
    return text.strip("\"'`").rstrip("?").rstrip("\"'`")


def _measure_name(asked: str, path: str) -> int:
    """How much of a path a question names, in characters; 0 where it names another, or none.

    A name alone counts where it looks like a file's, or where nothing else is asked.
    """
    name = path.rpartition("/")[2]
    best = 0
    for match in re.finditer(re.escape(name), asked, re.IGNORECASE) if name else ():
        if _AFTER.match(asked, match.end()):
            continue
        best = max(best, _measure_before(asked, match.start(), match.end(), path))
    return best


def _measure_before(asked: str, start: int, end: int, path: str) -> int:
    """How much of a path stands before its name in a question; 0 where something else does."""
    folders = path[: len(path) - (end - start)]
    while folders and start and asked[start - 1].casefold() == folders[-1].casefold():
        start, folders = start - 1, folders[:-1]
    before = _DETOUR.sub("", asked[:start])
    cut = not folders or folders.endswith("/") or asked[start : start + 1] == "/"
    if not cut or _BEFORE.search(before):
        return 0
    if before.endswith("/") and folders.lstrip("/"):
        return 0
    said = asked[start:end]
    looks_like_a_file = "." in said or "/" in said or not said.islower()
    return len(said) if looks_like_a_file or _unquote(asked) == said else 0
