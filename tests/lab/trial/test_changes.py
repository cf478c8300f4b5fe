"""The changes of a run are a short text, whatever it left in its folder."""

from pathlib import Path

from mnemosyne_lab.trial.running import LARGEST, LONGEST_CHANGES, describe_changes


def test_changed_removed_and_new_files_are_shown_in_this_order(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, texts in (
        (before, {"same": "1", "edited": "one\ntwo\n", "gone": "x"}),
        (after, {"same": "1", "edited": "one\nthree\n", "added": "new", ".git/index": "ours"}),
    ):
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    (after / "binary").write_bytes(b"\xff\xfe")
    (after / "link").symlink_to("same")
    assert [line for line in describe_changes(before, after).splitlines() if line[0] != "@"] == [
        *("--- edited", "+++ edited", " one", "-two", "+three"),
        *("--- gone", "+++ /dev/null", "-x"),
        *("--- /dev/null", "+++ added", "+new"),
        "binary: 2 bytes",
    ]
    assert describe_changes(after, after) == ""


def test_large_changes_are_shortened(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}").write_text("a line\n" * 1_000)
    (tmp_path / "large").write_text("x" * (LARGEST + 1))
    found = describe_changes(None, tmp_path)
    assert len(found) <= LONGEST_CHANGES
    assert found.splitlines()[-2:] == ["8: new", "large: 200,001 bytes"]
    assert describe_changes(None, tmp_path / "none") == ""
