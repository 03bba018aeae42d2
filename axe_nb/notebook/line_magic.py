"""The `%axe` line magic and its commands. Source: B-12, A-5.7."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from IPython.display import display

from axe_nb.agents.agent import find_agent_file, init_agent
from axe_nb.agents.files import read_real_text, reason
from axe_nb.agents.trust import check_link
from axe_nb.agents.user_config import Config, format_path_or_name, is_test, load_env
from axe_nb.api import load, replay
from axe_nb.cell_display.front_end import can_ask
from axe_nb.commands import actions
from axe_nb.commands.console import Write
from axe_nb.commands.option_table import RUN, Command, commands_of
from axe_nb.commands.parser import UsageError, advise_command, list_parser, parse, parse_run, parser
from axe_nb.errors import ConfigError
from axe_nb.expectations import check
from axe_nb.notebook.option_line import read_words
from axe_nb.notebook.run_cell import find_place, find_result, find_tree, run_cell
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.cassette import Cassette
from axe_nb.recording.modes import DEFAULT
from axe_nb.results import NO_AGENT, RunResult
from axe_nb.session.session import Spent, session
from axe_nb.session.undo import undo
from axe_nb.text import format_dollars, list_some, plural, quote
from axe_nb.views import agent_summary
from axe_nb.views.appearance import LOOKS
from axe_nb.views.request import find_request
from axe_nb.views.rows import format_cost
from axe_nb.views.run_diff import diff_runs
from axe_nb.views.table import Listing
from axe_nb.views.timeline import Timeline

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

REFUSED = "to set a refused variable, use %env NAME=VALUE, or set it before the kernel starts"

RESULT = re.compile(r"\s*(?!(?:agent|tool):\S)([^\W\d]\w*)\s*:(.*)", re.DOTALL)
"""Matches the variable in front of expectations, as in `R: turns < 3`, but not `agent:NAME` or
`tool:NAME`."""


def run_command(shell: InteractiveShell, line: str, names: Mapping[str, Any], write: Write) -> Any:
    """Runs an `%axe` command. Text goes to `write`; any other output is the magic's value."""
    verb, _, rest = line.strip().removesuffix(";").strip().partition(" ")
    if verb == "run":
        options = parse_run(read_words(RUN, "line", rest, names), "line", session.defaults, names)
        return run_cell(shell, options, lambda: Illustrated(options.prompt or ""), write)
    command = find_command(verb or "help")
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
    done = _act(shell, command.name, chosen, write)
    if isinstance(done, Listing):
        display(done)  # type: ignore[no-untyped-call]  # IPython's own gap
    elif not isinstance(done, str):
        return done
    elif done:
        write(done)
    return None


def find_command(word: str) -> Command:
    if command := commands_of("line").get(word):
        return command
    hint = advise_command("line", word, commands_of("line"))
    raise UsageError(f"unknown command {quote(word)}", hint=hint)


def _act(shell: InteractiveShell, name: str, chosen: argparse.Namespace, write: Write) -> Any:
    match name:
        case "init":
            path = format_path_or_name(init_agent(chosen.agent, chosen.agents_dir))
            return f"written to {path}; `%axe edit {chosen.agent}` opens it in a cell"
        case "edit":
            toml = _read_toml(chosen.agent, chosen.agents_dir)
            shell.set_next_input(f"%%axe_agent {chosen.agent} --save\n{toml}")
            return f"{chosen.agent} is in the next cell; run that cell to save it"
        case "tools" if chosen.agent is None:
            return agent_summary.all_tools(session.servers.list_running())
        case "tools":
            return actions.list_tools(session.find(chosen.agent, chosen.agents_dir))
        case "request":
            return find_request(*find_place(shell, chosen.place or ""))
        case "diff":
            a, b = find_tree(shell, chosen.a), find_tree(shell, chosen.b)
            return diff_runs(a, b, names=(chosen.a, chosen.b))
        case "time":
            return Timeline(find_tree(shell, chosen.run or "0"))
        case "replay":
            speed = {} if chosen.speed is None else {"speed": chosen.speed}
            is_file = set(chosen.run or "") & set("./\\")
            return replay(chosen.run if is_file else _find_run(shell, chosen.run), **speed)
        case "doctor":
            return actions.list_findings(chosen.agents_dir)
        case "expect":
            found = RESULT.match(chosen.expectations)
            variable, expectations = found.groups() if found else ("", chosen.expectations)
            result = find_result(shell, variable)
            shown, folder = variable or "axe_nb.last()", session.defaults.get("agents_dir")
            count = check(result, expectations, name=shown, agents_dir=folder)
            return f"{LOOKS['completed'].sign} {plural(count, 'expectation')} met"
        case "env" if chosen.file is None:
            return Listing(head=("provider", "variable", "state"), rows=[*list_keys()])
        case "env":
            outcomes = load_env(chosen.file)
            lines = [f"{what}: {list_some(names, 30)}" for what, names in outcomes.items()]
            lines += [REFUSED] if any(what.startswith("refused") for what in outcomes) else []
            return "\n".join(lines) or "no variables found"
        case "usage":
            return list_usage()
        case "budget":
            return _use_budget(chosen.amount)
        case "cassette":
            return _use_cassette(chosen)
        case "trust":
            actions.trust(chosen.target, chosen.agents_dir, write, _ask if can_ask() else None)
            return None
        case "undo":
            return _undo(_find_run(shell, chosen.run))
        case "reset":
            return _reset(chosen.agent)
        case "help":
            topic = chosen.topic and find_command(chosen.topic)
            page = parser(topic, "line") if topic else list_parser("line")
            return page.format_help().rstrip()
    return actions.make_output(name, chosen)


def _read_toml(name: str, agents_dir: str | None) -> str:
    """Returns an agent's TOML: as written by the user, or generated from the agent's fields."""
    if name in session.agents:
        return (session.texts.get(name) or session.agents[name].to_toml()).removesuffix("\n")
    path = find_agent_file(name, agents_dir)
    real = check_link(path)
    try:
        return read_real_text(real).replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise ConfigError(f"cannot read {format_path_or_name(path)}: {reason(error)}") from None


def list_keys() -> Iterator[tuple[str, str, str]]:
    """Yields (provider, variable, state) for API keys, and for server addresses that are set."""
    config = Config.load()
    for info in config.known.values():
        if info.has_server:
            source = config.key_source(info.name)
            state = "set" if source == info.key_variable else f"in {source}" if source else ""
            missing = "not set" if info.needs_key else "not set, not needed"
            yield info.name, info.key_variable, state or missing
            if os.environ.get(info.url_variable, "").strip():
                yield info.name, info.url_variable, "set"


def list_usage() -> str | Listing:
    """Lists the token usage and cost of this session, one row per agent and model."""
    if not session.spent:
        return "nothing has run yet"
    total = sum(session.spent.values(), Spent())
    has_cost = total.usage.priced_tokens or session.budget.unpriced
    heads = ["runs", "turns", "input", "output", *(["cost"] if has_cost else [])]
    rows: list[tuple[str, ...]] = []
    for (agent, model), spent in [*session.spent.items(), (("total", ""), total)]:
        usage = spent.usage
        counts = (spent.runs, spent.turns, usage.input_tokens, usage.output_tokens)
        numbers = (*(f"{count:,}" for count in counts), format_cost(usage) or "unknown")
        rows.append((agent or NO_AGENT, model, *numbers[: len(heads)]))
    return Listing(head=("agent", "model", *heads), rows=rows, right=len(heads))


def _use_budget(amount: float | None) -> str:
    budget = session.budget
    if amount is not None:
        budget.set(amount)
    spent = f"{format_dollars(budget.spent)} spent"
    if budget.amount:
        left = budget.amount - budget.spent
        rest = f"{format_dollars(left)} left" if left >= 0 else f"over by {format_dollars(-left)}"
        spent += f" of {format_dollars(budget.amount)}, {rest}"
    else:
        spent += "; no budget is set: %axe budget AMOUNT sets one"
    if unknown := sum(budget.unpriced.values()):
        models = list_some(list(budget.unpriced), 3)
        spent += f"\nnot counted: {plural(unknown, 'request')} of unknown price ({models})"
    return spent


def _find_run(shell: InteractiveShell, name: str | None) -> RunResult:
    """Returns a run, given a variable or an id in the history; by default, the last run."""
    if name and name.isdecimal():
        return cast(RunResult, load(name))
    return find_result(shell, name or "")


def _undo(result: RunResult) -> str:
    plan = undo(result, dry=True)
    if not (plan.restored or plan.removed or plan.conflicts):
        return plan.report
    if not can_ask():
        hint = "no one can be prompted here: result.undo() puts the files back without asking"
        return f"{plan!r}\n{hint}"
    display(plan)  # type: ignore[no-untyped-call]  # IPython's own gap
    if not (plan.restored or plan.removed):
        return "result.undo(force=True) puts these back, too; their later changes are lost"
    if _ask("Put these files back? [y]es [n]o: ").strip().lower() not in ("y", "yes"):
        return "nothing was changed"
    return undo(result).report


def _ask(question: str) -> str:
    try:
        return input(question)
    except EOFError:
        return ""


def _use_cassette(chosen: argparse.Namespace) -> str | Listing:
    path, mode = chosen.path, chosen.cassette_mode
    if path is None and mode == "live":
        session.cassette_problem = None
    if path is not None:
        if session.cassette is not None:
            session.cassette.save()  # the same file may be opened again now
        try:
            session.use_cassette(Cassette(path, mode))
        except ConfigError as error:
            raise _refuse_runs(error) from None
    used = session.open_cassette()
    if used is None and mode == "live":
        return "no cassette is in use"
    if used is None:
        raise ConfigError("no cassette is in use", hint="start one: %axe cassette PATH")
    if path is None and mode is not None:
        used.change_mode(mode)
    if chosen.prune:
        return f"{plural(used.prune(), 'record')} removed from {used.shown}"
    if not chosen.status and (path is not None or mode is not None):
        return ""
    counts = (used.hits, used.misses, used.recorded, used.unused)
    head = ("cassette", "mode", "replayed", "not found", "recorded", "not used")
    row = (used.shown, used.mode or DEFAULT, *map(str, counts))
    return Listing(text=used.format_status(), head=head, rows=[row], right=len(counts))


def _refuse_runs(error: ConfigError) -> ConfigError:
    """Makes runs fail until a cassette opens or the mode is `live`; returns the error to raise."""
    instead = "%axe cassette --mode live runs without it"
    hint = f"{error.hint}; {instead}" if error.hint else instead
    session.cassette_problem = ConfigError(error.message, hint=hint)
    return session.cassette_problem


def _reset(name: str | None) -> str:
    if name is not None and name not in session.conversations:
        session.find(name)  # rejects unknown names
    forgotten = [one for one in session.conversations if name in (None, one)]
    for one in forgotten:
        del session.conversations[one]
    return f"conversations forgotten: {', '.join(one or NO_AGENT for one in forgotten) or 'none'}"
