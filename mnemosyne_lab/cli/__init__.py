"""The commands of the laboratory, which the command line finds by an entry point."""

from mnemosyne.cli.group import CommandPlace, Purpose

COMMANDS = {
    "demo": CommandPlace(Purpose.USE, "mnemosyne_lab.cli.demo:demo", "See it work, without a key or a network."),
    "what-if": CommandPlace(
        Purpose.EVALUATE, "mnemosyne_lab.cli.what_if:what_if", "Estimate what your past sessions would have cost."
    ),
    "evaluate": CommandPlace(
        Purpose.EVALUATE, "mnemosyne_lab.cli.evaluate:evaluate", "Compare context policies on recorded sessions."
    ),
    "trial": CommandPlace(
        Purpose.EVALUATE, "mnemosyne_lab.cli.trial:trial", "Run tasks with and without memory.", is_rare=True
    ),
}
