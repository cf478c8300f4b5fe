"""A client's requests through the proxy equal its direct requests: checked with real clients, which cannot
distinguish the scripted provider from the real one.
"""

import io
import json
import re
import subprocess
import tarfile
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx2
import pytest

from campaigns.clients.agents import CODEX, SIGNED_IN_CODEX
from campaigns.clients.first_party import PROVIDER, FirstParty, first_party
from mnemosyne.http.headers import HOP_BY_HOP
from mnemosyne.zstd import ZstdDecompressor
from tests.clients.agents import CLAUDE_CODE, ONE_IN_CI, OPENCODE
from tests.clients.workspace import CLIENT_SECONDS, MNEMOSYNE, Server, Workspace, bare_environment, finished, visit

pytestmark = pytest.mark.clients

CREDENTIALS = {
    "key": {"ANTHROPIC_API_KEY": "sk-ant-api03-a-dummy"},
    "token": {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-a-dummy"},
}

LOST = {"claude": ["mid-conversation-system-clear-at-2026-08-21"], "opencode": []}
"""Betas that are only sent to the provider's own host, whatever the client is told; docs/clients.md names them."""

UNLIKE = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=cch=)[0-9a-f]+|ses_\w+")
"""What differs between any two runs: ids, and a client's checksum over its body."""


@pytest.fixture(scope="module")
def way(server: Server) -> Iterator[FirstParty]:
    with tempfile.TemporaryDirectory() as folder, first_party(server.standin.port, Path(folder)) as opened:
        yield opened


Request = tuple[list[tuple[str, bytes]], list[str], bytes]


def first_requests(workspace: Workspace) -> list[Request]:
    """A client's message requests since then: raw headers, betas, body; the shortest first."""
    found = []
    for exchange in workspace.standin.messages:
        headers = [
            (name.decode().lower(), UNLIKE.sub(b"", value))
            for name, value in exchange.headers
            if name.lower() not in HOP_BY_HOP | {b"host", b"anthropic-beta"}
        ]
        betas = (exchange.header("anthropic-beta") or "").split(",")
        found.append((sorted(headers), betas, UNLIKE.sub(b"", exchange.body)))
    workspace.standin.exchanges.clear()
    return sorted(found, key=lambda request: len(request[2]))


@pytest.mark.parametrize(
    "credential",
    [
        pytest.param(CREDENTIALS["key"], id="key"),
        pytest.param(CREDENTIALS["token"], id="token", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_first_request_equals_a_direct_one(
    credential: Mapping[str, str], workspace: Workspace, way: FirstParty
) -> None:
    if workspace.agent.name == "opencode" and not credential["ANTHROPIC_API_KEY"]:
        pytest.skip("opencode takes no token of a subscription")
    workspace.script({"reply": {"text": "Good day."}})
    workspace.run_alone("Good day", **credential, **way.environment)
    direct = first_requests(workspace)
    # Other requests go to the provider's own host even with a base URL, such as those for the organisation's policy.
    workspace.run("Good day", goes_on=False, options=(), **credential, **way.environment)
    through_us = first_requests(workspace)
    assert direct
    lost = LOST[workspace.agent.name]
    assert [headers for headers, _, _ in through_us] == [headers for headers, _, _ in direct]
    assert [betas for _, betas, _ in through_us] == [
        [beta for beta in betas if beta not in lost] for _, betas, _ in direct
    ]
    assert [body.decode() for _, _, body in through_us] == [body.decode() for _, _, body in direct]
    if workspace.agent.name == "claude":
        ((_, betas, body),) = through_us
        assert b'"scope":"global"' in body
        assert b'"diagnostics"' in body
        assert "prompt-caching-scope-2026-01-05" in betas
        assert set(lost) < set(direct[0][1]), "what docs/clients.md calls lost is sent by this version"


FILES = "files.example.invalid"
"""A host of which the proxy knows nothing."""

WORK = f"""set -e
curl --silent --show-error --fail https://{FILES}/hello.txt > curl.txt
git clone --quiet https://{FILES}/origin.git cloned
npm install --no-audit --no-fund --loglevel=error https://{FILES}/package.tgz
env > env.txt
cat "$NODE_EXTRA_CA_CERTS" > bundle.txt
if grep -rls "PRIVATE KEY" "$(dirname "$NODE_EXTRA_CA_CERTS")" /proc/[0-9]*/environ; then exit 9; fi
"""
"""What the agent runs. Its authority's key is in no file and no environment while it works."""


@pytest.fixture
def files(tmp_path: Path) -> Iterator[int]:
    """A server of a file, a repository and a package, at the port."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello")
    git = ["git", "-c", "user.name=Tester", "-c", "user.email=tester@example.invalid"]
    environ = bare_environment(tmp_path)
    for words in (["init", "-q", "w"], ["-C", "w", "commit", "-q", "--allow-empty", "-m", "Begin"]):
        subprocess.run([*git, *words], cwd=folder, env=environ, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", "w", "origin.git"], cwd=folder, env=environ, check=True)
    subprocess.run(["git", "update-server-info"], cwd=folder / "origin.git", env=environ, check=True)
    with tarfile.open(folder / "package.tgz", "w:gz") as archive:
        text = b'{"name": "a-package", "version": "1.0.0"}'
        member = tarfile.TarInfo("package/package.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("agent", [CLAUDE_CODE], ids=["claude"])
def test_door_loses_no_beta_and_leaves_nothing_behind(workspace: Workspace, tmp_path: Path, files: int) -> None:
    folder, work, data = tmp_path / "own", tmp_path / "work.sh", tmp_path / "data"
    folder.mkdir()
    work.write_text(WORK)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    call = workspace.agent.shell(f"sh {work}")
    with first_party(workspace.standin.port, folder, {FILES: files}) as way:
        own = way.environment | {"TMPDIR": str(temporary)}
        own |= dict.fromkeys(("GIT_SSL_CAINFO", "npm_config_cafile"), str(way.authority))
        workspace.script({"when": {"tools": True}, "replies": [{"content": [call]}, {"text": "Done."}]})
        workspace.run_alone("Good day", **CREDENTIALS["token"], **own, SSL_CERT_FILE=str(way.authority))
        direct = first_requests(workspace)
        subprocess.run(["git", "clean", "-ffdxq"], cwd=workspace.project, check=True)
        began = visit(workspace.server)
        options = ("--door", "tls", "--data-dir", str(data), "--port", "0")
        assert workspace.run("Good day", goes_on=False, options=options, **CREDENTIALS["token"], **own).text == "Done."
        recorded = began.recorded(data)
        assert len(recorded.turns) == 2
        changes = ("timeline", recorded.external_id, "--by", "client", "--json", "--data-dir", str(data))
        assert '"closed"' in finished([*MNEMOSYNE, *changes], workspace.environment, workspace.project), "by its hook"
        assert first_requests(workspace)[0] == direct[0]
    assert (workspace.project / "curl.txt").read_text() == "hello"
    assert (workspace.project / "cloned/.git").is_dir()
    assert (workspace.project / "node_modules/a-package").is_dir()
    environ, bundle = workspace.project / "env.txt", workspace.project / "bundle.txt"
    variables = dict(line.split("=", 1) for line in environ.read_text().splitlines() if "=" in line)
    assert "ANTHROPIC_BASE_URL" not in variables
    door, named = variables["HTTPS_PROXY"], Path(variables["NODE_EXTRA_CA_CERTS"])
    authority = bundle.read_text().strip().rpartition("-----BEGIN CERTIFICATE-----")[2].splitlines()[1]
    assert not named.parent.exists()
    environ.unlink()
    bundle.unlink()
    left = [file for file in tmp_path.rglob("*") if file.is_file() and not file.is_symlink()]
    words = (door.encode(), authority.encode(), b"PRIVATE KEY")
    assert [file for file in left if file != work and any(word in file.read_bytes() for word in words)] == []
    assert [file for file in Path("/proc").glob("[0-9]*/environ") if holds(file, door.encode())] == []


OPENAI = "api.openai.com"


def work_through_the_door(workspace: Workspace, way: FirstParty, upstream: str) -> tuple[Path, list[str]]:
    """The client writes a file by a command; return the log's folder and the outcomes of the recorded turns."""
    call, data = workspace.agent.shell("echo more > more.txt"), workspace.home / "log"
    workspace.script(
        {"when": {"prompt": "more", "tools": True}, "replies": [{"content": [call]}, {"text": "Done."}]},
        {"reply": {"text": "Title"}},
    )
    options = ("--door", "tls", "--data-dir", str(data), "--port", "0", "--upstream", f"https://{upstream}")
    assert workspace.run("Write more.", goes_on=False, options=options, **way.environment).text == "Done."
    assert (workspace.project / "more.txt").read_text() == "more\n"
    (found,) = workspace.conversations(data)
    assert sorted(turn.body for turn in found.turns) == sorted(each.body for each in workspace.standin.messages)
    return data, [turn.outcome for turn in found.turns]


@pytest.mark.parametrize(("agent", "upstream"), [(CODEX, OPENAI), (OPENCODE, PROVIDER)], ids=["codex", "opencode"])
def test_other_clients_work_through_the_door(workspace: Workspace, upstream: str, tmp_path: Path) -> None:
    """Codex tries HTTP/2 and WebSockets first; opencode is no Node.js program."""
    port = workspace.standin.port
    with first_party(port, tmp_path, {OPENAI: port}) as way:
        _, outcomes = work_through_the_door(workspace, way, upstream)
    assert {*outcomes} <= {"200 tool_use", "200 tool_calls", "200 end_turn", "200 completed"}


def holds(environ: Path, word: bytes) -> bool:
    """Whether a process that is still there has it in its environment."""
    try:
        return word in environ.read_bytes()
    except OSError:
        return False


class PlanProvider(BaseHTTPRequestHandler):
    """The host of ChatGPT plans, as far as Codex needs it; requests to the model go to the provider at ``port``."""

    port = 0

    def do_GET(self) -> None:
        account = {"id": "a", "workspace_backend_origin": f"https://{PLANS}"}
        accounts = {"accounts": [account | {"account_routing_override": "NO_CONSTRAINT"}], "account_ordering": ["a"]}
        self._answer(200 if "accounts/check" in self.path else 404, json.dumps(accounts).encode(), "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["content-encoding"] != "zstd":
            self._answer(404, b"{}", "application/json")
            return
        url = f"http://127.0.0.1:{self.port}/v1/responses"
        kept = {
            name: value for name, value in self.headers.items() if name.lower().startswith(("session", "user-", "auth"))
        }
        got = httpx2.post(url, content=ZstdDecompressor().decompress(body), headers=kept, timeout=CLIENT_SECONDS)
        self._answer(got.status_code, got.content, got.headers["content-type"])

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


PLANS = "chatgpt.com"


@pytest.mark.parametrize("agent", [SIGNED_IN_CODEX], ids=["codex"])
def test_codex_on_a_plan_is_recorded_and_its_token_is_not(workspace: Workspace, tmp_path: Path) -> None:
    claims = {"exp": 2**33, "https://api.openai.com/auth": {"chatgpt_account_id": "a", "chatgpt_plan_type": "pro"}}
    token = ".".join(urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in ({}, claims, {}))
    tokens = {"id_token": token, "access_token": token, "refresh_token": "r", "account_id": "a"}
    signed_in = {"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": "2200-01-01T00:00:00Z"}
    (workspace.home / ".codex").mkdir()
    (workspace.home / ".codex/auth.json").write_text(json.dumps(signed_in))
    plans = type("Plans", (PlanProvider,), {"port": workspace.standin.port})
    with ThreadingHTTPServer(("127.0.0.1", 0), plans) as provider:
        Thread(target=provider.serve_forever, daemon=True).start()
        with first_party(workspace.standin.port, tmp_path, {PLANS: provider.server_port}) as way:
            data, outcomes = work_through_the_door(workspace, way, PLANS)
        provider.shutdown()
    assert outcomes == ["200 tool_calls", "200 completed"]
    assert [each for each in data.rglob("*") if each.is_file() and token.encode() in each.read_bytes()] == []
