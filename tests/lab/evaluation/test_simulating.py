"""A branch of an exported session is simulated under a policy in a process that prints the result."""

from pathlib import Path

import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.errors import NotFound
from mnemosyne.services.exporting import write_session
from mnemosyne.services.simulated import read_branch
from mnemosyne_lab.evaluation.simulating import list_policies, main, simulate_branch
from tests.services.talking import rich_session, talking


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    async with talking() as talk:
        await rich_session(talk)
        with path.open("wb") as out:
            await write_session(talk.archive, str(talk.stream), out, event_codec())
    return path


async def test_branch_has_turns_and_both_bills(file: Path) -> None:
    found = simulate_branch(file, "main", "uncompacted")
    assert [each.turn for each in found.turns] == list(range(1, len(found.turns) + 1))
    assert all(each.held[0] for each in found.turns)
    assert 0 < found.nanodollars_unmanaged <= found.nanodollars
    assert found.about == list_policies()["uncompacted"]


async def test_invalid_conversation_is_reported(file: Path) -> None:
    with pytest.raises(NotFound, match="is no conversation"):
        simulate_branch(file, "nothing", "simple")


async def test_process_prints_its_result_or_the_reason(file: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([str(file), "main", "simple"]) == 0
    assert read_branch(capfdbinary.readouterr().out).policy == "simple"
    assert main([str(file), "main", "none such"]) == 1
    assert b"none such" in capfdbinary.readouterr().err


def test_policies_with_foresight_are_not_offered() -> None:
    assert "mnemosyne" in list_policies()
    assert not any(name.startswith("oracle") for name in list_policies())
