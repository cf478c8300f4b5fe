"""The commands of the laboratory, which the command line finds by an entry point."""

from mnemosyne.cli.group import CommandPlace

COMMANDS = {
    "demo": CommandPlace("mnemosyne_lab.cli.demo:demo", "See it work, in half a minute, without a key or a network."),
    "evaluate": CommandPlace(
        "mnemosyne_lab.cli.evaluate:evaluate", "Compare ways of managing a context on recorded sessions."
    ),
    "what-if": CommandPlace(
        "mnemosyne_lab.cli.what_if:what_if", "Say what your Claude Code sessions cost, and would have cost with us."
    ),
    "trial": CommandPlace(
        "mnemosyne_lab.cli.trial:trial", "Run paired tasks with and without memory, and say whether it is as good."
    ),
}
