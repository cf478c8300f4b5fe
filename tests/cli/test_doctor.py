"""`mnemosyne doctor` checks the installation and suggests fixes."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest
import trustme

from mnemosyne.app import doctor
from mnemosyne.app.discovery import FoundServer
from mnemosyne.app.doctor import CHECKS, Check, Circumstances, Finding, examine
from mnemosyne.config import load
from tests.adapters.log_support import begin_append, make_append, query, stream
from tests.cli.support import Provider, environ_for, invoked, mnemosyne, provider, serving
from tests.waiting import DEADLINE


@pytest.fixture(scope="module")
def upstream() -> Iterator[Provider]:
    with provider() as server:
        yield server


def circumstances(tmp_path: Path, upstream: Provider, **variables: str) -> Circumstances:
    environ = environ_for(tmp_path, MNEMOSYNE_UPSTREAM=upstream.url, PATH="") | variables
    return Circumstances(load({}, environ), "", environ, tmp_path)


def look(name: str, at: Circumstances) -> list[Finding]:
    return [finding for check in CHECKS if check.name == name for finding in check.look(at)]


def verdicts(findings: list[Finding]) -> list[str]:
    return [finding.verdict for finding in findings]


def test_sound_installation_exits_with_0_and_shows_no_credential(tmp_path: Path, upstream: Provider) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_UPSTREAM=upstream.url, ANTHROPIC_API_KEY="sk-secret", PATH="")
    result = invoked("doctor", environ=environ)
    assert result.exit_code == 0, result.stdout
    assert "\u2713 upstream: " in result.stdout
    assert "\u2013 clients: Claude Code is not installed" in result.stdout
    assert "sk-secret" not in result.output
    assert result.stderr == ""
    assert upstream.asked[-1] == "HEAD /"


def test_problem_exits_with_1_and_json_has_all_findings(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        upstream = f"http://127.0.0.1:{closed.getsockname()[1]}"
    result = invoked("doctor", "--json", environ=environ_for(tmp_path, MNEMOSYNE_UPSTREAM=upstream))
    assert result.exit_code == 1
    findings: list[dict[str, Any]] = json.loads(result.stdout)
    assert {finding["check"] for finding in findings} == {check.name for check in CHECKS}
    (problem,) = (finding for finding in findings if finding["verdict"] == "bad")
    assert problem["check"] == "upstream"
    assert problem["text"].startswith(f"{upstream} gave no answer")
    assert problem["advice"].startswith("check the network")


def test_invalid_settings_are_one_finding_and_the_other_checks_continue(tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_PORT="many", PYTHONIOENCODING="ascii")
    result = mnemosyne("doctor", environ=environ)
    assert result.returncode == 1
    assert "NO settings: port = 'many' (environment MNEMOSYNE_PORT): a whole number is needed" in result.stdout
    assert "-- upstream: not checked: the settings are invalid" in result.stdout
    assert "ok python: Mnemosyne" in result.stdout
    assert "Traceback" not in result.stderr


def test_openai_is_checked_next_to_anthropic(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    at = circumstances(tmp_path, upstream, MNEMOSYNE_UPSTREAM="https://api.anthropic.com", HTTPS_PROXY=proxy)
    first, second = look("upstream", at)
    assert "https://api.anthropic.com" in first.text
    assert "https://api.openai.com" in second.text
    assert verdicts([first, second]) == ["bad", "open"]


def test_misspelt_variable_is_shown(tmp_path: Path, upstream: Provider) -> None:
    at = circumstances(tmp_path, upstream, MNEMOSYNE_PROT="1", MNEMOSYNE_CONFIG="")
    (_, finding) = look("settings", at)
    assert (finding.verdict, finding.text) == ("open", "the variable MNEMOSYNE_PROT is not a setting")


def test_data_directory_must_be_private_and_usable(tmp_path: Path, upstream: Provider) -> None:
    at = circumstances(tmp_path, upstream)
    data = tmp_path / "data"
    assert verdicts(look("data directory", at)) == ["good"]
    assert list(tmp_path.iterdir()) == [], "the check creates nothing"
    data.mkdir(0o755)
    (finding,) = look("data directory", at)
    assert (finding.verdict, finding.advice) == ("bad", f"chmod 700 {data}")
    data.chmod(0o700)
    assert verdicts(look("data directory", at)) == ["good"]
    data.rmdir()
    data.touch()
    assert verdicts(look("data directory", at)) == ["bad"]
    (finding,) = look("data directory", circumstances(tmp_path, upstream, MNEMOSYNE_DATA_DIR="/proc/x"))
    assert (finding.verdict, finding.text) == ("bad", "/proc/x cannot be created in /proc")


def test_models_file_is_counted_or_its_problem_named(tmp_path: Path, upstream: Provider) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_UPSTREAM=upstream.url)
    file = tmp_path / "mine.toml"
    file.write_text("[prices]\nlocal-7b = { input = 1, output = 1, read = 0 }\n")
    findings = json.loads(invoked("doctor", "--json", "--models-file", str(file), environ=environ).stdout)
    models, tariff = (finding for finding in findings if finding["check"] == "models")
    assert (models["verdict"], tariff["verdict"]) == ("good", "good")
    assert models["text"] == f"prices of 26 models, with {file}"
    file.write_text("[prices]\nlocal-7b = { input = 1 }\n")
    result = invoked("doctor", "--models-file", str(file), environ=environ)
    assert result.exit_code == 1
    assert f"{file}, [prices] local-7b: output is missing" in result.stdout


KEYS = f"{'0' * 64}=red,{'1' * 64}=red,{'2' * 64}=local"


@pytest.mark.parametrize(
    ("variables", "texts"),
    [
        ({}, ["local; no others by key; none by proxy"]),
        (
            {"MNEMOSYNE_TENANT_PROXIES": "10.0.0.5", "MNEMOSYNE_TENANT_KEYS": KEYS},
            ["local; 1 other by key; any by proxy 10.0.0.5/32"],
        ),
        (
            {"MNEMOSYNE_TENANT_PROXIES": "::1"},
            [
                "local; no others by key; any by proxy ::1/128",
                "every program on this machine can name the tenant of its requests",
            ],
        ),
    ],
)
def test_tenants_are_counted(variables: dict[str, str], texts: list[str], tmp_path: Path, upstream: Provider) -> None:
    assert [finding.text for finding in look("tenants", circumstances(tmp_path, upstream, **variables))] == texts


@pytest.mark.release
def test_port_is_free_or_taken_or_ours_and_our_worker_works(tmp_path: Path, upstream: Provider, dsn: str) -> None:
    at = circumstances(tmp_path, upstream, MNEMOSYNE_DSN=dsn)
    assert look("port", at) == [Finding("good", "any free port will be used")]
    assert look("worker", at) == [Finding("good", "not running; read models are up to date")]
    with serving(environ=dict(at.environ)) as url:
        there = circumstances(tmp_path, upstream, MNEMOSYNE_DSN=dsn, **_port(url))
        (finding,) = look("port", there)
        assert finding.verdict == "good"
        assert finding.text.startswith("Mnemosyne ")
        other = circumstances(tmp_path, upstream, **_port(url), MNEMOSYNE_TENANT="other")
        assert verdicts(look("port", other)) == ["good", "open"]
        until_found(there, "working; read models are up to date")
        assert look("worker", at) == [Finding("good", "working; read models are up to date")]
    query(dsn, FORGOTTEN_LONG_AGO)
    (finding,) = look("worker", at)
    assert finding.verdict == "open"
    assert finding.text.startswith("not running; read models are 1 event behind the log, by ")
    with provider() as stranger:
        (finding,) = look("port", circumstances(tmp_path, upstream, **_port(stranger.url)))
    assert finding.verdict == "bad"
    assert "Address already in use" in finding.text


@pytest.mark.parametrize(
    ("worker", "verdict", "text"),
    [
        ({"state": "hung", "seconds": 7.0}, "bad", "hung for 7 s"),
        ({"state": "not running", "seconds": 0.5}, "bad", "not running for 0.5 s"),
        ({"state": "starting", "seconds": 0.0}, "open", "starting; its lag is unknown, because the database does not"),
        (
            {"state": "working", "seconds": 0.0, "events_behind": 2, "seconds_behind": 99.0, "seconds_held": 0.0},
            "open",
            "working; read models are 2 events behind the log, by 1 min 39",
        ),
    ],
)
def test_worker_is_as_its_server_reports_it(
    worker: dict[str, Any], verdict: str, text: str, tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = circumstances(tmp_path, upstream)
    assert look("worker", at) == [Finding("good", "the first server will start it")]
    found = FoundServer("http://127.0.0.1:1", "1", upstream.url, "local", worker=worker)
    monkeypatch.setattr(doctor, "find_server", lambda _: found)
    (finding,) = look("worker", at)
    assert finding.verdict == verdict
    assert finding.text.startswith(text)


def test_open_append_is_named_as_the_reason_of_a_lag(
    tmp_path: Path, upstream: Provider, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "HELD_SECONDS", 0.0)
    with psycopg.connect(dsn) as stalled:
        begin_append(stalled, make_append(stream(2), 0, "late"))
        query(dsn, FORGOTTEN_LONG_AGO)
        (finding,) = look("worker", circumstances(tmp_path, upstream, MNEMOSYNE_DSN=dsn))
        stalled.rollback()
    assert finding.verdict == "open"
    assert finding.text.endswith(" s ago is unfinished and blocks later events")


FORGOTTEN_LONG_AGO = """insert into mnemosyne.stored_events (originator_id, originator_version, topic, state) values
    ('00000000-0000-0000-0000-000000000001', 1, 'session.forgotten.v1',
    '{"data":{"at":1},"correlation":"c","causation":null}')"""


def until_found(at: Circumstances, text: str) -> None:
    """Look until the check has this text; a server does not announce changes."""
    deadline = time.monotonic() + DEADLINE
    while not (found := look("worker", at))[0].text.startswith(text):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)  # another process, which cannot notify us


def _port(url: str) -> dict[str, str]:
    return {"MNEMOSYNE_PORT": url.rpartition(":")[2]}


def test_helper_is_named_and_its_model_probed(tmp_path: Path, upstream: Provider) -> None:
    assert look("helper", circumstances(tmp_path, upstream)) == [
        Finding("good", "no helper model; summaries are extracted")
    ]
    model = {"MNEMOSYNE_HELPER": "openai", "MNEMOSYNE_HELPER_MODEL": "m"}
    with provider() as endpoint:
        at = circumstances(tmp_path, upstream, **model, MNEMOSYNE_HELPER_URL=f"{endpoint.url}/v1")
        assert look("helper", at) == [
            Finding(
                "good",
                "openai:m answers, at $0.00/$0.00 for a million tokens of input/output; "
                "$0.00 of its budget is left today (2 % of the cost of today's turns, at most $0.50)",
            )
        ]
        assert endpoint.asked == ["GET /v1/models"]
        (finding,) = look("helper", attrs.evolve(at, asks_helper=True))
        assert (finding.verdict, finding.text) == ("bad", "openai:m is not usable: it answers with status 501")
    with provider() as endpoint:  # the first has ended
        environ = {**model, "MNEMOSYNE_HELPER_URL": at.environ["MNEMOSYNE_HELPER_URL"]}
        environ["MNEMOSYNE_HELPER_FALLBACK"] = f"second@{endpoint.url}/v1"
        first, second = look("helper", circumstances(tmp_path, upstream, **environ))
        assert (first.verdict, first.text) == ("bad", "openai:m is not usable: no connection: ConnectError")
        assert second.text.startswith("openai:second answers, at $0.00/$0.00")
    (finding,) = look("helper", circumstances(tmp_path, upstream, MNEMOSYNE_HELPER="anthropic"))
    assert finding.verdict == "bad"
    assert "ANTHROPIC_API_KEY is not set" in finding.text


def test_a_helper_with_clients_keys_has_a_budget_and_nothing_to_probe(tmp_path: Path, upstream: Provider) -> None:
    before = len(upstream.asked)
    (finding,) = look("helper", circumstances(tmp_path, upstream, MNEMOSYNE_HELPER="client"))
    assert finding.verdict == "good"
    assert finding.text.startswith("sessions with an API key use the cheapest model of their provider, others none; $")
    assert len(upstream.asked) == before


@pytest.mark.parametrize(
    ("status", "path", "verdict"),
    [(200, "", "good"), (404, "", "good"), (401, "", "good"), (407, "", "bad"), (503, "", "open"), (404, "/v1", "bad")],
)
def test_upstream_gets_one_request_whose_status_decides(status: int, path: str, verdict: str, tmp_path: Path) -> None:
    with provider() as upstream:
        upstream.status = status
        findings = look("upstream", circumstances(tmp_path, upstream, MNEMOSYNE_UPSTREAM=upstream.url + path))
    assert verdicts(findings)[-1] == verdict
    assert upstream.asked == [f"HEAD {path}/"]
    assert status != 200 or findings == [Finding("good", f"{upstream.url} answers (no proxy)")]


def test_route_to_the_upstream_names_proxy_and_authorities_without_passwords(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    config = circumstances(tmp_path, upstream, MNEMOSYNE_UPSTREAM="https://api.example").config
    assert config is not None
    assert doctor._way_to(config, config.upstream, {}) == "no proxy, certificate authorities: the system's"
    bundle = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(bundle))
    environ = {"https_proxy": "http://me:s3cret@proxy:3128", "SSL_CERT_FILE": str(bundle)}
    way = doctor._way_to(config, config.upstream, environ)
    assert way == f"proxy http://***@proxy:3128, certificate authorities: {bundle}"
    assert doctor._way_to(config, config.upstream, environ | {"no_proxy": "api.example"}).startswith("no proxy")
    unusable = {"ALL_PROXY": "socks5://127.0.0.1:7890", "NODE_EXTRA_CA_CERTS": "/nonexistent.pem"}
    texts = [finding.text for finding in doctor._check_variables(config, config.upstream, unusable)]
    assert [text.partition(" is ignored")[0] for text in texts] == [
        "ALL_PROXY",
        "No proxy is used for https://api.example; name one with HTTPS_PROXY",
        "NODE_EXTRA_CA_CERTS = /nonexistent.pem",
    ]


def test_credential_is_found_and_never_shown(tmp_path: Path, upstream: Provider) -> None:
    assert verdicts(look("credential", circumstances(tmp_path, upstream))) == ["open"]
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/.credentials.json").write_text("s3cret")
    (finding,) = look("credential", circumstances(tmp_path, upstream, ANTHROPIC_API_KEY="s3cret"))
    assert finding.verdict == "good"
    assert "$ANTHROPIC_API_KEY, ~/.claude/.credentials.json" in finding.text
    assert "s3cret" not in finding.text


@pytest.mark.parametrize(
    ("script", "verdict", "text"),
    [
        ("echo 2.1.0; echo more", "good", "Claude Code: 2.1.0 ("),
        ("exit 3", "bad", "--version ended with exit code 3"),
        ("exit 0", "bad", "--version ended with exit code 0"),
    ],
)
def test_clients_on_the_path_are_shown_with_their_version(
    script: str, verdict: str, text: str, tmp_path: Path, upstream: Provider
) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    claude, *_, others = look("clients", circumstances(tmp_path, upstream, PATH=str(tmp_path)))
    assert claude.verdict == verdict
    assert text in claude.text
    assert others.verdict == "open"


def test_features_that_a_client_loses_behind_the_proxy_are_named(tmp_path: Path, upstream: Provider) -> None:
    for name in ("claude", "opencode"):
        (tmp_path / name).write_text("#!/bin/sh\necho 1.0\n")
        (tmp_path / name).chmod(0o755)
    at = circumstances(tmp_path, upstream, PATH=str(tmp_path))
    _, costs, opencode, *_ = look("clients", at)
    assert (costs.verdict, opencode.verdict) == ("open", "good")
    assert costs.text.startswith("through the proxy, Claude Code loses: Remote Control; ")
    assert "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL" not in costs.text
    _, costs, *_ = look(
        "clients", circumstances(tmp_path, upstream, PATH=str(tmp_path), MNEMOSYNE_UPSTREAM="https://x.y")
    )
    assert "everything that _CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL=1 enables" in costs.text


def test_conflicting_variables_are_named(tmp_path: Path, upstream: Provider) -> None:
    assert verdicts(look("conflicts", circumstances(tmp_path, upstream))) == ["good"]
    assert verdicts(look("conflicts", circumstances(tmp_path, upstream, ANTHROPIC_BASE_URL=upstream.url))) == ["good"]
    at = circumstances(tmp_path, upstream, CLAUDE_CODE_USE_BEDROCK="1", ANTHROPIC_BASE_URL="https://me:pw@other")
    bedrock, base_url = look("conflicts", at)
    assert bedrock.verdict == "bad"
    assert base_url.verdict == "open"
    assert "https://***@other" in base_url.text


def test_failing_check_is_a_finding(tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_circumstances: Circumstances) -> list[Finding]:
        raise RuntimeError("oh")

    added = [Check("broken", broken), Check("added", lambda _: [Finding("good", "well")])]
    monkeypatch.setattr(doctor, "CHECKS", added)
    findings = [(check.name, finding) for check, finding in examine(circumstances(tmp_path, upstream))]
    assert findings == [
        ("broken", Finding("bad", "the check itself failed: RuntimeError: oh")),
        ("added", Finding("good", "well")),
    ]
