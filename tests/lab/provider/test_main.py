"""The scripted provider as a process of its own."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx2
import trio

from tests.lab.provider.building import HEADERS, body

COMMAND = [sys.executable, "-m", "mnemosyne_lab.provider"]


async def test_process_prints_its_address_and_answers_from_its_script(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[rules]]\nreply = { text = "from the file" }\n')
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, [*COMMAND, "--script", str(script)], stdout=subprocess.PIPE, check=False)
        process = await nursery.start(run)
        line = (await process.stdout.receive_some()).decode()
        assert line.startswith("standin listening on http://127.0.0.1:")
        assert line.count("\n") == 1
        async with httpx2.AsyncClient(headers=HEADERS) as client:
            reply = await client.post(line.split()[-1] + "/v1/messages", json=body())
        assert reply.json()["content"][0]["text"] == "from the file"
        process.terminate()


async def test_bad_script_is_reported_in_a_sentence_with_exit_code_2(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"rules": [{"reply": {"txt": "x"}}]}')
    done = await trio.run_process([*COMMAND, "--script", str(script)], capture_stderr=True, check=False)
    assert done.returncode == 2
    told = done.stderr.decode()
    assert "script.json" in told
    assert "script.rules[0].reply" in told
    assert "Traceback" not in told
