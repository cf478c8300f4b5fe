"""Every service that takes a turn accepts a checkpoint's name."""

import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.errors import BadEntry, BadOption, NotFound
from mnemosyne.services import contexts
from mnemosyne.services.checkpoints import Naming, name, read_all
from mnemosyne.services.exporting import export
from mnemosyne.services.forgetting import forget
from mnemosyne.services.forks import find_fork_point
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.manifests import read_manifest
from mnemosyne.services.verifying import verify
from tests.services.talking import Talk, assistant, body, talking, user


async def named(talk: Talk, checkpoint: str, turn: int | None = None, *, branch: str = "main") -> Naming:
    return await name(talk.archive, str(talk.stream), checkpoint, branch=branch, turn=turn, stamp=WriteStamp(9, "c"))


async def three_turns(talk: Talk) -> None:
    """Three turns; the second one is the checkpoint "second"."""
    said = [user("one")]
    for words in ("two", "three"):
        await talk.ask(body(said))
        said += [assistant("Done."), user(words)]
    await talk.ask(body(said))
    await named(talk, "second", 2)


async def test_a_name_is_accepted_wherever_a_turn_is() -> None:
    async with talking() as talk:
        await three_turns(talk)
        archive, session = talk.archive, str(talk.stream)
        for name_, number in (("second", "2"), ("second/1", "2/1")):
            rebuilt = [await contexts.rebuild_turn(archive, session, "main", turn) for turn in (name_, number)]
            assert rebuilt[0] == rebuilt[1]
        assert (await contexts.read_context(archive, session, "main", "second")).rebuilt.attempt.began.turn == 2
        differences = [await contexts.compare_turns(archive, session, "main", [turn, "3"]) for turn in ("second", "2")]
        assert differences[0] == differences[1]
        manifests = [await read_manifest(archive, session, "main", turn) for turn in ("second", "2")]
        assert manifests[0] == manifests[1]
        assert await find_fork_point(archive, session, "second") == await find_fork_point(archive, session, 2)
        assert (await verify(archive, talk.stream)).verdict == "ok"


async def test_a_name_belongs_to_one_turn() -> None:
    async with talking() as talk:
        await three_turns(talk)
        assert (await named(talk, "now")).checkpoint.turn == 3
        assert not (await named(talk, "now", 3)).recorded
        with pytest.raises(BadEntry, match="second is already the name of turn 2 of main"):
            await named(talk, "second", 3)
        _, held = await read_all(talk.archive, str(talk.stream))
        assert [(each.name, each.branch, each.turn) for each in held] == [("second", "main", 2), ("now", "main", 3)]


async def test_invalid_names_and_missing_turns_are_refused() -> None:
    async with talking() as talk:
        await three_turns(talk)
        for wrong in ("", "7", "a b", "second/1", "x" * 65, "-x", "ä"):
            with pytest.raises(BadEntry, match="is not a valid name"):
                await named(talk, wrong)
        with pytest.raises(NotFound, match="has turns 1 to 3, and not 4"):
            await named(talk, "later", 4)
        with pytest.raises(NotFound, match="no branch 'elsewhere'"):
            await named(talk, "there", branch="elsewhere")
        with pytest.raises(NotFound, match="no checkpoint 'last'; its checkpoints: second"):
            await contexts.rebuild_turn(talk.archive, str(talk.stream), "main", "last")
        with pytest.raises(BadOption, match="is not a turn"):
            await contexts.rebuild_turn(talk.archive, str(talk.stream), "main", "2:1")


async def test_names_are_exported_and_deleted_with_the_session() -> None:
    async with talking() as talk:
        await three_turns(talk)
        lines = [line async for line in export(talk.archive, talk.stream, event_codec())]
        assert any(b'"second"' in line for line in lines)
        await forget(talk.archive, talk.stream, lambda: 10, "c")
        assert (await read_all(talk.archive, str(talk.stream)))[1] == ()
        assert not any("second" in str(each) for each in await talk.archive.events.read(talk.stream))
