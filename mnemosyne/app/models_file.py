"""The user's own table of models: a file beside the one that is shipped."""

from pathlib import Path

from mnemosyne.domain.cost.catalogue import catalogue_of, load_shipped, overlay, read_tables, use
from mnemosyne.errors import BadConfiguration


def use_models(path: Path | None) -> None:
    """Decide with what this file says, and what is shipped for the rest; None: with that alone. Raises BadConfiguration
    for a file that is not there or cannot be used.
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
