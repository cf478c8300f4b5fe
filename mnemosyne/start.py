"""The program ``mnemosyne``."""

import os
import sys

from mnemosyne.handover import HANDED, hand_over


def main() -> None:
    """Run the command in a server's prepared process if there is one, else here."""
    name = os.path.basename(sys.argv[0])
    name = "mnemosyne" if name == "__main__.py" else name
    arguments = sys.argv[1:]
    if arguments and arguments[0] in HANDED:
        code = hand_over(name, arguments, os.environ)
        if code is not None:
            sys.exit(code)
    from mnemosyne.cli import main as program

    program(prog_name=name)
