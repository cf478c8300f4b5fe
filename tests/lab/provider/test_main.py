"""The scripted provider as a process of its own."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import httpx2
import trio

from tests.lab.provider.building import HEADERS, body
from tests.lab.provider.building_openai import CHAT, KEY, chat

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


async def test_slots_simulate_a_local_server_and_prefill_needs_them(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process, [*COMMAND, "--slots", "1", "--prefill", "2"], stdout=subprocess.PIPE, check=False
        )
        process = await nursery.start(run)
        url = (await process.stdout.receive_some()).decode().split()[-1]
        async with httpx2.AsyncClient(headers=KEY) as client:
            timings = (await client.post(url + CHAT, json=chat())).json()["timings"]
        assert timings["prompt_ms"] == 2 * timings["prompt_n"] > 0
        process.terminate()
    done = await trio.run_process([*COMMAND, "--prefill", "2"], capture_stderr=True, check=False)
    assert done.returncode == 2
    assert b"need --slots" in done.stderr


async def test_help_explains_how_to_write_a_script() -> None:
    done = await trio.run_process([*COMMAND, "--help"], capture_stdout=True)
    assert "[[rules]]" in done.stdout.decode()
    assert "ANTHROPIC_BASE_URL" in done.stdout.decode()
