"""The data that is shipped with the package."""

import pkgutil


def models() -> str:
    """What models cost and are: the text of ``models.toml``."""
    data = pkgutil.get_data("mnemosyne", "models.toml")
    assert data is not None
    return data.decode()
