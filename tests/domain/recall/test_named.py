"""A path in any spelling finds the newest object of its file; current versions precede outdated ones."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import ObjectCreated, Supersession
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.recall.named import MOST_OF_ONE, current_first, find_named
from tests.domain.remembered import created, remembered, superseded

POOL = "/home/ada/app/src/db/pool.py"


def read(object_id: str, path: str, message: int, *tags: str) -> ObjectCreated:
    return created(object_id, message, source_key=path, tags=("read", *(tags or ("whole",))))


def edited(object_id: str, path: str, message: int) -> ObjectCreated:
    return created(object_id, message, source_key=path, tags=("edit",))


def ran(object_id: str, command: str, message: int) -> ObjectCreated:
    key = f"Bash {command}"
    return created(object_id, message, source_key=key, source_tool="Bash", kind=ObjectKind.TOOL_RESULT, tags=())


def named(question: str, *objects: ObjectCreated, stale: Sequence[str] = ()) -> list[str]:
    old = [superseded(each, Supersession.EDITED) for each in stale]
    return [each.id for each in find_named(question, remembered(*objects, *old).objects.values())]


def test_file_is_named_by_its_path_any_suffix_of_it_or_its_name() -> None:
    paths = rf"{POOL} pool.py `pool.py` db/pool.py ./db/pool.py ../src/db/pool.py DB/Pool.PY src\db\pool.py"
    for question in (*paths.split(), "what does src/db/pool.py hold?", "the limit in pool.py:20", "See pool.py."):
        found = named(question, read("a", POOL, 1), read("b", "/home/ada/app/src/db/whirlpool.py", 3))
        assert (question, found) == (question, ["a"])


@pytest.mark.parametrize(
    "question",
    [
        "whirlpool.py",
        "other/pool.py",
        "rc/db/pool.py",
        "pool.pyc",
        "pool.py.orig",
        "pool.py/a",
        "pool",
        "",
        "how large is the pool?",
        f"/mnt{POOL}",
    ],
)
def test_similar_path_does_not_name_a_file(question: str) -> None:
    assert named(question, read("a", POOL, 1)) == []


@pytest.mark.parametrize(
    ("question", "path", "is_named"),
    [
        ("main", "cmd/main", True),
        ("what does main do?", "cmd/main", False),
        ("what does the Makefile do?", "Makefile", True),
        ("open my notes.txt", "docs/my notes.txt", True),
        ("was steht in größe.md?", "docs/größe.md", True),
        ("None", None, False),
        ("a/", "a/", False),
    ],
)
def test_plain_word_names_a_file_only_alone_or_in_capitals(question: str, path: str | None, is_named: bool) -> None:
    assert named(question, created("a", source_key=path, tags=("read",))) == ["a"] * is_named


@pytest.mark.parametrize(
    ("question", "ids"),
    [("make test", ["new", "old"]), ("Bash make test", ["new", "old"]), ("did make test pass?", [])],
)
def test_only_a_whole_command_finds_its_runs(question: str, ids: list[str]) -> None:
    assert named(question, ran("old", "make test", 1), ran("new", "make test", 3), ran("other", "make", 5)) == ids


def test_newest_object_of_a_file_precedes_current_ones_and_the_last_read() -> None:
    versions = [
        read("whole", POOL, 1),
        read("slice", POOL, 3, "lines:1-20"),
        edited("edit1", POOL, 5),
        edited("edit2", POOL, 7),
    ]
    assert named("pool.py", *versions, stale=["whole", "slice"]) == ["edit2", "edit1", "slice"]
    slices = [read(str(n), POOL, 2 * n + 1, f"lines:{20 * n}-{20 * n + 19}") for n in range(9)]
    assert named("pool.py", *slices) == ["8", "7", "6", "5"]
    assert len(slices) > MOST_OF_ONE


def test_unreadable_file_is_found_by_its_failure() -> None:
    failed = created("a", source_key="src/gone.py", kind=ObjectKind.ERROR_CONTEXT, tags=("error", "read"))
    assert named("gone.py", failed) == ["a"]


def test_files_of_the_same_name_alternate_and_a_full_path_ranks_first() -> None:
    objects = [read("a1", "a/x.py", 1, "lines:1-9"), read("a2", "a/x.py", 3, "lines:10-19"), read("b", "b/x.py", 5)]
    assert named("x.py", *objects) == ["b", "a2", "a1"]
    assert named("a/x.py", *objects) == ["a2", "a1"]
    assert named("x.py", read("deep", "lib/x.py", 3), read("top", "x.py", 1)) == ["top", "deep"]


@given(st.text(max_size=80), st.lists(st.text(alphabet="ab/. -", min_size=1, max_size=12), max_size=6))
def test_any_question_is_accepted_and_a_full_path_finds_the_newest(text: str, paths: list[str]) -> None:
    objects = [read(str(n), path, 2 * n + 1) for n, path in enumerate(paths)]
    named(text, *objects)
    for path in paths:
        if path.rpartition("/")[2].strip(" .") and path == " ".join(path.split()):
            newest = max(n for n, other in enumerate(paths) if other == path)
            assert str(newest) in named(path, *objects)


# Versions


def test_changed_versions_follow_current_ones_and_others_keep_their_places() -> None:
    memory = remembered(
        read("old", POOL, 1),
        ran("failed", "make", 3),
        read("new", POOL, 5),
        ran("passed", "make", 7),
        superseded("old", Supersession.EDITED, "new"),
        superseded("failed", Supersession.REREAD, "passed"),
    )
    found = ["old", "failed", "new", "passed", "old"]
    assert current_first(found, memory.objects) == ["new", "failed", "old", "passed"]
    assert current_first(["old", "failed"], memory.objects) == ["old", "failed"]


def test_versions_without_a_source_are_grouped_by_their_replacement() -> None:
    said = {"source_key": None, "kind": ObjectKind.DESIGN_DECISION}
    memory = remembered(
        *(created(each, 2 * n + 1, **said) for n, each in enumerate("abc")),
        superseded("a", Supersession.REVISED, "b"),
        superseded("b", Supersession.REVISED, "c"),
    )
    assert current_first(["a", "b", "c"], memory.objects) == ["c", "a", "b"]


@given(st.permutations([str(n) for n in range(6)]), st.sets(st.integers(0, 5)))
def test_version_order_is_complete_with_current_versions_first(found: list[str], old: set[int]) -> None:
    made = [read(str(n), f"{n % 2}.py", 2 * n + 1) for n in range(6)]
    objects = remembered(*made, *(superseded(str(n), Supersession.EDITED) for n in old)).objects

    def stale(each: MemoryObject) -> bool:
        return each.stale

    order = current_first(found, objects)
    assert sorted(order) == sorted(found)
    for source in ("0.py", "1.py"):
        versions = [objects[key] for key in order if objects[key].source_key == source]
        assert versions == sorted(versions, key=stale)
