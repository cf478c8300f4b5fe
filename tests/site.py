"""The documentation as the pages of a site, for zensical: `make site`.

The repository's own pages come along, the README as the first one. A linked source file becomes a page with numbered
lines. So every link in the documentation works on the site as it does in the repository.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "threat-model.md",
    "CHANGELOG.md": "changes.md",
}
"""Pages outside `docs`, with their places on the site."""
DECISIONS = "docs/adr"

_TARGET = re.compile(r"(?P<before>\]\(|^\[[^\]]+\]: )(?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\)|$)", re.MULTILINE)
_FOREIGN = re.compile(r"""(?:src|rel="stylesheet"[^>]*href)="(https?:)?//[^"]*""")


def place_of(path: str) -> str:
    """The place on the site of a file of the repository."""
    if path == DECISIONS:
        return "adr/index.md"
    if path in PLACES:
        return PLACES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md"


def page_of(path: str, text: str, linked: set[str]) -> str:
    """A page of the repository with its links as the site needs them; linked source files are added to `linked`."""

    def replace(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(path), match["path"]))
        place, anchor = place_of(target), match["anchor"] or ""
        if place.startswith("source/"):
            linked.add(target)
            anchor = f"#__codelineno-0-{anchor[2:]}" if anchor.startswith("#L") else ""
        return match["before"] + os.path.relpath(place, os.path.dirname(place_of(path))) + anchor

    return _TARGET.sub(replace, text)


def source_page(path: str, text: str) -> str:
    """A source file as a page that the site's search leaves out."""
    language = {".py": "python", ".md": "markdown", ".toml": "toml"}.get(Path(path).suffix, "text")
    return f'---\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n~~~~~{language} linenums="1"\n{text}\n~~~~~\n'


def decisions_page(decisions: list[tuple[str, str]]) -> str:
    """The list of the decision records, which a repository's host shows as a folder."""
    return "# Decisions\n\n" + "".join(f"- [{title.removeprefix('# ')}]({name})\n" for name, title in decisions)


def write_pages(site: Path) -> None:
    folder = site / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.md", "*.lock"))
    shutil.copy(ROOT / "zensical.toml", site)
    linked: set[str] = set()
    for file in [*map(ROOT.joinpath, PLACES), *(ROOT / "docs").rglob("*.md")]:
        path = file.relative_to(ROOT).as_posix()
        _write(folder / place_of(path), page_of(path, file.read_text(encoding="utf-8"), linked))
    decisions = [
        (file.name, file.read_text(encoding="utf-8").splitlines()[0]) for file in (ROOT / DECISIONS).glob("*.md")
    ]
    _write(folder / place_of(DECISIONS), decisions_page(sorted(decisions)))
    for path in linked:
        _write(folder / place_of(path), source_page(path, (ROOT / path).read_text(encoding="utf-8")))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def foreign_files(site: Path) -> list[str]:
    """The scripts, pictures and style sheets that pages of a built site would load from other hosts."""
    return [
        f"{page.relative_to(site)}: {match.group()}"
        for page in sorted(site.rglob("*.html"))
        for match in _FOREIGN.finditer(page.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    site = Path(sys.argv[1])
    write_pages(site)
    if status := subprocess.call([sys.argv[2], "build", "--strict", "--config-file", site / "zensical.toml"]):
        sys.exit(status)
    sys.exit("\n".join(foreign_files(site / "html")) or None)
