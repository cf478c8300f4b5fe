"""The pages' style sheets as text, for self-contained files."""

from importlib.resources import files

_STYLES = ("charts.css", "page.css")


def read_styles() -> str:
    """Return all style sheets as one text."""
    static = files("mnemosyne.http.inspector") / "static"
    return "\n".join(static.joinpath(name).read_text(encoding="utf-8") for name in _STYLES)
