"""Random values of a process."""

from mnemosyne.app import process


def test_ids_and_salts_are_new_each_time() -> None:
    assert len({process.new_id() for _ in range(10)}) == 10
    assert len({process.new_salt() for _ in range(10)}) == 10
