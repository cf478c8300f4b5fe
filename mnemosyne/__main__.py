"""``python -m mnemosyne``."""

from mnemosyne.cli import main

main(prog_name="mnemosyne")
