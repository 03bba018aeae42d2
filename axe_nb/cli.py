"""The command `axe-nb`: a thin interface to the same library, with the same options.

Source: A-5.7, B-8..B-12, D-22, D-38.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import axe_nb
from axe_nb.agents import agent_files, config
from axe_nb.agents.agent import Agent
from axe_nb.agents.files import reason, write_new
from axe_nb.agents.trust import check_link
from axe_nb.commands.parser import Options, command_of, parse, parse_run
from axe_nb.engine.person import Decision, Question
from axe_nb.errors import AxeError, ConfigError
from axe_nb.results import RunResult
from axe_nb.secrets import redact
from axe_nb.session.approval import Approver, prompt_person
from axe_nb.text import align_columns, clean, quote

STDIN = "-"
"""A prompt that stands for piped input, as in other commands."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command line and returns the exit code (D-22)."""
    _write_utf8()
    try:
        return _dispatch(words)
    except BrokenPipeError:
        _close_stdout()
        return 1
    except OSError as error:  # a full disk, a folder that is gone
        _close_stdout()
        _print_note(f"error: {reason(error)}")
        return 1


def _dispatch(words: Sequence[str] | None) -> int:
    try:
        command, rest = command_of(sys.argv[1:] if words is None else words)
        if command.name == "run":
            return _run(parse_run(rest, "command"))
        return ACTIONS[command.name](parse(command, "command", rest))
    except AxeError as error:
        _print_note("\n".join([f"error: {error}", *error.lines()[1:]]))
        return error.exit_code
    except KeyboardInterrupt:
        _print_note("interrupted")
        return 130


def _run(options: Options) -> int:
    from axe_nb.commands.console import check_end, is_expected

    try:
        result = _run_and_show(options)
    except AxeError as error:
        if not is_expected(error, options.raises):
            raise
        _write(f"{type(error).__name__}: {error}")
        return 0
    if result is not None:
        check_end(result, options.raises)
        overrides = options.overrides
        if overrides.expect is not None:
            from axe_nb.expectations.check import check

            check(result, overrides.expect, agents_dir=overrides.agents_dir)
    return 0


def _run_and_show(options: Options) -> RunResult | None:
    """Runs the agent and shows it; returns None for a dry run."""
    from axe_nb.commands.console import StatusLine, TextView, request_of, show_dry_run
    from axe_nb.session.drive import drive
    from axe_nb.session.session import session

    given = "" if options.prompt in (None, STDIN) else options.prompt
    is_read = sys.stdin is not None and (options.prompt == STDIN or not sys.stdin.isatty())
    piped = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace") if is_read else ""
    prompt = "\n\n".join(filter(str.strip, [given or "", piped]))
    request = request_of(options, prompt)
    status = StatusLine(None if options.quiet else sys.stderr)
    if options.dry_run:
        streams = status.streams and not options.verbose
        write = _write_exactly if options.full else _write
        show_dry_run(request, options, write, _print_note, streams=streams)
        return None
    handle = session.start(request)
    view = TextView(handle, options, _write_exactly, _print_note, piped=bool(piped), status=status)
    return drive(handle, view, _make_approver(status.clear))


def _make_approver(before: Callable[[], None]) -> Approver | None:
    """Returns the approver that prompts on the terminal; None if no one can be prompted."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: Question) -> Decision:
        before()
        with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answer only
            return prompt_person(question)

    return Approver(ask)


def _list(chosen: argparse.Namespace) -> int:
    from axe_nb.commands.actions import load_agents

    rows = [
        (name, agent.description if isinstance(agent, Agent) else f"({agent})")
        for name, agent in load_agents(chosen.agents_dir)
    ]
    if not rows:
        _print_note("no agents found; create one with `axe-nb start` or `axe-nb agents init NAME`")
    for line in align_columns(rows):
        _write(line)
    return 0


def _show(chosen: argparse.Namespace) -> int:
    from axe_nb.agents.prompt import all_warnings
    from axe_nb.commands.actions import format_agent

    agent = Agent.load(chosen.agent, chosen.agents_dir)
    _write("\n".join(format_agent(agent)))
    for warning in all_warnings(agent):
        _print_note(f"warning: {warning}")
    return 0


def _init(chosen: argparse.Namespace) -> int:
    _write(str(agent_files.init(chosen.agent, chosen.agents_dir)))
    return 0


def _edit(chosen: argparse.Namespace) -> int:
    found = agent_files.find_file(chosen.agent, chosen.agents_dir)
    check_link(found)
    editor = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if not editor:
        raise ConfigError(
            f"no editor is set for {found}", hint="set EDITOR, for example EDITOR=nano"
        )
    try:
        code = subprocess.call([*shlex.split(editor, posix=os.name != "nt"), str(found)])
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot start the editor {quote(editor)}: {error}",
            hint="set EDITOR, for example EDITOR=nano",
        ) from None
    if code:
        raise ConfigError(f"the editor {quote(editor)} exited with code {code}", exit_code=1)
    return 0


def _print_config_path(chosen: argparse.Namespace) -> int:
    _write(str(config.config_path()))
    return 0


def _init_config(chosen: argparse.Namespace) -> int:
    path = config.config_path()
    write_new(path, config.SCAFFOLD, mode=0o600)
    _write(str(path))
    return 0


def _diagnose(chosen: argparse.Namespace) -> int:
    from axe_nb.commands.actions import diagnose

    found = diagnose(chosen.agents_dir)
    for finding in found:
        _write(str(finding))
    return 1 if any(finding.state == "wrong" for finding in found) else 0


def _review_trust(chosen: argparse.Namespace) -> int:
    from axe_nb.commands.actions import trust

    return 0 if trust(chosen.target, chosen.agents_dir, _write, _find_asker()) else 2


def _find_asker() -> Callable[[str], str] | None:
    """Returns a function that prompts the person; None = no one can be prompted."""
    can_prompt = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    return _ask_on_stderr if can_prompt else None


def _ask_on_stderr(prompt: str) -> str:
    with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answer only
        try:
            return input(prompt)
        except EOFError:
            return ""


def _show_history(chosen: argparse.Namespace) -> int:
    from axe_nb.commands.actions import show_history

    _write(show_history(chosen.agent, chosen.delete))
    return 0


def _freeze(chosen: argparse.Namespace) -> int:
    from axe_nb.testing.check import freeze

    return 0 if freeze(chosen.notebooks, chosen.timeout, _write) else 1


def _check(chosen: argparse.Namespace) -> int:
    from axe_nb.testing.check import check

    return 0 if check(chosen.notebooks, chosen.timeout, _write) else 1


def _make_lesson(chosen: argparse.Namespace) -> int:
    from axe_nb.testing.headless import find_notebooks
    from axe_nb.testing.lesson import choose_sandbox, mark_submissions, write_student_copy

    marks = chosen.submissions is not None
    options = {"to": chosen.to, "csv": chosen.csv, "timeout": chosen.timeout}
    options["no-sandbox"] = chosen.no_sandbox or None
    for option, value in options.items():
        if value is not None and marks == (option == "to"):
            raise ConfigError(
                f"--{option} {'needs' if option != 'to' else 'cannot be used with'} --check",
                hint="axe-nb lesson NB [--to DIR], or axe-nb lesson NB --check DIR [--csv FILE]",
            )
    lesson = find_notebooks([chosen.notebook])[0]
    if chosen.submissions is None:
        write_student_copy(lesson, chosen.to, _write)
    else:
        sandbox = choose_sandbox(is_off=chosen.no_sandbox, ask=_find_asker())
        mark_submissions(lesson, chosen.submissions, chosen.timeout, chosen.csv, _write, sandbox)
    return 0


def _run_demo(chosen: argparse.Namespace) -> int:
    from axe_nb.commands.demo import show

    show(_write, sys.stderr)
    return 0


def _start(chosen: argparse.Namespace) -> int:
    from axe_nb.commands.starter import start

    return start(chosen.notebook, _write, opens=not chosen.no_open)


def _print_version(chosen: argparse.Namespace) -> int:
    _write(f"axe-nb {axe_nb.__version__}")
    return 0


ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "init": _init,
    "edit": _edit,
    "config path": _print_config_path,
    "config init": _init_config,
    "doctor": _diagnose,
    "trust": _review_trust,
    "history": _show_history,
    "freeze": _freeze,
    "check": _check,
    "lesson": _make_lesson,
    "demo": _run_demo,
    "start": _start,
    "version": _print_version,
}
"""Name of a command → its implementation, which returns the exit code; `run` is separate."""


def _write(text: str) -> None:
    print(clean(redact(text)), flush=True)


def _write_exactly(text: str) -> None:
    """Writes an answer or a request to a pipe or file as it is, but for secrets."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    print(clean(redact(text)) if on_terminal else redact(text), flush=True)


def _print_note(text: str) -> None:
    print(clean(redact(text)), file=sys.stderr, flush=True)


def _write_utf8() -> None:
    """Makes the output UTF-8, whatever the terminal's code page."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="replace")


def _close_stdout() -> None:
    """Redirects stdout to the null device, so that the flush at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_and_exit() -> NoReturn:
    """Runs the console script."""
    sys.exit(main())
