"""The `axe-nb` command-line interface. Source: A-5.7, B-8..B-12, D-22, D-38."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import axe_nb
from axe_nb.agents import user_config
from axe_nb.agents.agent import find_agent_file, init_agent
from axe_nb.agents.files import reason, write_new
from axe_nb.agents.trust import check_link
from axe_nb.commands.parser import Options, command_of, parse, parse_run
from axe_nb.engine.person import Decision, Question
from axe_nb.errors import AxeError, ConfigError
from axe_nb.secrets import redact
from axe_nb.session.drive import Approver, drive
from axe_nb.session.prompts import prompt_person
from axe_nb.session.session import session
from axe_nb.text import clean, quote


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code (D-22)."""
    for stream in (sys.stdout, sys.stderr):  # regardless of the terminal's code page
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(encoding="utf-8", errors="replace")
    try:
        command, rest = command_of(sys.argv[1:] if words is None else words)
        if command.name == "run":
            return _run(parse_run(rest, "command"))
        return _act(command.name, parse(command, "command", rest))
    except AxeError as error:
        _print_note("\n".join([f"error: {error}", *error.lines()[1:]]))
        return error.exit_code
    except KeyboardInterrupt:
        _print_note("interrupted")
        return 130
    except OSError as error:  # such as a full disk or a deleted folder
        # the flush at exit must not fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            _print_note(f"error: {reason(error)}")
        return 1


def _act(name: str, chosen: argparse.Namespace) -> int:
    from axe_nb.commands import actions, starter  # late, as runs do not need them
    from axe_nb.testing import check, lesson
    from axe_nb.views.outline import as_text

    match name:
        case "version":
            _write(f"axe-nb {axe_nb.__version__}")
        case "config path":
            _write(str(user_config.config_path()))
        case "config init":
            write_new(user_config.config_path(), user_config.SCAFFOLD, mode=0o600)
            _write(str(user_config.config_path()))
        case "init":
            _write(str(init_agent(chosen.agent, chosen.agents_dir)))
        case "edit":
            _edit(chosen)
        case "lesson":
            [book, *_] = check.find_notebooks([chosen.notebook])
            if chosen.submissions is None:
                lesson.write_student_copy(book, chosen.to, _write)
                return 0
            sandbox = lesson.choose_sandbox(is_off=bool(chosen.no_sandbox), ask=_find_asker())
            folder, limit, csv = chosen.submissions, chosen.timeout, chosen.csv
            lesson.mark_submissions(book, folder, limit, csv, _write, sandbox)
        case "demo":
            starter.show_demo(_write)
        case "start":
            return starter.start(_write, opens=not chosen.no_open)
        case "freeze":
            return 0 if check.freeze(chosen.notebooks, chosen.timeout, _write) else 1
        case "check":
            return 0 if check.check(chosen.notebooks, chosen.timeout, _write) else 1
        case "trust":
            asker = _find_asker()
            return 0 if actions.trust(chosen.target, chosen.agents_dir, _write, asker) else 2
        case "doctor":
            found = actions.diagnose(chosen.agents_dir)
            _write("\n".join(map(str, found)))
            return 1 if any(finding.state == "wrong" for finding in found) else 0
        case _:
            made = actions.make_output(name, chosen)
            if isinstance(made, axe_nb.RunResult):
                made = as_text(made, name=f"axe_nb.load({chosen.words[0]})")
            _write(str(made))
    return 0


def _run(options: Options) -> int:
    from axe_nb.commands import console  # late, as it imports the views

    is_piped = sys.stdin is not None and not sys.stdin.isatty()
    piped = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace") if is_piped else ""
    prompt = "\n\n".join(filter(str.strip, [options.prompt or "", piped]))
    try:
        request = console.request_of(options, prompt)
        if options.dry_run:
            streams = sys.stderr.isatty() and not (options.quiet or options.verbose)
            write = _write_exactly if options.full else _write
            console.show_dry_run(request, options, write, _print_note, streams=streams)
            return 0
        handle = session.start(request)
        view = console.TextView(
            handle, options, _write_exactly, _print_note, piped=bool(piped), terminal=sys.stderr
        )

        def ask(question: Question) -> Decision:
            view.clear()
            with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answer only
                return prompt_person(question)

        result = drive(handle, view, Approver(ask) if _can_prompt() else None)
    except AxeError as error:
        if not console.is_expected(error, options.raises):
            raise
        _write(f"{type(error).__name__}: {error}")
        return 0
    console.check_end(result, options, "")
    return 0


def _can_prompt() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _find_asker() -> Callable[[str], str] | None:
    """Returns a function that asks the user a question; None if there is no terminal."""

    def ask(prompt: str) -> str:
        with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answer only
            try:
                return input(prompt)
            except EOFError:
                return ""

    return ask if _can_prompt() else None


def _edit(chosen: argparse.Namespace) -> None:
    found = find_agent_file(chosen.agent, chosen.agents_dir)
    check_link(found)
    hint = "set EDITOR, for example EDITOR=nano"
    editor = os.environ.get("EDITOR", "").strip()
    if not editor:
        raise ConfigError(f"no editor is set for {found}", hint=hint)
    try:
        code = subprocess.call([*shlex.split(editor, posix=os.name != "nt"), str(found)])
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot start the editor {quote(editor)}: {error}", hint=hint) from None
    if code:
        raise ConfigError(f"the editor {quote(editor)} exited with code {code}", exit_code=1)


def _write(text: str) -> None:
    print(clean(redact(text)), flush=True)


def _write_exactly(text: str) -> None:
    """Prints text with secrets removed and, on a terminal, with control characters replaced."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    print(clean(redact(text)) if on_terminal else redact(text), flush=True)


def _print_note(text: str) -> None:
    print(clean(redact(text)), file=sys.stderr, flush=True)


def run_and_exit() -> NoReturn:
    sys.exit(main())
