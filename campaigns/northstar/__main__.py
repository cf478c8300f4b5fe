"""Play the conversation and print the results: ``python -m campaigns.northstar [--server]``."""

import sys
import tempfile
from pathlib import Path

import trio

from campaigns.northstar.playing import Outcome, in_memory, served


async def _played() -> Outcome:
    if "--server" not in sys.argv:
        return await in_memory()
    with tempfile.TemporaryDirectory(prefix="mnemosyne-north-star-") as folder:
        return await served(Path(folder))


sys.stdout.write(f"{trio.run(_played).figures}\n")
