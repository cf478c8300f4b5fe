"""The metrics of a real server, in Prometheus text format."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from prometheus_client import generate_latest

from mnemosyne.app.metrics import LIBRARY, METRICS, _Page
from mnemosyne.data_dir import local_token
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.http.gateway import FIRST_BYTE_BOUNDS, Waits
from tests.app.serving import Serving, serving
from tests.http.managing import Client, look_for, text, think
from tests.http.raw_client import exchange
from tests.waiting import DEADLINE

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')


async def scrape(server: Serving, folder: Path) -> dict[str, float]:
    """The samples by name and labels; each line is a help text, a type, or a sample of the last type."""
    own = (b"authorization", b"Bearer " + local_token(folder).encode())
    reply = await exchange(server.url, "/-/metrics", method="GET", headers=[own])
    assert b"text/plain; version=0.0.4" in (reply.header(b"content-type") or b"")
    typed: list[str] = []
    samples: dict[str, float] = {}
    for line in reply.body.decode().splitlines():
        if line.startswith("# TYPE "):
            typed.append(line.split()[2])
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            assert re.sub("_(bucket|sum|count)$", "", found[1]) == typed[-1] or found[1] == typed[-1], line
            samples[f"{found[1]}{{{found[2]}}}" if found[2] else found[1]] = float(found[3])
    assert len(typed) == len(set(typed))
    assert set(typed) <= {metric.name for metric in METRICS}
    return samples


async def scrape_after(turns: int, server: Serving, folder: Path) -> dict[str, float]:
    """The samples once that many turns are recorded; each later one has a hidden round."""
    with trio.fail_after(DEADLINE):
        while True:
            samples = await scrape(server, folder)
            rounds = samples.get("mnemosyne_rounds_total", 0.0)
            if rounds >= 2 * turns - 1 and samples["mnemosyne_appends_waiting"] == 0.0:
                return samples
            await trio.sleep(0.02)  # a monitor cannot wait for a change


def test_each_metric_has_one_type_and_a_label_cannot_break_out_of_its_quotes() -> None:
    waits = Waits([1, *[0] * len(FIRST_BYTE_BOUNDS)], 0.01)
    values = {
        "mnemosyne_turns_total": {('a"b\\c\nd',): 3},
        "mnemosyne_saved_dollars": -1.5,
        "mnemosyne_first_byte_seconds": {("messages",): (waits.buckets, waits.seconds)},
        "mnemosyne_errors_total": {},
    }
    lines = generate_latest(_Page(values)).decode().splitlines()
    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == [
        "mnemosyne_first_byte_seconds",
        "mnemosyne_turns_total",
        "mnemosyne_saved_dollars",
    ]
    assert 'mnemosyne_turns_total{outcome="a\\"b\\\\c\\nd"} 3.0' in lines
    assert 'mnemosyne_first_byte_seconds_bucket{dialect="messages",le="0.05"} 1.0' in lines
    assert 'mnemosyne_first_byte_seconds_sum{dialect="messages"} 0.01' in lines


@pytest.mark.release
def test_a_server_without_a_monitor_does_not_import_the_library() -> None:
    program = f"import sys, mnemosyne.app.server; sys.exit({LIBRARY!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=DEADLINE).returncode == 0


async def test_metrics_of_turns_accumulate(tmp_path: Path, dsn: str) -> None:
    async with serving(tmp_path, dsn, Mode.MANAGE) as server:
        client = Client(server.url)
        server.answers((think(), text("It is there.")))
        await client.turn(text("Here it comes."))
        first = await scrape_after(1, server, tmp_path)
        server.answers((think(), look_for("line")), (think(), text("It was there.")))
        await client.turn(text("What was it?"))
        second = await scrape_after(2, server, tmp_path)
    assert first['mnemosyne_turns_total{outcome="finished"}'] == 1
    assert second['mnemosyne_turns_total{outcome="finished"}'] == 2
    assert second["mnemosyne_rounds_total"] == 3
    assert second['mnemosyne_replies_total{dialect="messages",status="200"}'] == 2
    assert second['mnemosyne_first_byte_seconds_bucket{dialect="messages",le="+Inf"}'] == 2
    assert second['mnemosyne_tokens_total{kind="output",model="claude-opus-5-5"}'] > 0
    assert second['mnemosyne_cost_dollars_total{model="claude-opus-5-5"}'] > 0
    assert second["mnemosyne_sessions_awake"] == 1
    zones = {name: count for name, count in second.items() if "sessions_in_zone" in name}
    assert len(zones) == 5
    assert [name for name, count in zones.items() if count == 1] == ['mnemosyne_sessions_in_zone{zone="normal"}']
    assert second['mnemosyne_objects{fidelity="L0"}'] > 0
    at_l0 = second['mnemosyne_object_tokens{fidelity="L0"}']
    assert second['mnemosyne_object_tokens_in_full{fidelity="L0"}'] == at_l0 <= second["mnemosyne_usable_tokens"]
    assert second["mnemosyne_events_behind"] > 0  # the worker of this server sends nothing
    assert second['mnemosyne_worker_state{state="starting"}'] == 1
    assert second['mnemosyne_appends_total{result="failed"}'] == second["mnemosyne_appends_waiting"] == 0
    for counter in ("appended_events_total", "appended_bytes_total", "request_bytes_total", "reply_bytes_total"):
        assert 0 < first[f"mnemosyne_{counter}"] < second[f"mnemosyne_{counter}"]
