"""The line that leads from a terminal to the pages."""

import sys

from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration


def page_line(config: Config, url: str) -> str:
    """Where the sessions of a server can be seen. A link lets in whoever reads it, and a log is read by many: it is
    given where people read what we say, and elsewhere the command that makes one.
    """
    from mnemosyne.app.process import now
    from mnemosyne.page_links import PageLinks, PageRole, link_to

    if not sys.stderr.isatty():
        return "See the sessions:  mnemosyne open"
    try:
        link = link_to(url, "/-/", PageLinks(config.data_dir).make(PageRole.OWNER, now()))
    except BadConfiguration as error:
        return str(error)
    return f"See the sessions (works once; `mnemosyne open` makes another):  {link}"
