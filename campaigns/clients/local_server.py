"""A real local server, of llama.cpp, with one slot and a small model."""

import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import attrs
import pytest

from tests.clients.workspace import SERVER_SECONDS, bare_environment

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".cache/llama/bin/python"
"""Where `make llama` puts the packages of ``llama.txt``."""

THREADS = "1"


def find_python() -> Path:
    """The interpreter with a local server's packages. Skips if they cannot be imported."""
    if not PYTHON.exists():
        pytest.skip("there is no local server here: `make llama` builds one, in a quarter of an hour")
    done = subprocess.run([PYTHON, "-c", "import llama_cpp.server"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the local server's packages cannot be imported: {done.stderr.strip().splitlines()[-1]}")
    return PYTHON


def find_small_model(python: Path) -> Path:
    """SmolLM2 with 135 million parameters, from its package. Skips without it."""
    found = next(python.parents[1].rglob("SmolLM2-135M-Instruct*.gguf"), None)
    return found or pytest.skip("there is no small model here: `make llama` installs one")


@attrs.frozen
class LocalServer:
    """A running local server. ``said`` holds the lines of its output."""

    url: str
    pid: int
    said: list[str] = attrs.field(factory=list, repr=False)

    @property
    def options(self) -> list[str]:
        return ["--upstreams", f"local={self.url}", "--tariff", "local"]


@contextmanager
def local_server(python: Path, model: Path, window: int) -> Iterator[LocalServer]:
    """A server with this context size in tokens."""
    flags = {"model": model, "n_ctx": window, "logits_all": True, "port": 0, "host": "127.0.0.1"}
    flags |= {"n_threads": THREADS, "n_threads_batch": THREADS}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    with (
        tempfile.TemporaryDirectory(prefix="mnemosyne-llama-") as home,
        subprocess.Popen(
            [python, "-m", "llama_cpp.server", *words],
            env=bare_environment(Path(home)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        assert process.stderr is not None
        said: list[str] = []
        listening = threading.Event()

        def listen(lines: IO[str]) -> None:
            for line in lines:
                said.append(line)
                if "Uvicorn running on" in line:
                    listening.set()
            listening.set()

        reader = threading.Thread(target=listen, args=(process.stderr,), name="the local server's words")
        reader.start()
        try:
            assert listening.wait(SERVER_SECONDS), "".join(said)
            found = re.search(r"Uvicorn running on (http://127\.0\.0\.1:\d+)", said[-1])
            assert found, "".join(said)
            yield LocalServer(found[1], process.pid, said)
        finally:
            process.kill()
            reader.join()
