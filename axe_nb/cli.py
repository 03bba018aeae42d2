"""The command `axe-nb`: a thin face of the same library, with the same options.

Source: product.md "Command line"; seed 000 §5.7, §8 (A-5.7, A-X*); B-8..B-12, D-22, D-38.
"""

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
from axe_nb.agents import agent_files, config
from axe_nb.agents.agent import Agent
from axe_nb.agents.files import reason, write_new
from axe_nb.engine.permissions import Answer, Question
from axe_nb.errors import AxeError, ConfigError
from axe_nb.session import options
from axe_nb.session.desk import Desk, by_input
from axe_nb.text import clean, quote

MAX_STDIN = 8 * 1024 * 1024
"""Bytes of a piped prompt; no model takes as much."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command line; the exit code (seed 000 §8)."""
    _write_utf8()
    try:
        return _code(words)
    except BrokenPipeError:
        _close_stdout()
        return 1
    except OSError as error:  # a full disk, a folder that is gone
        _close_stdout()
        _note(f"error: {reason(error)}")
        return 1


def _code(words: Sequence[str] | None) -> int:
    try:
        chosen = _parser().parse_args(words)
        act: Callable[[argparse.Namespace], int] = chosen.act
        return act(chosen)
    except AxeError as error:
        _note("\n".join([f"error: {error}", *error.lines()[1:]]))
        return error.exit_code
    except KeyboardInterrupt:
        _note("interrupted")
        return 130


def _parser() -> argparse.ArgumentParser:
    made = options.Parser(prog="axe-nb", description="Runs LLM agents that delegate.")
    commands = made.add_subparsers(metavar="COMMAND", required=True, dest="command")

    run = commands.add_parser(
        "run", help="run an agent", parents=[options.parser("command")], allow_abbrev=False
    )
    run.set_defaults(act=_run)

    group = commands.add_parser("agents", help="list, show, init, edit agent files")
    verbs = group.add_subparsers(metavar="VERB", required=True, dest="verb")
    for verb, act, about in (
        ("list", _list, "the agents that can be found"),
        ("show", _show, "what an agent's file says"),
        ("init", _init, "write a commented first file"),
        ("edit", _edit, "open the file in $EDITOR"),
    ):
        sub = verbs.add_parser(verb, help=about)
        if verb != "list":
            sub.add_argument("name", metavar="NAME")
        sub.add_argument("--agents-dir", metavar="D", help="folder to look agents up in first")
        sub.set_defaults(act=act)

    group = commands.add_parser("config", help="the global config.toml")
    verbs = group.add_subparsers(metavar="VERB", required=True, dest="verb")
    verbs.add_parser("path", help="where it is").set_defaults(act=_config_path)
    verbs.add_parser("init", help="write a commented first one").set_defaults(act=_config_init)

    doctor = commands.add_parser("doctor", help="what is in the way here, and the next step")
    doctor.add_argument("--agents-dir", metavar="D", help="folder to look agents up in first")
    doctor.set_defaults(act=_doctor)
    demo = commands.add_parser("demo", help="a lead and three sub-agents; no key, no network")
    demo.set_defaults(act=_demo)
    version = commands.add_parser("version", help="the version")
    version.set_defaults(act=_version)
    return made


def _run(chosen: argparse.Namespace) -> int:
    from axe_nb.console import StatusLine, run_in_text, show_dry_run
    from axe_nb.doctor.advice import with_next_step

    asked = options.from_namespace(chosen)
    piped = "" if sys.stdin is None or sys.stdin.isatty() or asked.prompt else _stdin()
    prompt = asked.prompt or piped
    if asked.dry_run:
        show_dry_run(asked, prompt, _write)
        return 0
    status = StatusLine(None if asked.quiet else sys.stderr)
    result = run_in_text(
        asked, prompt, _write, _note,
        piped=bool(piped), status=status, desk=_desk(status.clear),
    )  # fmt: skip
    with_next_step(result).raise_for_status()
    return 0


def _desk(before: Callable[[], None]) -> Desk | None:
    """Where a run can ask the person; None where nobody sits at the terminal.

    Args:
        before: is called before each question.
    """
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: Question) -> Answer:
        before()
        with contextlib.redirect_stdout(sys.stderr):  # stdout carries the answer only
            return by_input(question)

    return Desk(ask)


def _list(chosen: argparse.Namespace) -> int:
    found = agent_files.list_agents(chosen.agents_dir)
    if not found:
        _note("no agents found; `axe-nb agents init NAME` writes a first one")
    width = max(map(len, found), default=0)
    for name in found:
        try:
            about = Agent.load(name, chosen.agents_dir).description
        except ConfigError as error:
            about = f"({error})"
        _write(f"{name.ljust(width)}  {about}".rstrip())
    return 0


def _show(chosen: argparse.Namespace) -> int:
    from axe_nb.views import card

    agent = Agent.load(chosen.name, chosen.agents_dir)
    for label, value in card.rows(agent):
        _write(card.line(label, value))
    for warning in agent.warnings:
        _note(f"warning: {warning}")
    return 0


def _init(chosen: argparse.Namespace) -> int:
    _write(str(agent_files.init(chosen.name, chosen.agents_dir)))
    return 0


def _edit(chosen: argparse.Namespace) -> int:
    found = agent_files.find_file(chosen.name, chosen.agents_dir)
    editor = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if not editor:
        raise ConfigError(f"no editor is set for {found}", hint="set EDITOR, as in EDITOR=nano")
    try:
        code = subprocess.call([*shlex.split(editor, posix=os.name != "nt"), str(found)])
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot start the editor {quote(editor)}: {error}", hint="set EDITOR, as in nano"
        ) from None
    if code:
        raise ConfigError(f"the editor {quote(editor)} ended with {code}", exit_code=1)
    return 0


def _config_path(chosen: argparse.Namespace) -> int:
    _write(str(config.config_path()))
    return 0


def _config_init(chosen: argparse.Namespace) -> int:
    path = config.config_path()
    write_new(path, config.SCAFFOLD, mode=0o600)
    _write(str(path))
    return 0


def _doctor(chosen: argparse.Namespace) -> int:
    from axe_nb.doctor.doctor import examine
    from axe_nb.session.portal import waited

    found = waited(examine(chosen.agents_dir, {}, lambda name: Agent.load(name, chosen.agents_dir)))
    for finding in found:
        _write(str(finding))
    return 1 if any(finding.state == "wrong" for finding in found) else 0


def _demo(chosen: argparse.Namespace) -> int:
    from axe_nb.demo import show

    show(_write, sys.stderr)
    return 0


def _version(chosen: argparse.Namespace) -> int:
    _write(f"axe-nb {axe_nb.__version__}")
    return 0


def _stdin() -> str:
    data = sys.stdin.buffer.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise ConfigError(f"the piped prompt is larger than {MAX_STDIN} bytes", hint="shorten it")
    return data.decode("utf-8-sig", errors="replace")


def _write(text: str) -> None:
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    print(clean(text) if on_terminal else text, flush=True)


def _note(text: str) -> None:
    print(clean(text), file=sys.stderr, flush=True)


def _write_utf8() -> None:
    """Answers hold any character, whatever the terminal's code page."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="replace")


def _close_stdout() -> None:
    """Lets what is still to be flushed at exit go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_and_exit() -> NoReturn:
    """The console script."""
    sys.exit(main())
