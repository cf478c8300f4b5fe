"""`mnemosyne run` finds or starts a server, sets variables, and is transparent to the client."""

import json
import os
import re
import select
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from socket import socket
from typing import IO
from uuid import UUID

import attrs
import psycopg
import pytest
import trustme

from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.app.discovery import FoundServer
from mnemosyne.app.threads import in_a_thread
from mnemosyne.cli import run
from mnemosyne.cli.run import _print_hidden_usage, list_unrecorded, render_recorded
from mnemosyne.config import list_settings, load, repeat_options
from mnemosyne.services.savings import Balance, Savings
from mnemosyne_lab.provider import from_data
from tests.cli.support import (
    MNEMOSYNE,
    Provider,
    ended,
    environ_for,
    invoked,
    line,
    mnemosyne,
    provider,
    server_of,
    serving,
    started,
)
from tests.clients.provider import standin_in_a_thread
from tests.profiles import rarely
from tests.waiting import DEADLINE, IMPATIENT, PATIENT

NAMES = ("ANTHROPIC_BASE_URL", "NO_PROXY", "no_proxy", "OPENCODE_CONFIG_CONTENT")

SHOW = f"import json, os; print(json.dumps({{name: os.environ.get(name) for name in {NAMES}}}))"

ASK = "import os, urllib.request as r; print(r.urlopen(os.environ['ANTHROPIC_BASE_URL'] + '/v1/x').read().decode())"

on_linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")


@pytest.fixture(scope="module")
def upstream() -> Iterator[Provider]:
    with provider() as server:
        yield server


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """The home of all tests, whose database runs throughout."""
    # Not pytest's own temporary folder, which keeps its content for three runs, 40 MB each.
    with tempfile.TemporaryDirectory(prefix="mnemosyne-run-") as folder:
        home = Path(folder)
        with in_a_thread(partial(open_embedded, home / "data"), "the database for the commands"):
            yield home


@pytest.fixture
def environ(home: Path, upstream: Provider) -> dict[str, str]:
    return environ_for(home, MNEMOSYNE_UPSTREAM=upstream.url)


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/health", timeout=DEADLINE) as response:
            return bool(response.status == 200)
    except urllib.error.URLError:
        return False


def test_server_is_started_for_a_client_and_ends_with_it(
    environ: dict[str, str], upstream: Provider, home: Path, tmp_path: Path
) -> None:
    """Nothing is printed if nothing was recorded. The proxy in the environment is not used for loopback. Neither
    another program on the port is trusted nor the folder of the agent, which may contain anything.
    """
    for name in ("click", "trio", "quart", "mnemosyne"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('trapped')")
    client = f"import sys; sys.path.remove('')\n{SHOW}\n{ASK}"
    with provider() as stranger:
        environ |= {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
        environ |= {"MNEMOSYNE_PORT": str(stranger.server_port)}
        result = mnemosyne("run", *python(client), environ=environ, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    variables, reply = result.stdout.splitlines()
    assert (reply, upstream.asked[-1]) == ("{}", "GET /v1/x")
    url = json.loads(variables)["ANTHROPIC_BASE_URL"]
    assert url.startswith("http://127.0.0.1:")
    assert url != stranger.url
    assert "GET /v1/x" not in stranger.asked
    assert url in json.loads(variables)["OPENCODE_CONFIG_CONTENT"]
    assert not answers(url)
    assert "SIGTERM" in (home / "data/server.log").read_text()


def test_running_server_is_joined_and_survives_the_client(joined: dict[str, str]) -> None:
    url = f"http://127.0.0.1:{joined['MNEMOSYNE_PORT']}"
    result = mnemosyne("run", *python(f"{SHOW}\nraise SystemExit(7)"), environ=joined)
    assert json.loads(result.stdout)["ANTHROPIC_BASE_URL"] == url
    assert result.returncode == 7, "the client's exit code"
    assert answers(url)


@contextmanager
def listener(*, listens: bool) -> Iterator[str]:
    """The URL of a port that refuses connections, or never answers."""
    with socket() as held:
        held.bind(("127.0.0.1", 0))
        if listens:
            held.listen()
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def test_client_is_not_started_if_its_upstream_refuses_connections(environ: dict[str, str]) -> None:
    with listener(listens=False) as url:
        result = invoked("run", "--upstream", url, *python(""), environ=environ)
    assert result.exit_code == 1
    assert f"{url} gave no answer: " in result.stderr
    assert "was not started: check the network and --upstream." in result.stderr


@pytest.mark.release  # it waits for the upstream
def test_client_is_started_with_a_warning_if_its_upstream_is_silent(environ: dict[str, str]) -> None:
    with listener(listens=True) as url:
        result = mnemosyne("run", "--upstream", url, *python("print('started')"), environ=environ)
    assert (result.returncode, result.stdout) == (0, "started\n")
    assert result.stderr == f"mnemosyne: {url} did not answer within 3 s. {sys.executable} is started anyway.\n"


def write_client(folder: Path, name: str) -> str:
    """The path of a client that prints ``here``."""
    program = folder / name
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.release
def test_client_is_not_started_without_a_provider_for_its_dialect(
    environ: dict[str, str], tmp_path: Path, upstream: Provider
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[upstreams.local]\nurl = "{upstream.url}"\ndialects = ["chat"]\n')
    environ |= {"MNEMOSYNE_UPSTREAM": "https://api.anthropic.com", "MNEMOSYNE_CONFIG": str(settings)}
    with listener(listens=False) as proxy:
        environ |= {"HTTPS_PROXY": proxy, "https_proxy": proxy}
        result = invoked("run", "--", write_client(tmp_path, "codex"), environ=environ)
    assert result.exit_code == 1
    assert "its requests (responses) would go to https://api.anthropic.com, which does not accept them" in result.stderr
    assert "--upstreams, such as openai=https://api.openai.com" in result.stderr


ASK_ON_EACH_LINE = """
import os, sys, urllib.request as r
url = os.environ["ANTHROPIC_BASE_URL"]
for _ in sys.stdin:
    while True:
        try:
            print(r.urlopen(url + "/v1/x").read().decode(), flush=True)
            break
        except OSError:
            pass
"""


@on_linux
def test_killed_server_is_restarted_at_the_same_address_and_ends_with_a_killed_command(environ: dict[str, str]) -> None:
    with started("run", *python(ASK_ON_EACH_LINE), environ=environ) as process:
        assert process.stdin is not None
        for number in (1, 2):
            process.stdin.write("\n")
            process.stdin.flush()
            assert line(process.stdout) == "{}"
            if number == 1:
                os.kill(server_of(process), signal.SIGKILL)
                warning = "the server ended while its client was running (SIGKILL) and is restarted in 0.5 s."
                assert warning in line(process.stderr)
        server = server_of(process)
        process.kill()
        assert ended(server)


def status(**database: object) -> FoundServer:
    return FoundServer("http://127.0.0.1:1", "1", "http://127.0.0.1:2", "me", database=database)


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        (None, status(), []),
        (status(appends_lost=2), status(appends_lost=2, problem="the database is away"), []),
        (
            None,
            status(records_waiting=1, problem="the database is full: its disk is full"),
            [
                "some turns are not recorded yet, and will be lost if the server ends now: "
                "the database is full: its disk is full"
            ],
        ),
        (
            status(appends_lost=1),
            status(appends_lost=3, problem="the database is away"),
            ["2 writes of this server failed, so the record has a gap: the database is away"],
        ),
        (
            status(turns_lost=1),
            status(turns_lost=4, problem="the database is away"),
            ["3 turns were not recorded completely: the database is away"],
        ),
        (None, status(turns_lost=1), ["1 turn was not recorded completely"]),
        (status(turns_lost=2), status(turns_lost=2), []),
        (
            attrs.evolve(status(), unrecorded={"/v1/a": 1}),
            attrs.evolve(status(), unrecorded={"/v1/a": 1, "/v1/b": 2}),
            ["2 requests to /v1/b were forwarded but not recorded"],
        ),
        (
            None,
            None,
            ["the server does not respond, so some turns may be unrecorded: see server.log in the data directory"],
        ),
    ],
)
def test_summary_names_what_was_not_recorded_since_the_client_began(
    before: FoundServer | None, after: FoundServer | None, sentences: list[str]
) -> None:
    assert list_unrecorded(before, after) == sentences


@pytest.mark.parametrize(
    ("mode", "turns", "managed", "words"),
    [
        ("manage", 5, 2, "3 of them sent unchanged (`mnemosyne explain` says why)"),
        ("manage", 1, 0, "1 of them sent unchanged (`mnemosyne explain` says why)"),
        ("manage", 4, 4, None),
        ("observe", 4, 0, None),
    ],
)
def test_summary_counts_turns_that_should_have_been_managed(
    mode: str, turns: int, managed: int, words: str | None
) -> None:
    session = UUID(int=7)
    sentence = render_recorded(Savings({session: Balance(turns=turns, managed=managed)}, {session: "s"}), mode)
    assert sentence.startswith(f"recorded {turns} turn")
    assert ("sent unchanged" in sentence) is (words is not None)
    assert words is None or words in sentence


@pytest.mark.parametrize(
    ("break_even", "words"),
    [(19, "breaks even around turn 19"), (0, "$0.0042 of it for memory tools"), (None, "$0.0042 more than")],
)
def test_summary_of_a_managed_loss_says_when_it_breaks_even(break_even: int | None, words: str) -> None:
    balance = Balance(turns=3, managed=3, replies=3, nanodollars=10**8, nanodollars_unmanaged=10**8 - 4_200_000)
    assert words in render_recorded(Savings({UUID(int=7): balance}, {}), "manage", break_even)


def mode_of(url: str, home: Path) -> str:
    token = (home / "data/token").read_text().strip()
    asking = urllib.request.Request(f"{url}/-/status", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asking, timeout=DEADLINE) as reply:
        return str(json.load(reply)["settings"]["mode"])


@pytest.mark.release
def test_ignored_options_and_stopped_managing_are_reported(environ: dict[str, str], home: Path) -> None:
    client = ("--", sys.executable, "-c", "")
    with serving("--manage-window", "160000", environ=environ) as url:
        port = url.rpartition(":")[2]
        assert invoked("run", "--port", port, "--manage-window", "160000", *client, environ=environ).stderr == ""
        asked = ("--port", port, "--manage", "--manage-window", "45000")
        assert invoked("run", *asked, *client, environ=environ).stderr.splitlines() == [
            f"mnemosyne: this conversation will not be managed: {client[1]} cannot request it, and the server on "
            f"{url} was started with mode observe. Use --port 0 to start a managing server.",
            f"mnemosyne: the server on {url} ignores --manage-window: it was started with 160000. "
            "Use --port 0 to start another.",
        ]
        try:
            assert invoked("off", environ=environ).exit_code == 0
            lines = invoked("run", *asked, *client, environ=environ).stderr.splitlines()
            assert lines[0].startswith("mnemosyne: managing is off since 20")
            assert len(lines) == 3
            assert invoked("run", "--port", port, *client, environ=environ).stderr == ""
            checked = invoked("doctor", environ=environ).stdout
            assert "database: managing is off since 20" in checked
            with started("serve", "--manage", environ=environ) as server:
                words = line(server.stdout).split()
                assert words[:3] == ["mnemosyne", "listening", "on"]
                assert mode_of(words[3], home) == "manage"
                server.terminate()
                assert "managing is off since 20" in server.communicate(timeout=DEADLINE)[1]
        finally:
            assert invoked("off", "--undo", environ=environ).exit_code == 0


@pytest.mark.release
def test_a_limit_that_the_client_cannot_choose_is_applied_by_a_server_of_its_own(environ: dict[str, str]) -> None:
    client = ("--", sys.executable, "-c", SHOW)
    with serving("--session-budget-dollars", "3", environ=environ) as url:
        port = url.rpartition(":")[2]
        for amount, is_joined in (("3", True), ("2", False)):
            result = mnemosyne("run", "--port", port, "--budget", amount, *client, environ=environ)
            assert result.stderr == ""
            assert (json.loads(result.stdout)["ANTHROPIC_BASE_URL"] == url) == is_joined


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:hush-hush@127.0.0.1:1/db", "postgresql://me:***@127.0.0.1:1/db"),
        ("host=127.0.0.1 port=1 password=hush-hush", "host=127.0.0.1 port=1 password=***"),
    ],
)
def test_other_database_than_the_joined_server_s_is_reported_without_its_password(
    dsn: str, shown: str, joined: dict[str, str]
) -> None:
    errors = invoked("run", "--dsn", dsn, *python(""), environ=joined).stderr
    url = f"http://127.0.0.1:{joined['MNEMOSYNE_PORT']}"
    assert errors.startswith(
        f"mnemosyne: the server on {url} ignores --dsn: it was started with embedded. Use --port 0"
    )
    assert "hush" not in errors
    assert list_settings(load({"dsn": dsn}, {}))["dsn"] == shown


def test_unrecorded_requests_are_named(joined: dict[str, str]) -> None:
    for path in ("/v1/completions?a=b", "/v1/completions", "/api/event_logging", "/v1/messages/count_tokens"):
        url = f"http://127.0.0.1:{joined['MNEMOSYNE_PORT']}{path}"
        asking = urllib.request.Request(url, b"{}", {"content-type": "application/json"})
        with pytest.raises(urllib.error.HTTPError, match="501"):  # the provider has no POST
            urllib.request.urlopen(asking, timeout=DEADLINE)
    sentence = "2 requests to /v1/completions were forwarded but not recorded."
    assert invoked("sessions", environ=joined).stderr.splitlines()[-1] == sentence
    assert f"port: {sentence}" in invoked("doctor", environ=joined).stdout


TURN = """
import json, os, urllib.request as r
body = {"model": "claude-opus-5-5", "max_tokens": 99, "tools": [{"name": "Look", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "Where is it?"}]}
headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "k",
           "x-mnemosyne-mode": "manage", "user-agent": AGENT}
asked = r.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(), headers)
print(json.load(r.urlopen(asked))["usage"]["input_tokens"])
"""

RECALL = {"type": "tool_use", "name": "memory_query", "input": {"question": "Where?"}}


def test_summary_s_command_repeats_the_options_that_locate_the_log_but_no_password() -> None:
    given = {"data_dir": "/a log", "tenant": "me", "dsn": "postgresql://me:secret@db/log"}
    assert repeat_options(load(given, {})) == " --data-dir '/a log' --tenant me"
    assert repeat_options(load({}, {"MNEMOSYNE_DATA_DIR": "/log"})) == ""


def test_summary_has_the_cost_and_the_usage_that_the_client_cannot_see(joined: dict[str, str]) -> None:
    """The server that runs has another upstream, so the command starts its own."""
    with standin_in_a_thread() as standin:
        given = {"input_tokens": 1_000, "output_tokens": 1}
        replies = [{"content": [RECALL], "usage": given}] * 2 + [{"text": "There.", "usage": given}]
        standin.script = from_data({"rules": [{"replies": replies}]})
        environ = joined | {"MNEMOSYNE_UPSTREAM": standin.url, **PATIENT}
        result = mnemosyne(
            "run", "--manage", "--budget", "0.01", *python(f"AGENT = 'opencode/1.18.33'{TURN}"), environ=environ
        )
    hidden, recorded, limit = result.stderr.splitlines()
    assert result.stdout.strip() == "1000"
    sentence = "too low: 2 memory requests with 2000 input tokens are hidden. `mnemosyne usage` includes them."
    assert hidden == f"mnemosyne: the client's cost display is {sentence}"
    price = r"\$0\.01\d"
    paid = rf"{price} of it for memory tools \(nothing compacted yet\)"
    summary = rf"mnemosyne: recorded 1 turn, {price}, {paid}: mnemosyne open [0-9a-f]{{8}}"
    assert re.fullmatch(summary, recorded)
    assert re.fullmatch(
        rf"mnemosyne: session [0-9a-f]{{8}} has cost {price} of \$0.010 \(session_budget_dollars\)\.", limit
    )


@pytest.mark.parametrize(
    ("joined", "whose"),
    [(True, "the cost displays of this server's clients are"), (False, "the client's cost display is")],
)
def test_hidden_usage_of_a_shared_server_may_be_another_client_s(
    joined: bool, whose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_hidden_usage({"rounds": 1, "tokens": 20_000}, joined)
    sentence = "too low: 1 memory request with 20.0k input tokens are hidden. `mnemosyne usage` includes them."
    assert capsys.readouterr().err == f"mnemosyne: {whose} {sentence}\n"
    _print_hidden_usage({}, joined)
    assert capsys.readouterr().err == ""


@pytest.mark.release  # it starts a server of its own
def test_summary_waits_for_a_slow_database(tmp_path: Path, dsn: str) -> None:
    with standin_in_a_thread() as standin:
        standin.script = from_data({"rules": [{"replies": [{"text": "There.", "usage": {"input_tokens": 9}}]}]})
        environ = environ_for(tmp_path, MNEMOSYNE_UPSTREAM=standin.url, MNEMOSYNE_DSN=dsn)
        client = f"import os; print(os.getpid(), flush=True)\nAGENT = 'curl/8'{TURN}"
        with serving(*IMPATIENT, environ=environ) as url, psycopg.connect(dsn) as held:
            held.execute("lock table mnemosyne.stored_events in exclusive mode")
            with started("run", "--port", url.rpartition(":")[2], *python(client), environ=environ) as process:
                assert ended(int(line(process.stdout)))
                held.rollback()
                assert "recorded 1 turn" in process.communicate(timeout=DEADLINE)[1]


def test_summary_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "server_at", lambda *_: status(records_waiting=1))
    monkeypatch.setattr(run, "SUMMARY_SECONDS", -1.0)
    assert run._wait_for_record("http://127.0.0.1:1", load({}, {})) == status(records_waiting=1)


# Codes and signals


@pytest.fixture(scope="module")
def joined(home: Path, upstream: Provider) -> Iterator[dict[str, str]]:
    """An environment with a running server."""
    environ = environ_for(home, MNEMOSYNE_UPSTREAM=upstream.url)
    with serving(environ=environ) as url:
        yield environ | {"MNEMOSYNE_PORT": url.rpartition(":")[2]}


@pytest.mark.release
@pytest.mark.parametrize("number", [*rarely([signal.SIGKILL]), signal.SIGINT])
def test_signal_that_ends_the_client_ends_the_command(number: int, joined: dict[str, str]) -> None:
    code = f"import os, signal; signal.signal({number}, 0) if {number} != 9 else 0; os.kill(os.getpid(), {number})"
    result = mnemosyne("run", *python(code), environ=joined)
    assert (result.returncode, result.stderr) == (-number, "")


TRAP = """
import os, signal, sys
def report(number, frame):
    os.write(1, f"got {signal.Signals(number).name}\\n".encode())
    if number == signal.SIGUSR1:
        os._exit(3)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, report)
print(sys.argv[1:], input(), flush=True)
while True:
    signal.pause()
"""


def test_input_arguments_and_signals_reach_the_client_unchanged(joined: dict[str, str]) -> None:
    """Also SIGINT, unless a terminal sent it to both."""
    arguments = ["-c", TRAP, "--port", "3", "-h", "--", "--config", "x y"]
    with started("run", sys.executable, *arguments, environ=joined) as process:
        assert process.stdin is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert line(process.stdout) == "['--port', '3', '-h', '--', '--config', 'x y'] hello"
        for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1"):
            process.send_signal(signal.Signals[name])
            assert line(process.stdout) == f"got {name}"
        assert process.wait(DEADLINE) == 3
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_ctrl_c_reaches_the_client_once(joined: dict[str, str]) -> None:
    """A terminal sends it to the whole foreground group, so the command must not pass it on."""
    count = """
import os, signal, sys
interrupts, delivery = os.pipe()
os.set_blocking(delivery, False)
signal.set_wakeup_fd(delivery)  # a byte for each signal, also for one that arrives just before the read
signal.signal(signal.SIGINT, lambda *_: None)
print("ready", sys.stdin.isatty(), sys.stdout.isatty(), flush=True)
print("interrupted " * len(os.read(interrupts, 9)), flush=True)
print("read", input(), flush=True)
os.set_blocking(interrupts, False)
try:
    print("interrupted " * len(os.read(interrupts, 9)), flush=True)
except BlockingIOError:
    print("and no more", flush=True)
"""
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    with subprocess.Popen(
        [sys.executable, "-c", terminal, *MNEMOSYNE, "run", *python(count)],
        env=joined,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        keyboard, screen = process.stdin, process.stdout
        assert keyboard is not None
        assert screen is not None
        try:
            assert b"See the sessions (works once; `mnemosyne open` makes another):  http://" in _read_until(
                screen, b"ready True True"
            )
            keyboard.write(b"\x03")
            seen = _read_until(screen, b"interrupted")
            keyboard.write(b"on\n")
            seen += _read_until(screen, b"and no more")
            assert b"read on" in seen
            assert seen.count(b"interrupted") == 1
            assert process.wait(DEADLINE) == 0
        finally:
            process.kill()


def _read_until(screen: IO[bytes], wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        assert select.select([screen], [], [], DEADLINE)[0], seen
        seen += (read := os.read(screen.fileno(), 4096))
        assert read, seen
    return seen


@pytest.mark.release
def test_stopped_client_stops_the_command_and_continues_with_it(joined: dict[str, str]) -> None:
    """As with Ctrl-Z: the shell must see its job stopped, and `fg` must wake both."""
    stop = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); print('awake', flush=True)"
    with started("run", *python(stop), environ=joined) as process:
        signal.alarm(DEADLINE)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        signal.alarm(0)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert line(process.stdout) == "awake"
        assert process.wait(DEADLINE) == 0


@pytest.mark.release
def test_ignored_signals_stay_ignored_in_the_client(joined: dict[str, str]) -> None:
    """As under nohup; but not those that only Python ignores."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        result = mnemosyne("run", "--", "sh", "-c", "kill -HUP $$; kill -PIPE $$; echo survived", environ=joined)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (result.stdout, result.returncode) == ("", -signal.SIGPIPE)


# When something is wrong


@pytest.mark.release
def test_path_of_an_upstream_is_not_doubled_behind_a_door(environ: dict[str, str], tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.cert_pem.write_to_path(str(tmp_path / "gateway.pem"))
    authority.issue_cert("localhost").configure_cert(context)
    with provider() as gateway:
        gateway.socket = context.wrap_socket(gateway.socket, server_side=True)
        base = f"https://localhost:{gateway.server_port}/anthropic"
        environ |= {"MNEMOSYNE_CA_BUNDLE": str(tmp_path / "gateway.pem"), "ANTHROPIC_BASE_URL": base}
        client = ("curl", "--silent", "--noproxy", "", f"{base}/v1/x")
        done = mnemosyne("run", "--door", "tls", "--upstream", base, "--", *client, environ=environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, "{}", "")
        assert gateway.asked[-1] == "GET /anthropic/v1/x"


@pytest.mark.release
def test_server_that_cannot_start_reports_the_reason(tmp_path: Path) -> None:
    environ = environ_for(tmp_path)
    (tmp_path / "data/token").mkdir(parents=True)
    result = invoked("run", *python(""), environ=environ)
    assert result.stderr.startswith("Error: The server did not start: The token file")
    assert result.stderr.endswith(f"(log: {tmp_path}/data/server.log)\n")
    assert result.exit_code == 1


def test_missing_command_exits_with_127_and_an_unexecutable_one_with_126(
    joined: dict[str, str], tmp_path: Path
) -> None:
    result = invoked("run", "--", "no-such-agent", environ=environ_for(tmp_path))
    assert result.exit_code == 127
    assert "There is no command 'no-such-agent' on your PATH. Install it" in result.stderr
    assert not (tmp_path / "data").exists(), "no server was started"
    assert invoked("run", "/no/such/agent", environ=joined).exit_code == 127
    plain = tmp_path / "plain"
    plain.touch()
    failed = invoked("run", str(plain), environ=joined)
    assert (failed.exit_code, failed.stderr) == (126, f"Error: {plain} cannot be run: Permission denied.\n")


def test_variables_that_would_bypass_the_proxy_are_reported(
    joined: dict[str, str], upstream: Provider, tmp_path: Path
) -> None:
    others = {"ANTHROPIC_BASE_URL": "https://gateway.example", "CLAUDE_CODE_USE_VERTEX": "1"}
    result = invoked("run", write_client(tmp_path, "claude"), environ=joined | others)
    replaced, obstacle = result.stderr.splitlines()
    assert replaced.startswith("mnemosyne: ANTHROPIC_BASE_URL is replaced for this client; --upstream sets")
    assert obstacle.startswith("mnemosyne: CLAUDE_CODE_USE_VERTEX is set")
    for known in (upstream.url, f"http://127.0.0.1:{joined['MNEMOSYNE_PORT']}/"):
        assert invoked("run", *python(""), environ=joined | {"ANTHROPIC_BASE_URL": known}).stderr == ""


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--fork", "@3"), 2, "is not of the form SESSION or SESSION@TURN, @CALL or"),
        (("--fork", "319a@th ree"), 2, "is neither a turn number"),
        (("--off",), 2, "--off works with Claude Code and opencode"),
        (("--off", "--manage"), 2, "mutually exclusive"),
        (("--with-files",), 2, "--with-files needs --fork"),
        (("--record-worktree",), 1, "not in a git working tree"),
        (("--door", "tls", "--off"), 2, "--door excludes --off"),
        (("--door", "tls", "--upstream", "http://127.0.0.1:9"), 2, "--door needs an upstream with TLS"),
    ],
)
def test_impossible_option_is_refused_before_anything_is_started(
    options: tuple[str, ...],
    code: int,
    sentence: str,
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoked("run", *options, "--", "true", environ=environ)
    assert (done.exit_code, done.stdout) == (code, "")
    assert sentence in " ".join(done.stderr.split())


@pytest.mark.parametrize("option", ["--budget", "--window"])
def test_a_short_option_with_an_invalid_value_is_named_as_it_was_given(option: str) -> None:
    done = invoked("run", option, "x", "--", "true", environ={})
    assert (done.exit_code, f"Invalid value for '{option}': " in done.stderr) == (2, True)
