"""The data that is shipped with the package."""

import pkgutil


def models() -> str:
    """The text of ``models.toml``: models and prices."""
    data = pkgutil.get_data("mnemosyne", "models.toml")
    assert data is not None
    return data.decode()
