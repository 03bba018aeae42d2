"""One run asked for in a notebook: shown, bound to names, and an error where it did not complete.

Source: product.md "Notebook"; B-8; seed 000 §8.
"""

from __future__ import annotations

from collections.abc import Callable

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from axe_nb.api import desk_of_person
from axe_nb.commands.parser import Options, UsageError
from axe_nb.console import StatusLine, run_in_text, show_dry_run
from axe_nb.doctor.expected_end import check_end, is_expected
from axe_nb.errors import AxeError
from axe_nb.events import RunResult
from axe_nb.nb.background import Background, start
from axe_nb.nb.show import install, notebook_view, remember
from axe_nb.session.session import session
from axe_nb.session.watch import watched

NOT_IN_BACKGROUND = {
    "json": "--json", "verbose": "--verbose", "quiet": "--quiet", "raises": "--raises",
}  # fmt: skip
"""Options that say what the cell itself prints or ends as; a background run outlives its cell."""


def run_cell(
    shell: InteractiveShell,
    options: Options,
    prompt: Callable[[], str],
    write: Callable[[str], None],
) -> RunResult | Background | None:
    """What the cell returns.

    Args:
        shell: whose namespace gets the names.
        options: as they were asked for.
        prompt: () -> the prompt. Raises ConfigError.
        write: takes a text that the cell prints.

    Raises:
        AxeError: the run could not begin, or ended otherwise than it should.
    """
    install(shell)
    try:
        if options.dry_run:
            show_dry_run(options, prompt(), write)
            return None
        if options.background:
            return _in_background(shell, options, prompt())
        result = _run(shell, options, prompt(), write)
    except AxeError as error:
        if not is_expected(error, options.raises):
            raise
        write(f"{type(error).__name__}: {error}")
        return None
    check_end(result, options.raises)
    return None if _is_captured(shell) else result


def _run(
    shell: InteractiveShell, options: Options, prompt: str, write: Callable[[str], None]
) -> RunResult:
    """The result, shown; bound to `-o` also where the run failed or was stopped."""

    def keep(result: RunResult) -> None:
        if options.out:
            shell.user_ns[options.out] = result

    desk = desk_of_person()
    if options.json or options.verbose:
        piped, status = bool(prompt.strip()), StatusLine(None)
        result = run_in_text(
            options, prompt, write, write, piped=piped, status=status, keep=keep, desk=desk
        )
        remember(result)
        return result
    overrides = options.overrides
    earlier = _earlier(options)
    consult = desk.consult if desk else None
    view = notebook_view(options.out or "", quiet=options.quiet)
    return watched(
        lambda emit: session.ask(
            options.agent, prompt, overrides, emit, continue_from=earlier, consult=consult
        ),
        view,
        keep,
        desk,
    )


def _in_background(shell: InteractiveShell, options: Options, prompt: str) -> Background:
    """A handle of the run, bound to `-o`."""
    for field, flag in NOT_IN_BACKGROUND.items():
        if getattr(options, field):
            raise UsageError(f"--bg and {flag} do not go together", hint="leave one of them out")
    earlier = _earlier(options)
    handle = start(
        options.agent,
        lambda emit: session.ask(
            options.agent, prompt, options.overrides, emit, continue_from=earlier
        ),
        f"{options.out}.result()" if options.out else "",
    )
    if options.out:
        shell.user_ns[options.out] = handle
    return handle


def _earlier(options: Options) -> RunResult | None:
    if not options.goes_on:
        return None
    return session.conversation(options.agent, options.overrides.agents_dir)


def _is_captured(shell: InteractiveShell) -> bool:
    """Whether the cell runs under %%capture, which would keep an empty display of the value."""
    return isinstance(shell.display_pub, CapturingDisplayPublisher)
