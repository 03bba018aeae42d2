"""`%%axe`: an option line and a prompt become one run, shown in the cell.

Imports nothing of the core until a cell runs, so that `%load_ext axe_nb` is quick.
Source: product.md "Notebook"; B-8; seed 000 §8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class

if TYPE_CHECKING:
    from axe_nb.errors import AxeError
    from axe_nb.events import RunResult
    from axe_nb.options import Options


@magics_class
class AxeMagics(Magics):
    """The magics of axe_nb."""

    shell: InteractiveShell

    @cell_magic
    def axe(self, line: str, cell: str) -> RunResult | None:
        """Runs an agent on the cell's body: `%%axe AGENT [options]`; returns the RunResult."""
        from axe_nb.nb.cell import prompt_of
        from axe_nb.options import parse_line

        options = parse_line(line)
        try:
            prompt = prompt_of(cell, self.shell.user_ns, raw=options.raw)
            if options.dry_run:
                self._dry_run(options, prompt)
                return None
            result = self._run(options, prompt)
        except Exception as error:
            if _is_expected(error, options.raises):
                print(f"{type(error).__name__}: {error}")
                return None
            raise
        _check_end(result, options.raises)
        return None if self._captured() else result

    def _dry_run(self, options: Options, prompt: str) -> None:
        from axe_nb.console import show_dry_run

        show_dry_run(options, prompt, print)

    def _run(self, options: Options, prompt: str) -> RunResult:
        """The result, shown; bound to `-o` also where the run failed or was stopped."""
        from axe_nb.api import desk_of_person
        from axe_nb.console import StatusLine, run_in_text
        from axe_nb.nb.show import notebook_view
        from axe_nb.session import session
        from axe_nb.watch import watched

        def keep(result: RunResult) -> None:
            if options.out:
                self.shell.user_ns[options.out] = result

        if options.json or options.verbose:
            piped, status = bool(prompt.strip()), StatusLine(None)
            return run_in_text(options, prompt, print, print, piped=piped, status=status, keep=keep)
        earlier = session.conversation(options.agent) if options.goes_on else None
        desk = desk_of_person()
        consult = desk.consult if desk else None
        view = notebook_view(options.out or "", quiet=options.quiet)
        return watched(
            lambda emit: session.ask(
                options.agent,
                prompt,
                options.overrides,
                emit,
                continue_from=earlier,
                consult=consult,
            ),
            view,
            keep,
            desk,
        )

    def _captured(self) -> bool:
        """Whether the cell runs under %%capture, which would keep an empty display of the value."""
        from IPython.core.displaypub import CapturingDisplayPublisher

        return isinstance(self.shell.display_pub, CapturingDisplayPublisher)


def _is_expected(error: Exception, raises: str | None) -> bool:
    from axe_nb.errors import ConfigError, ProviderError

    kinds = {"config": ConfigError, "provider": ProviderError}
    return raises in kinds and isinstance(error, kinds[raises])


def _check_end(result: RunResult, raises: str | None) -> None:
    """Raises where the run did not end as it should: completed, or as `--raises` says."""
    from axe_nb.errors import ProviderError, RunError

    if raises is None:
        result.raise_for_status()
        return
    met = (
        isinstance(result.cause, ProviderError)
        if raises == "provider"
        else (result.status == raises)
    )
    if not met:
        failure: AxeError = RunError(
            f"the run ended as {result.status}, not as {raises} (--raises)", exit_code=1
        )
        failure.place = result.place
        raise failure


def load(shell: InteractiveShell) -> None:
    """Adds the magics; twice is harmless."""
    if "AxeMagics" not in shell.magics_manager.registry:
        shell.register_magics(AxeMagics(shell))


def unload(shell: InteractiveShell) -> None:
    """Takes the magics away."""
    manager = shell.magics_manager
    manager.registry.pop("AxeMagics", None)
    for kind in ("line", "cell"):
        manager.magics[kind].pop("axe", None)
