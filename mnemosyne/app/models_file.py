"""The user's models file, which extends the shipped table."""

from pathlib import Path

from mnemosyne.domain.cost.catalogue import catalogue_of, load_shipped, overlay, read_tables, use
from mnemosyne.errors import BadConfiguration


def use_models(path: Path | None) -> None:
    """Use the models of this file on top of the shipped ones, or only those if None. Raises BadConfiguration for a
    missing or invalid file.
    """
    tables = {} if path is None else read_tables(_text(path), str(path))
    use(catalogue_of(overlay(load_shipped(), tables), str(path or "that is shipped")))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadConfiguration(f"The models file {path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise BadConfiguration(f"The models file {path} is not UTF-8 text.") from None
