"""`flowctl completion`: the script that lets a shell complete commands, options, runs and holds."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from flowctl import render
from flowctl.options import Plain, Settings, pass_settings

__all__ = ["command"]


@click.command("completion", cls=Plain)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_settings
def command(settings: Settings, shell: str) -> None:
    """Print the completion script for SHELL.

    bash: eval "$(flowctl completion bash)" in ~/.bashrc; zsh likewise in ~/.zshrc; fish: flowctl
    completion fish > ~/.config/fish/completions/flowctl.fish
    """
    from flowctl.main import main

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the shells that the argument allows"
    script = kind(main, {}, "flowctl", "_FLOWCTL_COMPLETE").source()
    if settings.json:
        render.say_json({"shell": shell, "script": script})
    else:
        click.echo(script)
