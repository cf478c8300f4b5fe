"""``python -m mnemosyne``."""

from mnemosyne.start import main

main()
