"""Make the screenshots of the documentation: a session is played through the real application against the strict
scripted provider, and its pages are photographed. ``make pictures``.
"""

import sys
import tempfile
from pathlib import Path

import trio
from playwright.sync_api import ViewportSize, sync_playwright

from campaigns.payers.playing import play_turns
from campaigns.scenarios import agent
from campaigns.scenarios.scene import in_memory
from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.ports import Append, Content
from mnemosyne.domain.session.round_events import Mode
from tests.actors.support import StoppableLog
from tests.browser.chromium import chromium
from tests.browser.story import moving_invoices
from tests.cli.support import environ_for, line, started

SIZE: ViewportSize = {"width": 1280, "height": 1000}
TENANT = "t"
OPERATOR = "Working directory: /home/ada/billing\nNever push to main.\n"
WINDOW = 160_000


def main(pictures: Path) -> None:
    """Write the screenshots into that folder."""
    log = trio.run(_play)
    with tempfile.TemporaryDirectory() as folder:
        trio.run(_store, log, folder)
        with started(
            "open", "--print", environ=environ_for(Path(folder), MNEMOSYNE_DATA_DIR=folder, MNEMOSYNE_TENANT=TENANT)
        ) as pages:
            _photograph(line(pages.stdout), pictures)


async def _play() -> StoppableLog:
    session = moving_invoices()
    agent.OPERATOR = OPERATOR
    async with in_memory("pictures", window=WINDOW, mode=Mode.MANAGE) as scene:
        await play_turns(scene, session)
        assert scene.log is not None
        return scene.log


async def _store(log: StoppableLog, folder: str) -> None:
    async with open_storage(load({"data_dir": folder, "tenant": TENANT}, {})) as storage:
        for stream in await log.streams():
            events = await log.read(stream)
            held = tuple(Content(digest, data) for digest, data in log.held_by(stream).items())
            await storage.journal.append(Append(stream, 0, tuple(each.envelope for each in events), held))


def _photograph(link: str, pictures: Path) -> None:
    pictures.mkdir(parents=True, exist_ok=True)
    url = link.partition("/-/")[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light", timezone_id="UTC", locale="en-GB")
        page.goto(link)
        (session,) = page.request.get(f"{url}/-/sessions.json").json()["sessions"]
        shown = f"{url}/-/session/{session['stream']}"
        told = page.request.get(f"{shown}.json").json()["view"]
        left = next(span["object"]["id"] for span in told["map"]["spans"] if span["fidelity"] == "L4")
        last = told["turns"][-1]["turn"]
        for name, address in (
            ("session", shown),
            ("turn", f"{shown}/turn/{last}"),
            ("object", f"{shown}/object/{left}"),
            ("map", f"{shown}#map-title"),
        ):
            page.goto(address)
            page.wait_for_load_state("load")
            page.screenshot(path=str(pictures / f"{name}.png"))
            sys.stdout.write(f"{pictures / name}.png\n")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
