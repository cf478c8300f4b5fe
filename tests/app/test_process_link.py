"""One of several processes: its place among them, and what they report together."""

from pathlib import Path

from mnemosyne.app.process_link import ProcessPlace, merge


def test_a_place_is_read_as_it_was_written() -> None:
    place = ProcessPlace(3, 4, Path("/tmp/a, b"), 2)
    assert (ProcessPlace.parse(str(place)), place.shard) == (place, 1)


def test_counts_of_processes_are_summed_and_the_worst_of_their_other_values_is_kept() -> None:
    one = {"untold": {"rounds": 1}, "unrecorded": {"/a": 1}, "database": {"state": "there", "seconds": 0.5}}
    two = {"untold": {"rounds": 2}, "unrecorded": {"/b": 2}, "database": {"state": "not answering", "seconds": 9.0}}
    database = {"state": "not answering", "seconds": 9.0}
    assert merge([one, two]) == {"untold": {"rounds": 3}, "unrecorded": {"/a": 1, "/b": 2}, "database": database}
    assert merge([{"problem": None}, {"problem": "away"}]) == {"problem": "away"}
    assert merge([{"problem": None}, {"problem": None}]) == {"problem": None}
