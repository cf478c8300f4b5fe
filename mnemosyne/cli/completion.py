"""``mnemosyne completion``: the shell's part of completion, written by click."""

import click
from click.shell_completion import get_completion_class

from mnemosyne.cli.printing import say


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> None:
    """Print the script that completes commands and options in your shell.

    \b
    bash  mnemosyne completion bash > ~/.local/share/bash-completion/completions/mnemosyne
    zsh   mnemosyne completion zsh > ~/.zfunc/_mnemosyne
          (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)
    fish  mnemosyne completion fish > ~/.config/fish/completions/mnemosyne.fish

    It holds from the next shell on.
    """
    script = get_completion_class(shell)
    assert script is not None
    say(script(ctx.find_root().command, {}, "mnemosyne", "_MNEMOSYNE_COMPLETE").source())
