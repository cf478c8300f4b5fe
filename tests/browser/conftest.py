"""A log whose pages a server process shows, and a signed-in browser."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.browser.chromium import chromium
from tests.cli.support import environ_for, invoked, line, started
from tests.fixtures import PostgresServer
from tests.http.inspector.shown import NASTY, fill, session

RECORDED = Path(__file__).parents[3] / "shared/data/sessions/claude_code.jsonl"
LONG = 250
"""Turns of the recorded session that is shown."""


@attrs.frozen
class Shown:
    """Pages at ``url``. ``session`` is managed and contains difficult content; ``environ`` is for commands."""

    url: str
    cookie: str
    session: str
    environ: dict[str, str]

    @property
    def link(self) -> str:
        return f"/-/session/{self.session}"

    def command(self, *arguments: str) -> None:
        """Run a command in a thread, because the driver's loop runs in this one."""
        with ThreadPoolExecutor() as threads:
            done = threads.submit(partial(invoked, *arguments, environ=self.environ)).result()
        assert done.exit_code == 0, done.stderr


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # As root in a container, Chromium's sandbox cannot run; a simulated GPU would take a third of its time.
        opened = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def shown(
    browser: Browser, postgres_server: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    with serve(postgres_server, template, tmp_path_factory.mktemp("browser"), browser, session()) as opened:
        yield opened


@pytest.fixture(scope="session")
def recorded(
    browser: Browser, postgres_server: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    """The same for a recorded session of ``LONG`` turns. Skips without recordings."""
    if not RECORDED.exists():
        pytest.skip(f"there are no recorded sessions at {RECORDED}")
    with RECORDED.open(encoding="utf-8") as file:
        long = next(each for each in map(json.loads, file) if len(each["turns"]) >= LONG)
    with serve(postgres_server, template, tmp_path_factory.mktemp("recorded"), browser, long) as opened:
        yield opened


@contextmanager
def serve(
    postgres_server: PostgresServer, template: str, folder: Path, browser: Browser, held: dict[str, Any]
) -> Iterator[Shown]:
    """Pages that show one session."""
    with postgres_server.fresh_database(template) as dsn, ThreadPoolExecutor() as threads:
        (stream,) = threads.submit(fill, dsn, folder / "data", held).result()
        environ = environ_for(folder, MNEMOSYNE_DSN=dsn)
        with started("open", "--print", environ=environ) as process:
            link = line(process.stdout)
            with browser.new_context() as context:
                page = context.new_page()
                page.goto(link)
                (cookie,) = context.cookies()
            shown = Shown(link.partition("/-/")[0], str(cookie.get("value")), str(stream), environ)
            for text in ("Dates are ISO 8601 everywhere", NASTY):
                shown.command("remember", text, "--detail", NASTY, "--project", str(folder))
            yield shown


@contextmanager
def taken_away(shown: Shown) -> Iterator[None]:
    """Meanwhile the database refuses connections and closes the existing ones."""
    dsn = shown.environ["MNEMOSYNE_DSN"]
    name = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as connection:

        def allow(value: bool) -> None:
            allowed = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
            connection.execute(allowed.format(sql.Identifier(str(name)), sql.Literal(value)))

        allow(False)
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        try:
            yield
        finally:
            allow(True)


@attrs.frozen
class Tab:
    """A page of a browser; ``said`` holds the errors and warnings of its console."""

    page: Page
    said: list[str]


def listen(page: Page) -> list[str]:
    """Collect a page's console errors and warnings from now on."""
    said = list[str]()

    def record(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            said.append(message.text)

    page.on("console", record)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"a dialog: {dialog.message}"))
    return said


def find_serious(page: Page, *, only_contrast: bool = False) -> list[tuple[str, str]]:
    """Accessibility violations of a page with the checker's script: the rule, and the first place that violates it."""
    found = page.evaluate(_CHECK, only_contrast)
    return [(each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in ("serious", "critical")]


_CHECK = """async only_contrast => {
    const look = each => {
        const style = getComputedStyle(each);
        return [style.color, style.backgroundColor, style.fontSize, style.fontWeight, style.opacity].join();
    };
    const differing = new Map();
    for (const each of document.querySelectorAll("body *")) {
        if (![...each.childNodes].some(node => node.nodeType == Node.TEXT_NODE && node.data.trim())) continue;
        let key = "";
        for (let at = each; at != document.body; at = at.parentElement)
            key += `${at.tagName} ${at.className} ${look(at)};`;
        if (!differing.has(key)) differing.set(key, each);
    }
    const include = [...differing.values()], resultTypes = ["violations"];
    const found = await axe.run({include}, {resultTypes, runOnly: ["color-contrast"]});
    if (only_contrast) return found.violations;
    const others = await axe.run({resultTypes, rules: {"color-contrast": {enabled: false}}});
    return [...found.violations, ...others.violations];
}"""
"""Contrast takes most of the checker's time, so of all texts whose elements and ancestors have the same classes and
colors, only one is checked.
"""


def open_tab(context: BrowserContext, shown: Shown) -> Tab:
    context.add_cookies([{"name": "mnemosyne", "value": shown.cookie, "url": f"{shown.url}/-/"}])
    page = context.new_page()
    return Tab(page, listen(page))


@pytest.fixture
def tab(browser: Browser, shown: Shown) -> Iterator[Tab]:
    with browser.new_context(base_url=shown.url) as context:
        yield open_tab(context, shown)
