"""How the pages look, as text: a file that needs no server has it inside."""

from importlib.resources import files

_STYLES = ("charts.css", "page.css")


def read_styles() -> str:
    """The pages' style sheets, as one."""
    static = files("mnemosyne.http.inspector") / "static"
    return "\n".join(static.joinpath(name).read_text(encoding="utf-8") for name in _STYLES)
