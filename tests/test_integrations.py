"""The plugins for clients have valid manifests and call existing commands."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.cli import main
from mnemosyne.services.agent_tools import BY_NAME
from tests.waiting import DEADLINE

FOLDER = Path(__file__).parents[1] / "integrations"
CLAUDE, OPENCODE = FOLDER / "claude-code", FOLDER / "opencode"


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def test_each_manifest_names_existing_files() -> None:
    plugin, listed = read(CLAUDE / ".claude-plugin/plugin.json"), read(FOLDER / ".claude-plugin/marketplace.json")
    (entry,) = listed["plugins"]
    assert (entry["name"], entry["description"]) == (plugin["name"], plugin["description"])
    assert (FOLDER / entry["source"]).resolve() == CLAUDE
    package = read(OPENCODE / "package.json")
    assert package["main"] in package["files"]
    assert [name for name in package["files"] if not (OPENCODE / name).exists()] == []
    assert package["version"] == plugin["version"]


def test_every_command_that_a_plugin_runs_exists() -> None:
    hooks = [
        hook for each in read(CLAUDE / "hooks/hooks.json")["hooks"].values() for one in each for hook in one["hooks"]
    ]
    commands = [shlex.split(each["command"]) for each in hooks]
    commands += [[each["command"], *each["args"]] for each in read(CLAUDE / ".mcp.json")["mcpServers"].values()]
    script = (OPENCODE / "mnemosyne.js").read_text(encoding="utf-8")
    commands += [["mnemosyne", name] for name in re.findall(r'COMMAND[^"\n]*, "(\w+)"\]', script)]
    assert len(commands) == 6
    for program, name in commands:
        assert program == "mnemosyne"
        assert name in main.places()


@pytest.mark.parametrize("command", sorted(CLAUDE.glob("commands/*.md")), ids=lambda path: path.stem)
def test_every_tool_that_a_command_mentions_is_offered(command: Path) -> None:
    text = command.read_text(encoding="utf-8")
    assert re.match(r"---\ndescription: .+\nargument-hint: .+\n---\n", text)
    assert "$ARGUMENTS" in text
    named = set(re.findall(r"`(\w+)`", text))
    assert named
    assert named <= BY_NAME.keys() | {"all_sessions"}


PROGRAM = """
import { Mnemosyne } from PLUGIN
const session = { get: async () => ({ data: {} }), messages: async () => ({ data: [] }) }
const plugin = await Mnemosyne({ client: { session }, directory: process.cwd() })
const config = { mcp: { other: {} } }
await plugin.config(config)
const told = []
for (const text of ["Remember it", "Remember it"]) {
  const output = { message: { id: "msg_1" }, parts: [{ id: "prt_0123456789abcdefgh", type: "text", text }] }
  await plugin["chat.message"]({ sessionID: "ses_1" }, output)
  told.push(output.parts)
}
const compacting = { context: [] }
await plugin["experimental.session.compacting"]({}, compacting)
console.log(JSON.stringify({ config, told, compacting }))
process.exit()  // as opencode does; node's timer of a program that does not exist runs on
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="opencode's plugin needs Node.js")
def test_opencode_plugin_does_no_harm_if_mnemosyne_is_absent_or_fails(tmp_path: Path) -> None:
    """The case of a working program is tested with the real client (`campaigns/clients/test_plugins.py`)."""
    script = tmp_path / "program.mjs"
    script.write_text(PROGRAM.replace("PLUGIN", json.dumps((OPENCODE / "mnemosyne.js").as_uri())), encoding="utf-8")
    for command in (str(tmp_path / "nowhere"), "false"):
        environ = {"PATH": "/usr/bin:/bin", "MNEMOSYNE_COMMAND": command}
        node = shutil.which("node")
        assert node is not None
        done = subprocess.run(
            [node, script], cwd=tmp_path, env=environ, capture_output=True, timeout=DEADLINE, check=True
        )
        told = json.loads(done.stdout)
        server = {"type": "local", "command": [command, "mcp"], "environment": {}}
        assert told["config"]["mcp"] == {"mnemosyne": server, "other": {}}
        assert [len(parts) for parts in told["told"]] == [1, 1]
        assert told["compacting"] == {"context": []}


@pytest.mark.skipif(shutil.which("node") is None, reason="opencode's plugin needs Node.js")
def test_opencode_plugin_reports_the_first_prompt_of_a_session_and_each_question(tmp_path: Path) -> None:
    script, command = tmp_path / "program.mjs", tmp_path / "mnemosyne"
    script.write_text(PROGRAM.replace("PLUGIN", json.dumps((OPENCODE / "mnemosyne.js").as_uri())), encoding="utf-8")
    command.write_text('#!/bin/sh\nsed -E \'s/.*"hook_event_name":"([A-Za-z]+)".*/\\1/\'\n', encoding="utf-8")
    command.chmod(0o755)
    node = shutil.which("node")
    assert node is not None
    environ = {"PATH": "/usr/bin:/bin", "MNEMOSYNE_COMMAND": str(command)}
    done = subprocess.run([node, script], cwd=tmp_path, env=environ, capture_output=True, timeout=DEADLINE, check=True)
    told = json.loads(done.stdout)
    texts = [[part["text"] for part in parts] for parts in told["told"]]
    assert texts == [["Remember it", "SessionStart\n\nUserPromptSubmit"], ["Remember it", "UserPromptSubmit"]]
    (asked, added) = told["told"][0]
    assert added["id"] > asked["id"], "opencode shows parts in the order of their ids"
    assert added["synthetic"]
    assert told["compacting"] == {"context": ["Keep in the summary what the work at hand needs of this:\nSessionStart"]}


CONFIGURED = """{
  // a command of one's own
  "command": "%s", /* "command": "other", */
  "settings": {"data_dir": "/a//b,]", "memory_tokens": 900, "host": "file",},
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="opencode's plugin needs Node.js")
@pytest.mark.parametrize(("text", "is_read"), [(CONFIGURED, True), ("{", False), ("null // %s", False)])
def test_opencode_plugin_reads_its_settings_file_and_the_environment_takes_precedence(
    tmp_path: Path, text: str, *, is_read: bool
) -> None:
    script, command, file = tmp_path / "program.mjs", tmp_path / "own", tmp_path / "opencode/mnemosyne.jsonc"
    script.write_text(PROGRAM.replace("PLUGIN", json.dumps((OPENCODE / "mnemosyne.js").as_uri())), encoding="utf-8")
    command.write_text('#!/bin/sh\necho "$MNEMOSYNE_DATA_DIR $MNEMOSYNE_MEMORY_TOKENS $MNEMOSYNE_HOST"\n')
    command.chmod(0o755)
    file.parent.mkdir()
    file.write_text(text.replace("%s", str(command)), encoding="utf-8")
    node = shutil.which("node")
    assert node is not None
    environ = {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(tmp_path), "MNEMOSYNE_HOST": "variable"}
    done = subprocess.run([node, script], cwd=tmp_path, env=environ, capture_output=True, timeout=DEADLINE, check=True)
    told = json.loads(done.stdout)
    server = told["config"]["mcp"]["mnemosyne"]
    if is_read:
        assert told["compacting"]["context"][0].endswith("\n/a//b,] 900 variable")
        assert server["environment"] == {"MNEMOSYNE_DATA_DIR": "/a//b,]", "MNEMOSYNE_MEMORY_TOKENS": "900"}
    assert server["command"] == [str(command) if is_read else "mnemosyne", "mcp"]


@pytest.mark.skipif(shutil.which("node") is None, reason="opencode's plugin is for node's kind of program")
@pytest.mark.parametrize(
    ("text", "block"),
    [
        ('{"command": ["/bin/sh", "-c", "echo known $0"]}', ["known hook"]),
        ('{"command": [7]}', []),
        ('{"settings": {"host": "\\u0000"}}', []),
    ],
)
def test_opencode_plugin_takes_a_command_as_a_list_and_an_impossible_one_blocks_no_prompt(
    tmp_path: Path, text: str, block: list[str]
) -> None:
    script, file = tmp_path / "program.mjs", tmp_path / "opencode/mnemosyne.jsonc"
    script.write_text(PROGRAM.replace("PLUGIN", json.dumps((OPENCODE / "mnemosyne.js").as_uri())), encoding="utf-8")
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    node = shutil.which("node")
    assert node is not None
    environ = {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run([node, script], cwd=tmp_path, env=environ, capture_output=True, timeout=DEADLINE, check=True)
    told = json.loads(done.stdout)
    assert [each.rpartition("\n")[2] for each in told["compacting"]["context"]] == block
    assert told["told"][0][0]["text"] == "Remember it"


ENDINGS = """
import { Mnemosyne } from PLUGIN
const get = async ({ path }) => ({ data: path.id === "child" ? { parentID: "first" } : {} })
const messages = async ({ path }) => ({ data: path.id === "resumed" ? [{}] : [] })
const plugin = await Mnemosyne({ client: { session: { get, messages } }, directory: process.cwd() })
const emit = (type, properties) => plugin.event({ event: { type, properties } })
for (const sessionID of ["first", "child", "second", "resumed", "first"]) {
  const parts = [{ id: "prt_0123456789abcdefgh", type: "text", text: sessionID }]
  await plugin["chat.message"]({ sessionID }, { message: { id: "msg_1" }, parts })
}
for (const sessionID of ["first", "second"]) await emit("session.status", { sessionID, status: { type: "busy" } })
await emit("session.status", { sessionID: "first", status: { type: "idle" } })
const parts = [{ id: "prt_0123456789abcdefgh", type: "text", text: "third" }]
await plugin["chat.message"]({ sessionID: "third" }, { message: { id: "msg_1" }, parts })
await emit("session.updated", { sessionID: "third", info: { id: "third", time: { updated: 1 } } })
await emit("session.updated", { sessionID: "third", info: { id: "third", time: { archived: 1 } } })
await emit("session.deleted", { sessionID: "child", info: { id: "child", time: {} } })
await plugin.dispose()
process.exit()
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="opencode's plugin needs Node.js")
def test_opencode_plugin_closes_archived_sessions_idle_ones_at_a_new_one_and_all_at_exit(
    tmp_path: Path,
) -> None:
    script, command, log = tmp_path / "program.mjs", tmp_path / "mnemosyne", tmp_path / "events"
    script.write_text(ENDINGS.replace("PLUGIN", json.dumps((OPENCODE / "mnemosyne.js").as_uri())), encoding="utf-8")
    command.write_text(f'#!/bin/sh\nread -r event\necho "$event" >> "{log}"\n', encoding="utf-8")
    command.chmod(0o755)
    node = shutil.which("node")
    assert node is not None
    environ = {"PATH": "/usr/bin:/bin", "MNEMOSYNE_COMMAND": str(command)}
    subprocess.run([node, script], cwd=tmp_path, env=environ, capture_output=True, timeout=DEADLINE, check=True)
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    ended = [each["session_id"] for each in events if each["hook_event_name"] == "SessionEnd"]
    assert ended[0] == "first"
    assert sorted(ended) == ["first", "first", "resumed", "second", "third"], "a child is not the user's"
    assert ended.index("third") < ended.index("second"), "the second ran when the third began"
