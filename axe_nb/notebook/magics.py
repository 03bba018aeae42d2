"""The magics registered with IPython: `%%axe`, `%axe`, `%%axe_agent` and `%%axe_grid`.

Most of the package is imported when a magic is first used, so that `%load_ext axe_nb` is quick.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from traitlets import Bool, Enum, Float, Unicode, observe


def axe_magic(name: str) -> Callable[..., Any]:
    """Decorates a magic so that `%%axe?` shows its help page and interrupts show a single line.

    `name` is the name of a cell magic, or empty for `%axe`. The magic receives its option line as
    typed, the body of the cell, and the variables of the user and the caller.
    """

    def page() -> str:
        from axe_nb.commands.option_table import commands_of
        from axe_nb.commands.parser import list_parser, parser

        made = parser(commands_of("cell")[name], "cell") if name else list_parser("line")
        return made.format_help().rstrip()

    def mark(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def magic(self: AxeMagics, *words: str, local_ns: Mapping[str, Any] | None = None) -> Any:
            try:
                if name and len(words) == 1:  # `%axe_grid`, which IPython suggests for empty cells
                    return _print(page())
                return function(self, *words, {**self.shell.user_ns, **(local_ns or {})})
            except SystemExit as end:
                from axe_nb.commands.parser import HelpShown

                if not isinstance(end, HelpShown):  # raised by the user's own code
                    raise
                return None
            except KeyboardInterrupt as stop:
                if hasattr(stop, "_render_traceback_"):
                    raise
                from axe_nb.errors import interrupted

                raise interrupted("stopped before anything was sent") from None

        magic.getdoc = page  # type: ignore[attr-defined]  # called by IPython
        return needs_local_scope(no_var_expand(magic))

    return mark


def _print(text: str) -> None:
    from axe_nb.secrets import redact
    from axe_nb.text import clean

    print(clean(redact(text)))


@magics_class
class AxeMagics(Magics):
    """axe_nb's magics. `%config AxeMagics` displays and sets defaults for all cells."""

    shell: InteractiveShell

    model = Unicode("", help="Model for all runs; empty = each agent's own.").tag(config=True)
    model_all = Unicode("", help="Model for all agents of all trees; empty = their own.").tag(
        config=True
    )
    timeout = Float(
        120.0, allow_none=True, help="Time limit of a run in seconds; 0 or None = no limit."
    ).tag(config=True)
    mode = Enum(
        ("", "plan", "ask", "auto"), "", help="Mode for all runs; empty = each agent's own."
    ).tag(config=True)
    agents_dir = Unicode("", help="Folder to search for agents first.").tag(config=True)
    history = Bool(True, help="If False, runs are not kept in the history.").tag(config=True)
    display = Enum(
        ("", "live", "static", "off"),
        "",
        help="Display of runs; empty = live in an interactive notebook, otherwise static.",
    ).tag(config=True)

    @cell_magic
    @axe_magic("axe")
    def axe(self, line: str, cell: str, names: Mapping[str, Any]) -> Any:
        from axe_nb.notebook.run_cell import run_prompt

        return run_prompt(self.shell, line, cell, names, _print)

    @line_magic("axe")
    @axe_magic("")
    def axe_line(self, line: str, names: Mapping[str, Any]) -> Any:
        from axe_nb.notebook.line_magic import run_command

        return run_command(self.shell, line, names, _print)

    @line_cell_magic
    @axe_magic("axe_agent")
    def axe_agent(self, line: str, cell: str, names: Mapping[str, Any]) -> None:
        from axe_nb.notebook.agent_cell import define

        define(self.shell, line, cell, names)

    @line_cell_magic
    @axe_magic("axe_grid")
    def axe_grid(self, line: str, cell: str, names: Mapping[str, Any]) -> Any:
        from axe_nb.notebook.grid_cell import run_grid

        return run_grid(self.shell, line, cell, names, _print)

    @observe("model", "model_all", "timeout", "mode", "agents_dir", "history")
    def _set_default(self, change: Any) -> None:
        """Applies a changed setting to all later runs in the session, including `axe_nb.run`."""
        from axe_nb.session.session import session

        name, value = change["name"], change["new"]
        if name == "history":
            session.keeps_history = value
        elif value == self.traits()[name].default_value:
            session.defaults.pop(name, None)
        else:
            session.defaults[name] = value


def _note_cell(info: Any) -> None:
    """Tells the cassette which cell is about to run, as each cell replays its own records."""
    home = sys.modules.get("axe_nb.session.session")  # without it, there is no cassette
    if home is not None and home.session.cassette is not None:
        home.session.cassette.enter_cell(getattr(info, "cell_id", None))


# custom matchers: IPython's older hooks break words at hyphens
@context_matcher(identifier="axe_nb", priority=1000)  # type: ignore[untyped-decorator]  # IPython's own gap
def matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Returns completions if the cursor is in the line or body of an axe_nb magic."""
    if "%axe" not in context.full_text:
        return {"completions": []}
    from axe_nb.notebook.completion import list_offers

    above = context.full_text.split("\n")[: context.cursor_line]
    offered = list_offers(above, context.text_until_cursor)
    if offered is None:
        return {"completions": []}
    written, texts = offered
    return {
        "completions": [
            SimpleCompletion(text=text, type="option" if text.startswith("-") else "value")
            for text in texts
        ],
        "suppress": True,
        "matched_fragment": written,
    }


def load(shell: InteractiveShell) -> None:
    """Registers the magics and their completions; may be called repeatedly."""
    if "AxeMagics" in shell.magics_manager.registry:
        return
    shell.register_magics(AxeMagics(shell))
    if shell.Completer is not None and matcher not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(matcher)
    shell.events.register("pre_run_cell", _note_cell)
