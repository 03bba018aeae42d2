"""`%axe`: agents, tools, tokens and diagnoses, without leaving the notebook.

Source: B-12, A-5.7.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from axe_nb.agents import agent_files
from axe_nb.agents.agent import Agent
from axe_nb.agents.config import Config, format_path_or_name, load_env
from axe_nb.agents.files import read_real_text, reason
from axe_nb.agents.prompt import all_warnings
from axe_nb.agents.trust import check_link
from axe_nb.api import load
from axe_nb.cell_display.display import can_ask, describe_display
from axe_nb.commands import actions
from axe_nb.commands.doctor import Finding
from axe_nb.commands.parser import (
    UsageError,
    advise_command,
    list_parser,
    parse,
    parse_run,
    parser,
)
from axe_nb.commands.table import RUN, commands_of
from axe_nb.errors import ConfigError
from axe_nb.expectations.check import check
from axe_nb.notebook.named_run import find_place, find_result, find_tree
from axe_nb.notebook.option_line import read_words
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.modes import is_test
from axe_nb.results import NO_AGENT, RunResult
from axe_nb.session.runs import RunHandle
from axe_nb.session.session import Spent, session
from axe_nb.session.undo import undo
from axe_nb.text import align_columns, clean, format_dollars, list_some, plural, quote
from axe_nb.views import agent_summary
from axe_nb.views.appearance import LOOKS
from axe_nb.views.diffs.run_diff import RunDiff, diff_runs
from axe_nb.views.request import SentRequest, find_request
from axe_nb.views.rows import format_cost
from axe_nb.views.timeline import Timeline

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

RESULT = re.compile(r"\s*(?!(?:agent|tool):\S)([^\W\d]\w*)\s*:(.*)", re.DOTALL)
"""The variable of a result, before expectations; `agent:` and `tool:` belong to a name."""

MOST_NAMED = 30
"""Names of variables in one line."""

Action: TypeAlias = (
    "Callable[[InteractiveShell, argparse.Namespace], str | SentRequest | RunDiff | Timeline]"
)
"""(shell, what was chosen) -> the text that the cell prints, or the value of the line. Raises
ConfigError."""


def run_command(
    shell: InteractiveShell, line: str, names: Mapping[str, Any], write: Callable[[str], None]
) -> RunResult | RunHandle | SentRequest | RunDiff | Timeline | None:
    """Runs the command, passes its output to `write`, and returns the value of the line.

    Raises ConfigError: there is no such command, or it cannot be done.
    """
    verb, _, rest = line.strip().removesuffix(";").strip().partition(" ")
    if verb == "run":
        from axe_nb.notebook.run_cell import run_cell

        words = read_words(RUN, "line", rest, names)
        options = parse_run(words, "line", session.defaults, names)
        return run_cell(shell, options, lambda: Illustrated(options.prompt or ""), write)
    commands = commands_of("line")
    command = commands.get(verb or "help")
    if command is None:
        raise _explain_unknown(verb)
    if command.is_verbatim:
        [argument] = command.options
        chosen = argparse.Namespace(**{argument.keyword: rest})
    else:
        try:
            chosen = parse(command, "line", read_words(command, "line", rest, names))
        except ConfigError as error:
            if verb == "cassette" and session.cassette is None and is_test():
                _refuse_runs(error)
            raise
    if "agents_dir" in chosen:
        chosen.agents_dir = chosen.agents_dir or session.defaults.get("agents_dir")
    done = ACTIONS[command.name](shell, chosen)
    if not isinstance(done, str):
        return done
    if done:
        write(done)
    return None


def _list(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    files = agent_files.list_agents(chosen.agents_dir)
    rows = [
        (name, *_describe(agent), _find_home(name, files))
        for name, agent in actions.load_agents(chosen.agents_dir)
    ]
    if not rows:
        return "no agents found; create one with `%axe init NAME` or `%%axe_agent NAME`"
    return "\n".join(align_columns(rows))


def _describe(agent: Agent | ConfigError) -> tuple[str, str]:
    """Returns (model, description) of an agent, or its error."""
    if isinstance(agent, Agent):
        return agent.model, agent.description
    return LOOKS["error"].sign, str(agent)


def _find_home(name: str, files: Mapping[str, Path]) -> str:
    if name in session.agents:
        return "this session" + (" (overrides its file)" if name in files else "")
    return format_path_or_name(files[name].parent)


def _show(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    agent = session.find(chosen.agent, chosen.agents_dir)
    may = agent_summary.abilities(agent, lambda name: session.find(name, chosen.agents_dir))
    warnings = [f"! {warning}" for warning in all_warnings(agent)]
    return "\n".join(filter(None, [*actions.format_agent(agent), may, *warnings]))


def _init(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    path = agent_files.init(chosen.agent, chosen.agents_dir)
    return f"written to {format_path_or_name(path)}; `%axe edit {chosen.agent}` opens it in a cell"


def _edit(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    name = chosen.agent
    shell.set_next_input(f"%%axe_agent {name} --save\n{_read_toml(name, chosen.agents_dir)}")
    return f"{name} is in the next cell; run that cell to save it"


def _read_toml(name: str, agents_dir: str | None) -> str:
    """The TOML of an agent: its source, or generated for an agent made in Python.

    Raises ConfigError: there is none, or its file cannot be read.
    """
    if name in session.agents:
        return (session.texts.get(name) or session.agents[name].to_toml()).removesuffix("\n")
    path = agent_files.find_file(name, agents_dir)
    real = check_link(path)
    try:
        return read_real_text(real).replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise ConfigError(f"cannot read {format_path_or_name(path)}: {reason(error)}") from None


def _list_tools(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    if chosen.agent is None:
        return agent_summary.all_tools(session.servers.list_running())
    return actions.format_tools(session.find(chosen.agent, chosen.agents_dir))


def _expect(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    found = RESULT.match(chosen.expectations)
    name, expectations = found.groups() if found else ("", chosen.expectations)
    result = find_result(shell, name)
    count = check(
        result, expectations, name=name or "axe_nb.last()",
        agents_dir=session.defaults.get("agents_dir"),
    )  # fmt: skip
    return f"{LOOKS['completed'].sign} {plural(count, 'expectation')} met"


def _find_request(shell: InteractiveShell, chosen: argparse.Namespace) -> SentRequest:
    result, place = find_place(shell, chosen.place or "")
    return find_request(result, place, chosen.protocol)


def _compare(shell: InteractiveShell, chosen: argparse.Namespace) -> RunDiff:
    runs = (find_tree(shell, chosen.a), find_tree(shell, chosen.b))
    return diff_runs(*runs, names=(chosen.a, chosen.b))


def _show_times(shell: InteractiveShell, chosen: argparse.Namespace) -> Timeline:
    return Timeline(find_tree(shell, chosen.run or "0"))


def _read_env(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    if chosen.file is None:
        return "\n".join(align_columns(list(list_keys())))
    outcomes = load_env(chosen.file)
    lines = [f"{what}: {list_some(names, MOST_NAMED)}" for what, names in outcomes.items()]
    if any(what.startswith("refused") for what in outcomes):
        lines.append(
            "to set a refused one yourself, use %env NAME=VALUE, or set it before the kernel starts"
        )
    return "\n".join(lines) or "no variables found"


def list_keys() -> Iterator[tuple[str, str, str]]:
    """Yields provider, variable and state of each key and of each address that is set.

    Raises ConfigError: the settings are invalid.
    """
    config = Config.load()
    for info in config.known.values():
        if info.has_server:
            source = config.key_source(info.name)
            state = "set" if source == info.key_variable else f"in {source}" if source else ""
            missing = "not set" if info.needs_key else "not set, not needed"
            yield info.name, info.key_variable, state or missing
            if os.environ.get(info.url_variable, "").strip():
                yield info.name, info.url_variable, "set"


def _show_usage(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    if not session.spent:
        return "nothing has run yet"
    total = sum(session.spent.values(), Spent())
    heads = ["runs", "turns", "input", "output", *(["cost"] if total.usage.priced_tokens else [])]
    rows: list[tuple[str, ...]] = [("agent", "model", *heads)]
    for (agent, model), spent in session.spent.items():
        rows.append((agent or NO_AGENT, model, *_format_numbers(spent)[: len(heads)]))
    rows.append(("total", "", *_format_numbers(total)[: len(heads)]))
    return "\n".join(align_columns(rows, right=len(heads)))


def _format_numbers(spent: Spent) -> tuple[str, ...]:
    usage = spent.usage
    counts = (spent.runs, spent.turns, usage.input_tokens, usage.output_tokens)
    return *(f"{count:,}" for count in counts), format_cost(usage) or "unknown"


def _use_budget(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    budget = session.budget
    if chosen.amount is not None:
        budget.set(chosen.amount)
    spent = f"{format_dollars(budget.spent)} spent"
    if budget.amount:
        left = format_dollars(max(0.0, budget.amount - budget.spent))
        spent += f" of {format_dollars(budget.amount)}, {left} left"
    else:
        spent += "; no budget is set: %axe budget AMOUNT sets one"
    unknown = sum(budget.unpriced.values())
    models = list_some(list(budget.unpriced), 3)
    more = f"not counted: {plural(unknown, 'request')} of unknown price ({models})"
    return f"{spent}\n{more}" if unknown else spent


def _diagnose(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    display = Finding("note", "display", describe_display(shell))
    first, *rest = actions.diagnose(chosen.agents_dir)
    return "\n".join(map(str, [first, display, *rest]))


def _review_trust(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    lines: list[str] = []

    def ask(prompt: str) -> str:
        shown = clean("\n".join([*lines, prompt]))
        lines.clear()
        try:
            return input(shown)
        except EOFError:
            return ""

    actions.trust(chosen.target, chosen.agents_dir, lines.append, ask if can_ask() else None)
    return "\n".join(lines)


def _undo(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    name = chosen.run or ""
    result: RunResult = load(name) if name.isdecimal() else find_result(shell, name)
    plan = undo(result, dry=True)
    if not (plan.restored or plan.removed or plan.conflicts):
        return plan.report
    if not can_ask():
        hint = "no one can be prompted here: result.undo() puts the files back without a question"
        return f"{plan!r}\n{hint}"
    _display(plan)
    if (plan.restored or plan.removed) and not _is_yes("Put these files back? [y]es [n]o: "):
        return "nothing was changed"
    done = undo(result)
    if not done.conflicts:
        return done.report
    _display(undo(result, force=done.conflicts, dry=True))
    lost = f"{plural(len(done.conflicts), 'file')} changed since the run or beside it"
    if _is_yes(f"{lost}: put back too, and lose these changes? [y]es [n]o: "):
        return undo(result, force=done.conflicts).report
    return done.report


def _display(value: object) -> None:
    from IPython.display import display

    display(value)  # type: ignore[no-untyped-call]  # IPython's own gap


def _is_yes(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _show_history(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    return actions.show_history(chosen.agent, chosen.delete)


def _use_cassette(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    if chosen.off:
        session.use_cassette(None)
        return "no cassette is in use"
    if chosen.path is not None:
        if session.cassette is not None:
            session.cassette.save()  # it may be the file that is read now
        session.use_cassette(_open_cassette(chosen))
    used = session.cassette
    if used is None:
        raise ConfigError("no cassette is in use", hint="start one: %axe cassette PATH")
    if chosen.path is None and chosen.cassette_mode is not None:
        used.change_mode(chosen.cassette_mode)
    if chosen.prune:
        return f"{plural(used.prune(), 'record')} removed from {used.shown}"
    is_shown = chosen.status or (chosen.path is None and chosen.cassette_mode is None)
    return str(used.status()) if is_shown else ""


def _open_cassette(chosen: argparse.Namespace) -> Cassette:
    try:
        return Cassette(chosen.path, chosen.cassette_mode)
    except ConfigError as error:
        raise _refuse_runs(error) from None


def _refuse_runs(error: ConfigError) -> ConfigError:
    """Lets no run start until a cassette is in use, or none is wanted; returns their error."""
    instead = "%axe cassette --off runs without it"
    hint = f"{error.hint}; {instead}" if error.hint else instead
    session.cassette_problem = ConfigError(error.message, hint=hint)
    return session.cassette_problem


def _reset(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    name = chosen.agent
    if name is not None and name not in session.conversations:
        session.find(name)  # rejects unknown names
    continued = [one for one in session.conversations if name in (None, one)]
    for one in continued:
        del session.conversations[one]
    report = f"conversations forgotten: {', '.join(one or NO_AGENT for one in continued) or 'none'}"
    if not chosen.agents:
        return report
    agents = [one for one in session.agents if name in (None, one)]
    for one in agents:
        session.forget(one)
    return f"{report}\nagents forgotten: {', '.join(agents) or 'none'}"


def _show_help(shell: InteractiveShell, chosen: argparse.Namespace) -> str:
    commands, topic = commands_of("line"), chosen.topic
    if topic is None:
        return list_parser("line").format_help().rstrip()
    if topic not in commands:
        raise _explain_unknown(topic)
    return parser(commands[topic], "line").format_help().rstrip()


def _explain_unknown(word: str) -> ConfigError:
    if word in session.agents or agent_files.has_file(word, session.defaults.get("agents_dir")):
        hint = f"to run the agent, start a cell with %%axe {word} and put the prompt below it"
    else:
        hint = advise_command("line", word, commands_of("line"))
    return UsageError(f"unknown command {quote(word)}", hint=hint)


ACTIONS: Mapping[str, Action] = {
    "list": _list,
    "show": _show,
    "init": _init,
    "edit": _edit,
    "tools": _list_tools,
    "expect": _expect,
    "request": _find_request,
    "diff": _compare,
    "time": _show_times,
    "env": _read_env,
    "usage": _show_usage,
    "budget": _use_budget,
    "doctor": _diagnose,
    "history": _show_history,
    "cassette": _use_cassette,
    "trust": _review_trust,
    "undo": _undo,
    "reset": _reset,
    "help": _show_help,
}
"""Name of a command of the table → its action here; `run` is a run."""
