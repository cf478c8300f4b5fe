"""A conversation is written in Codex's format, with the base instructions separate."""

import json
import stat
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.adapters.codex_rollouts import find_folder, write_rollout
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.errors import BadOption
from mnemosyne.services.forks import ForkPoint

AT = 1_767_605_467_114_000
"""2026-01-05 09:31:07.114 UTC."""


def make_message(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}], **more}


OWN = make_message(
    "developer",
    "You are Codex.",
    internal_chat_message_metadata_passthrough={"content_item_kinds": ["model.base_instructions"]},
)
CALL = {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "teal"}
REPLY = make_message("assistant", "Teal.")


def fork_point(request: dict[str, Any], dialect: Any = RESPONSES) -> ForkPoint:
    return ForkPoint(
        "codex", "s", 3, 3, "resp_1", dialect, request, {"output": [REPLY, CALL]}, UUID(int=1), 0, ("c",), (RESULT,)
    )


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    (file,) = (folder / "sessions/2026/01/05").glob(f"rollout-2026-01-05T09-31-07-{name}.jsonl")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("marked", [True, False])
def test_items_are_written_unchanged_with_codex_s_own_events(tmp_path: Path, marked: bool) -> None:
    items = [make_message("user", "Which colour?"), CALL]
    request = {"input": [OWN, *items]} if marked else {"instructions": "You are Codex.", "input": items}
    name = write_rollout(tmp_path, fork_point(request), Path("/home/ada/app"), AT)
    first, *lines = read(tmp_path, name)
    meta = first["payload"]
    assert (first["type"], meta["id"], meta["cwd"]) == ("session_meta", name, "/home/ada/app")
    assert meta["base_instructions"] == {"text": "You are Codex."}
    assert [each["payload"] for each in lines if each["type"] == "response_item"] == [*items, REPLY, CALL, RESULT]
    shown = [(each["payload"]["type"], each["payload"]["message"]) for each in lines if each["type"] == "event_msg"]
    assert shown == [("user_message", "Which colour?"), ("agent_message", "Teal.")]


@pytest.mark.parametrize(("session", "provider"), [("s", "mine"), ("t", "openai"), ("u", "openai"), ("../s", "openai")])
def test_a_fork_has_its_parent_s_provider_and_shows_only_typed_prompts(
    tmp_path: Path, session: str, provider: str
) -> None:
    """Codex 0.171.0 continues a conversation in a terminal only with its provider."""
    day = tmp_path / "sessions/2026/01/04"
    day.mkdir(parents=True)
    (day / "rollout-2026-01-04T09-31-07-s.jsonl").write_text('{"payload": {"model_provider": "mine"}}\n')
    (day / "rollout-2026-01-04T09-31-07-t.jsonl").write_text("damaged")
    (day / "rollout-2026-01-04T09-31-07-u.jsonl").write_text('{"payload": {"model_provider": null}}\n')  # an old fork
    kinds = ("environments.environment_context", "user.text")
    items = [
        make_message("user", kind, internal_chat_message_metadata_passthrough={"content_item_kinds": [kind]})
        for kind in kinds
    ]
    name = write_rollout(tmp_path, attrs.evolve(fork_point({"input": items}), session=session), tmp_path, AT)
    first, *lines = read(tmp_path, name)
    assert first["payload"]["model_provider"] == provider
    assert [each["payload"]["message"] for each in lines if each["type"] == "event_msg"] == ["user.text", "Teal."]


def test_a_failure_to_write_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="can only continue its own sessions"):
        write_rollout(tmp_path, fork_point({}, MESSAGES), tmp_path, AT)
    (tmp_path / "sessions").write_text("a file")
    with pytest.raises(BadOption, match="cannot be written"):
        write_rollout(tmp_path, fork_point({}), tmp_path, AT)


def test_the_folder_follows_codex_s_variables(tmp_path: Path) -> None:
    assert find_folder({"CODEX_HOME": "/etc/codex"}) == Path("/etc/codex")
    assert find_folder({"HOME": str(tmp_path)}) == tmp_path / ".codex"
