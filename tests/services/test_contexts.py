"""A turn as people name it is rebuilt, shown and compared with another."""

from hashlib import sha256

import attrs
import pytest

from mnemosyne.errors import BadOption, NotFound
from mnemosyne.services.contexts import compare_turns, read_context, rebuild_turn
from tests.services.talking import Talk, rich_session, talking


async def talked() -> Talk:
    async with talking() as talk:
        await rich_session(talk)
    return talk


async def test_every_attempt_is_rebuilt_to_the_bytes_that_were_sent_under_its_name() -> None:
    talk = await talked()
    for address, sent in talk.sent.items():
        name = f"{address.turn}.{address.attempt}"
        rebuilt = await rebuild_turn(talk.archive, "a client's session", address.branch, name)
        assert (rebuilt.proven, rebuilt.difference) == (True, None)
        assert rebuilt.withheld == (b"hunter2" in sent)
        assert rebuilt.body == sent.replace(b"hunter2-hunter2", b"*" * 15)


async def test_a_body_that_is_not_the_one_on_record_is_not_proven() -> None:
    """Also not one of the same size: that nothing differs is said of a hash, and not of what was looked for."""
    talk = await talked()
    rebuilt = await rebuild_turn(talk.archive, "a client's session", "main", "1.1")
    for other in (rebuilt.body + b" ", b"x" * len(rebuilt.body)):
        changed = attrs.evolve(rebuilt, body=other, sha256=sha256(other).digest())
        assert not changed.proven
        assert changed.difference is not None
        assert sha256(other).hexdigest() in changed.difference


async def test_without_a_turn_the_last_one_is_meant_with_what_came_back() -> None:
    talk = await talked()
    last = max(address.turn for address in talk.sent if address.branch == "main")
    found = await read_context(talk.archive, str(talk.stream), "main", None)
    assert (found.stream, found.rebuilt.attempt.address.turn) == (talk.stream, last)
    assert [block.kind for block in found.reply] == ["text"]
    assert found.reply_size


async def test_what_a_turn_added_is_what_changed() -> None:
    talk = await talked()
    same = await compare_turns(talk.archive, str(talk.stream), "main", ["2", "2"])
    assert (list(same.changes), same.settings) == ([], {})
    grown = await compare_turns(talk.archive, str(talk.stream), "main", ["1", "2"])
    assert {change.what for change in grown.changes} == {"added"}
    assert len(grown.changes) == 2
    shrunk = await compare_turns(talk.archive, str(talk.stream), "main", ["2", "1"])
    assert {change.what for change in shrunk.changes} == {"removed"}


@pytest.mark.parametrize(
    ("session", "branch", "turn", "error"),
    [
        ("nobody", "main", None, NotFound),
        ("a client", "nowhere", None, NotFound),
        ("a client", "main", "99", NotFound),
        ("a client", "main", "1:2", BadOption),
        ("a client", "main", "x", NotFound),
    ],
)
async def test_a_name_that_means_nothing_is_refused(
    session: str, branch: str, turn: str | None, error: type[Exception]
) -> None:
    talk = await talked()
    with pytest.raises(error):
        await read_context(talk.archive, session, branch, turn)
