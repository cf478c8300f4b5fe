"""Diagnose what could keep Mnemosyne from working on this machine, with advice.

``CHECKS`` lists all checks: each has a name and a function from the circumstances to findings.
"""

import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit

import attrs

from mnemosyne import __version__
from mnemosyne.app.clients import BASE_URL, CLIENTS, ELSEWHERE
from mnemosyne.app.discovery import find_server, off_sentence, render_unrecorded, url_of
from mnemosyne.config import CONFIG_VARIABLE, OPTIONS_VARIABLE, SETTINGS, Config, mask, models_path, upstreams_of
from mnemosyne.domain.helper.model import HelperFailed, HelperModel, HelperPrompt, object_of
from mnemosyne.domain.session.budget import DAY, DaySpending
from mnemosyne.errors import MnemosyneError
from mnemosyne.figures import dollars_text, percent_text, plural, seconds_text

if TYPE_CHECKING:
    from psycopg import Connection

    from mnemosyne.adapters.postgres.database import Database

T = TypeVar("T")

UPSTREAM_SECONDS = 20.0
VERSION_SECONDS = 20.0

LATE_SECONDS = 90.0
"""Lag of the read models that is not worth a warning."""

HELD_SECONDS = 1.0
"""Duration of a blocking append that is not worth a warning."""

CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
)
LOGINS = (".claude/.credentials.json", ".local/share/opencode/auth.json", ".codex/auth.json")
"""Clients' credential files below the home directory. Only their existence is checked; they are never read."""

Verdict = Literal["good", "bad", "open"]


@attrs.frozen
class Finding:
    """The result of a check. "open" is neither good nor bad: something is absent or could not be checked."""

    verdict: Verdict
    text: str
    advice: str = ""


@attrs.frozen
class Circumstances:
    """The input of checks. ``config`` is None if the settings are invalid; ``refusal`` is the reason."""

    config: Config | None
    refusal: str
    environ: Mapping[str, str]
    directory: Path
    asks_helper: bool = False
    """Whether to send a helper model a request with a cost."""

    @property
    def home(self) -> Path:
        return Path(self.environ.get("HOME") or os.path.expanduser("~"))


@attrs.frozen
class Check:
    """A check. ``look`` yields any number of findings."""

    name: str
    look: Callable[[Circumstances], Iterable[Finding]]


def examine(circumstances: Circumstances) -> Iterator[tuple[Check, Finding]]:
    """Run all checks in order. An exception in a check is a bad finding."""
    for check in CHECKS:
        try:
            for finding in check.look(circumstances):
                yield check, finding
        except Exception as error:
            yield check, Finding("bad", f"the check itself failed: {type(error).__name__}: {mask(str(error))}")


def needs_config(
    look: Callable[[Config, Circumstances], Iterable[Finding]],
) -> Callable[[Circumstances], list[Finding]]:
    """Wrap a check so that it is skipped without valid settings."""

    def guard(circumstances: Circumstances) -> list[Finding]:
        if circumstances.config is None:
            return [Finding("open", "not checked: the settings are invalid")]
        return list(look(circumstances.config, circumstances))

    return guard


def _python(_circumstances: Circumstances) -> Iterator[Finding]:
    # An unsupported Python could not have parsed this file.
    yield Finding("good", f"Mnemosyne {__version__} on Python {platform.python_version()} ({sys.executable})")


def _settings(circumstances: Circumstances) -> Iterator[Finding]:
    config = circumstances.config
    if config is None:
        yield Finding(
            "bad", circumstances.refusal.rstrip("."), "`mnemosyne config --help` lists the sources of settings"
        )
    elif config.file is None:
        yield Finding("good", "no configuration file; environment and defaults apply")
    else:
        yield Finding("good", f"{config.file}")
    if config is not None and ":" in config.policy:
        yield _policy(config)
    known = {CONFIG_VARIABLE, OPTIONS_VARIABLE, *(setting.variable for setting in SETTINGS)}
    for name in sorted(set(circumstances.environ) - known):
        if name.startswith("MNEMOSYNE_"):
            yield Finding(
                "open",
                f"the variable {name} is not a setting",
                "`mnemosyne config` lists all settings; unset the variable",
            )


@needs_config
def _data_dir(config: Config, _circumstances: Circumstances) -> Iterator[Finding]:
    path = config.data_dir
    if not os.path.exists(path):
        parent = next(parent for parent in path.parents if os.path.exists(parent))
        if _may_write(parent):
            yield Finding("good", f"the first server will create {path}")
        else:
            yield Finding("bad", f"{path} cannot be created in {parent}", "choose another with --data-dir")
    elif not path.is_dir():
        yield Finding("bad", f"{path} is not a directory", "choose another with --data-dir")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("bad", f"you cannot write to {path}", "change its owner, or choose another with --data-dir")
    elif (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
        yield Finding("bad", f"other users can read {path} (mode {mode:04o})", f"chmod 700 {path}")
    else:
        yield Finding("good", f"{path} is writable and private")


def _may_write(folder: Path) -> bool:
    """Whether files can be created in a folder. Tries it, because root has all permission bits."""
    try:
        with tempfile.TemporaryDirectory(dir=folder):
            return True
    except OSError:
        return False


@needs_config
def _port(config: Config, _circumstances: Circumstances) -> Iterator[Finding]:
    from mnemosyne.http.serving import bind

    found = find_server(config)
    if found is not None:
        yield Finding("good", f"Mnemosyne {found.version} runs on {found.url}")
        for path, count in found.unrecorded.items():
            yield Finding("open", render_unrecorded(path, count), "its dialect is not supported")
        if not found.serves(config):
            yield Finding(
                "open",
                f"it uses tenant {found.tenant} and upstream {found.upstream}, unlike the settings",
                "restart it; until then `mnemosyne run` starts separate servers",
            )
        return
    try:
        bind(config.host, config.port).close()
    except MnemosyneError as error:
        yield Finding("bad", str(error).rstrip("."), "`mnemosyne run` uses a free port instead")
    else:
        yield Finding("good", f"{url_of(config)} is free" if config.port else "any free port will be used")


@needs_config
def _tenants(config: Config, _circumstances: Circumstances) -> Iterator[Finding]:
    others = len({each.tenant for each in config.tenant_keys} - {config.tenant})
    told = f"{others} other{'' if others == 1 else 's'} by key" if others else "no others by key"
    proxies = f"any by proxy {', '.join(config.tenant_proxies)}" if config.tenant_proxies else "none by proxy"
    yield Finding("good", f"{config.tenant}; {told}; {proxies}")
    if any(ip_network(each).is_loopback for each in config.tenant_proxies):
        yield Finding(
            "open",
            "every program on this machine can name the tenant of its requests",
            "keep other users off this machine, or give the proxy a separate address",
        )


@needs_config
def _upstream(config: Config, circumstances: Circumstances) -> Iterator[Finding]:
    yield from _provider(config, "--upstream", config.upstream, circumstances)
    for each in upstreams_of(config):  # a default one may never be used
        verdict: Verdict = "bad" if each in config.upstreams else "open"
        yield from _provider(config, f"upstreams.{each.name}", each.url, circumstances, verdict)


def _provider(
    config: Config, setting: str, url: str, circumstances: Circumstances, unreached: Verdict = "bad"
) -> Iterator[Finding]:
    way = _way_to(config, url, circumstances.environ)
    yield from _check_variables(config, url, circumstances.environ)
    try:
        status = _head(config, url)
    except (MnemosyneError, OSError) as error:
        yield Finding(
            unreached,
            f"{mask(str(error)).rstrip('.')} ({way})",
            f"check the network, {setting}, HTTPS_PROXY and NO_PROXY; for a proxy that decrypts TLS, set its "
            "certificate with --ca-bundle",
        )
        return
    if status == 407:
        yield Finding("bad", f"the proxy requires credentials ({way})", "put them into the proxy's URL")
    elif status >= 500:
        yield Finding("open", f"{url} answers with status {status} ({way})", "try again later")
    else:
        yield Finding("good", f"{url} answers ({way})")
    if urlsplit(url).path.endswith("/v1"):
        yield Finding("bad", f"{url} ends in /v1, which clients add themselves", f"leave /v1 out of {setting}")


def _head(config: Config, url: str) -> int:
    """Send a request without credentials over the server's own HTTP client; return the status."""
    import trio

    from mnemosyne.adapters.upstream import HttpUpstream
    from mnemosyne.domain.wire.exchange import UpstreamRequest

    async def ask() -> int:
        nothing = UpstreamRequest("HEAD", b"/", (), b"")
        with trio.fail_after(UPSTREAM_SECONDS):
            async with (
                HttpUpstream(url, ca_bundle=config.ca_bundle) as upstream,
                upstream.exchange(nothing, lambda: None) as reply,
            ):
                return reply.head.status

    try:
        return trio.run(ask)
    except trio.TooSlowError:
        raise MnemosyneError(f"{url} did not answer within {UPSTREAM_SECONDS:g} s") from None


def _way_to(config: Config, url: str, environ: Mapping[str, str]) -> str:
    """Describe the proxy and the certificate authorities used for a provider."""
    from mnemosyne.adapters.outbound import choose_proxy, read_authorities

    proxy = choose_proxy(url, environ).url
    way = f"proxy {mask(proxy)}" if proxy else "no proxy"
    if urlsplit(url).scheme != "https":
        return way
    return f"{way}, certificate authorities: {', '.join(read_authorities(config.ca_bundle, environ).names)}"


def _check_variables(config: Config, url: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    from mnemosyne.adapters.outbound import choose_proxy, read_authorities

    ignored = choose_proxy(url, environ).ignored
    if urlsplit(url).scheme == "https":
        ignored += read_authorities(config.ca_bundle, environ).ignored
    for sentence in ignored:
        yield Finding("open", sentence.rstrip("."), "correct the variable or unset it")


def _credentials(circumstances: Circumstances) -> Iterator[Finding]:
    found = [f"${name}" for name in CREDENTIALS if circumstances.environ.get(name)]
    found += [f"~/{login}" for login in LOGINS if (circumstances.home / login).exists()]
    if found:
        yield Finding("good", f"found in {', '.join(found)}; the client sends it, and it passes through unchanged")
    else:
        yield Finding("open", "none found", "set ANTHROPIC_API_KEY, unless your client is logged in")


def _clients(circumstances: Circumstances) -> Iterator[Finding]:
    for client in CLIENTS:
        command = client.names[0]
        path = shutil.which(command, path=circumstances.environ.get("PATH"))
        if path is None:
            yield Finding("open", f"{client.title} is not installed ({command} is not on your PATH)")
        else:
            yield _version(client.title, path, circumstances.environ)
            upstream = circumstances.config.upstream if circumstances.config is not None else ""
            if costs := client.costs(upstream, circumstances.environ):
                yield Finding(
                    "open", f"through the proxy, {client.title} loses: {'; '.join(costs)}", "see docs/clients.md"
                )


def _version(title: str, path: str, environ: Mapping[str, str]) -> Finding:
    try:
        result = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_SECONDS,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("bad", f"{path} --version failed: {error}", f"reinstall {title}")
    first, *_ = result.stdout.strip().splitlines() or [""]
    if result.returncode != 0 or not first:
        return Finding("bad", f"{path} --version ended with exit code {result.returncode}", f"reinstall {title}")
    return Finding("good", f"{title}: {first} ({path})")


def _conflicts(circumstances: Circumstances) -> Iterator[Finding]:
    conflicts = [
        Finding("bad", obstacle.rstrip("."))
        for client in CLIENTS
        for obstacle in client.obstacles(circumstances.environ, circumstances.directory)
    ]
    config, named = circumstances.config, circumstances.environ.get(BASE_URL, "").rstrip("/")
    if config is not None and named not in ("", config.upstream, url_of(config)):
        text = f"{BASE_URL} is {mask(named)}, which is neither this server nor the upstream"
        conflicts.append(Finding("open", text, "`mnemosyne run` replaces it; to send requests there, set --upstream"))
    nothing = f"none in {BASE_URL}, {', '.join(ELSEWHERE)} and Claude Code's settings"
    yield from conflicts or [Finding("good", nothing)]


def _lacks_database(config: Config) -> bool:
    """Whether the embedded database was not created yet."""
    return config.dsn is None and not (config.data_dir / "postgres").exists()


def _ask_database(config: Config, ask: "Callable[[Database], Awaitable[T]]") -> T:
    """Open the database and return what ``ask`` returns. Raises MnemosyneError if it is not usable."""
    import trio

    from mnemosyne.app.storage import open_database  # a database driver is slow to import

    async def open_and_ask() -> T:
        async with open_database(config) as database:
            return await ask(database)

    return trio.run(open_and_ask)


@needs_config
def _database(config: Config, _circumstances: Circumstances) -> Iterator[Finding]:
    from mnemosyne.adapters.postgres.object_index_rows import list_skipped
    from mnemosyne.adapters.postgres.object_index_search import near_index
    from mnemosyne.app.storage import storage_of

    async def look(database: "Database") -> tuple[str, bool, list[tuple[str, str]], int | None]:
        row = await database.run(lambda connection: connection.execute("show server_version").fetchone())
        version = str(row[0]) if row else "of an unknown version"
        since = await storage_of(database).directory.off_since(config.tenant)
        return version, await database.run(near_index), await database.run(list_skipped), since

    kind = "the database of the DSN" if config.dsn else f"the embedded database in {config.data_dir}"
    if _lacks_database(config):
        yield Finding("good", f"the first server will create {kind}")
        return
    try:
        found, is_approximate, not_searched, off_since = _ask_database(config, look)
    except MnemosyneError as error:
        yield Finding(
            "bad", f"{kind} is not usable: {mask(str(error))}", "until then requests are forwarded and not recorded"
        )
    else:
        yield Finding("good", f"{kind} answers (PostgreSQL {found}); its schema is current")
        if off_since is not None:
            yield Finding("open", off_sentence(off_since))
        how = "uses an index and may miss some objects" if is_approximate else "uses no index and misses nothing"
        yield Finding("good", f"search by meaning across all sessions {how}")
        for object_id, why in not_searched[:1]:
            yield Finding(
                "open",
                f"{len(not_searched)} objects are not searchable because they could not be read, such as"
                f" {object_id}: {why}",
                "`mnemosyne verify` finds damage, `mnemosyne rebuild object_index` retries them",
            )


@needs_config
def _models(config: Config, _circumstances: Circumstances) -> Iterator[Finding]:
    """Report the known models, and the recorded ones without a known price."""
    from mnemosyne.domain.cost.catalogue import in_force, price_of

    path = models_path(config)
    source = "as shipped" if path is None else f"with {path}"
    yield Finding("good", f"prices of {len(in_force().prices)} models, {source}")
    yield _tariff(config)
    unknown = sorted(name for name in _find_models(config) if price_of(name) is None)
    if unknown:
        yield Finding(
            "open",
            f"no price for {', '.join(unknown)}: their tokens are counted without a cost",
            "add them to a models file, see docs/configuration.md",
        )


def _tariff(config: Config) -> Finding:
    from mnemosyne.app.settings import settings_of

    try:
        named = settings_of(config).tariff
    except MnemosyneError as error:
        return Finding("bad", str(error).rstrip("."), "the server does not start until then")
    if named is not None:
        return Finding("good", f"the settings name the tariff {named}")
    return Finding("good", "each request's credential and model determine its tariff")


def _policy(config: Config) -> Finding:
    from mnemosyne.app.policies import load_policy

    try:
        plug_in = load_policy(config)
    except MnemosyneError as error:
        return Finding("bad", str(error).rstrip("."), "the server does not start until then")
    return Finding("good", f"the policy is {config.policy if plug_in is None else plug_in.label}")


def _find_models(config: Config) -> list[str]:
    """Return the model names in the read model of usage; empty if it cannot be read."""
    if _lacks_database(config):
        return []

    def read(connection: "Connection") -> list[str]:
        if connection.execute("select to_regclass('mnemosyne.usage_turns')").fetchone() == (None,):
            return []
        rows = connection.execute("select distinct coalesce(model, asked_model) from mnemosyne.usage_turns").fetchall()
        return [name for (name,) in rows if name is not None]

    try:
        return _ask_database(config, lambda database: database.run(read))
    except MnemosyneError:
        return []  # the database check reports the reason


@needs_config
def _worker(config: Config, _circumstances: Circumstances) -> Iterator[Finding]:
    """Report the read models' lag, from the server if it runs, otherwise from the database."""
    if (found := find_server(config)) is not None and found.worker:
        state, seconds = found.worker["state"], found.worker["seconds"]
        if state in ("working", "standing by", "starting"):
            told = (found.worker.get(name) for name in ("events_behind", "seconds_behind", "seconds_held"))
            yield _lag(str(state), *told)
        else:
            since = f"{'hung' if state == 'hung' else 'not running'} for {seconds:g} s"
            yield Finding("bad", since, "the server restarts it and logs the reason; turns continue")
        return
    if _lacks_database(config):
        yield Finding("good", "the first server will start it")
        return
    from mnemosyne.adapters.postgres.leading import lag

    try:
        standing = _ask_database(config, lag)
    except MnemosyneError:
        yield Finding("open", "not checked: the database is not usable")
    else:
        yield _lag("working" if standing.led else "not running", standing.events, standing.seconds, standing.held)


def _lag(how: str, events: int | None, seconds: float | None, held: float | None = None) -> Finding:
    if events is None or seconds is None:
        return Finding("open", f"{how}; its lag is unknown, because the database does not answer")
    if not events:
        return Finding("good", f"{how}; read models are up to date")
    late = seconds_text(round(seconds * 1e6))
    behind = f"{how}; read models are {plural(events, 'event')} behind the log, by {late}"
    if held is not None and held >= HELD_SECONDS:
        return Finding(
            "open",
            f"{behind}; an append that began {held:g} s ago is unfinished and blocks later events",
            "the database aborts it 30 s after its server stopped; end transactions that were opened by hand",
        )
    if seconds < LATE_SECONDS:
        return Finding("good", behind)
    return Finding("open", behind, "start one with `mnemosyne serve` or `mnemosyne worker`, and see its log")


@needs_config
def _helper(config: Config, circumstances: Circumstances) -> Iterator[Finding]:
    if config.helper == "extractive":
        yield Finding("good", "no helper model; summaries are extracted")
        return
    if config.helper == "client":
        model = config.helper_model or "the cheapest model of their provider"
        others = config.helper_fallback or "none"
        yield Finding("good", f"sessions with an API key use {model}, others {others}; {_helper_budget(config)}")
    try:
        yield from _try_helpers(config, circumstances)
    except MnemosyneError as error:
        yield Finding("bad", str(error).rstrip("."), "the server does not start until then")


def _try_helpers(config: Config, circumstances: Circumstances) -> list[Finding]:
    """Check each helper model that is the same for all sessions, if wanted with a paid request. Raises
    BadConfiguration.
    """
    import trio

    from mnemosyne.adapters.helpers.opening import open_helper

    budget = _helper_budget(config)

    async def ask() -> list[Finding]:
        async with open_helper(config, circumstances.environ) as source:
            assert source is not None
            return [await try_one(each) for each in source.models_for(None)]

    async def try_one(model: HelperModel) -> Finding:
        try:
            return Finding("good", f"{await describe(model)}; {budget}")
        except HelperFailed as error:
            return Finding("bad", f"{model.name} is not usable: {error}", _WITHOUT_A_MODEL)

    async def describe(model: HelperModel) -> str:
        into, out = (dollars_text(each * 1_000_000) for each in (model.price.input, model.price.output))
        about = f"{model.name} answers, at {into}/{out} for a million tokens of input/output"
        with trio.move_on_after(UPSTREAM_SECONDS):
            if not circumstances.asks_helper:
                await model.check()
                return about
            used = (await model.complete(_SHORT_PROMPT)).used
            return f"{about}; this answer cost {dollars_text(model.price.nanodollars(used)) if used else 'little'}"
        raise HelperFailed(f"no answer within {UPSTREAM_SECONDS:g} s")

    return trio.run(ask)


def _helper_budget(config: Config) -> str:
    """The rest of today's budget for helpers, in words."""
    from mnemosyne.app.settings import helper_limits
    from mnemosyne.projections.daily_spending import ON_DAY

    day = time.time_ns() // 1_000 // DAY
    limits = helper_limits(config)
    share = f"{percent_text(limits.share)} of the cost of today's turns, at most {dollars_text(limits.a_day)}"

    def read(connection: "Connection") -> DaySpending:
        tables = "select to_regclass('mnemosyne.budget_spent'), to_regclass('mnemosyne.usage_prices')"
        if None in (connection.execute(tables).fetchone() or ()):
            return DaySpending(day)
        return DaySpending(day, *connection.execute(ON_DAY.sql.encode(), {"day": day}).fetchall()[0])

    spent = DaySpending(day)
    if not _lacks_database(config):
        try:
            spent = _ask_database(config, lambda database: database.run(read))
        except MnemosyneError:
            return f"its budget is {share}"  # the database check reports the reason
    return f"{dollars_text(limits.room(spent))} of its budget is left today ({share})"


_SHORT_PROMPT = HelperPrompt(
    system="You answer with JSON.",
    user='Answer with {"works": true}.',
    most_tokens=50,
    schema=object_of({"works": {"type": "boolean"}}),
)


@needs_config
def _search(config: Config, _circumstances: Circumstances) -> Iterator[Finding]:
    from mnemosyne.adapters.embedding import model_files
    from mnemosyne.app.object_index import read_standing, why_words_only

    if (why := why_words_only(config)) is not None:
        yield Finding("open" if config.semantic_search else "good", f"by words only: {why.rstrip('.')}")
        return
    standing = None
    if not _lacks_database(config):
        with suppress(MnemosyneError):  # the database check reports it
            standing = _ask_database(config, read_standing)
    vectors = "" if standing is None else f"; {standing.sentence}"
    yield Finding("good", f"by words and by meaning ({model_files.NAME}){vectors}")


_WITHOUT_A_MODEL = "until one answers, summaries are extracted; see the helper settings"

CHECKS: list[Check] = [
    Check("python", _python),
    Check("settings", _settings),
    Check("data directory", _data_dir),
    Check("database", _database),
    Check("models", _models),
    Check("port", _port),
    Check("worker", _worker),
    Check("tenants", _tenants),
    Check("upstream", _upstream),
    Check("helper", _helper),
    Check("search", _search),
    Check("credential", _credentials),
    Check("clients", _clients),
    Check("conflicts", _conflicts),
]
"""What `mnemosyne doctor` checks, in this order. To add a check, add it here."""
