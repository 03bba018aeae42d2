"""Tables of the commands and options in all interfaces. Source: A-X2, B-9, B-12, D-10."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from axe_nb.agents.agent_tables import MODES, variable_problem
from axe_nb.messages.model_table import suggest_model, suggest_small
from axe_nb.recording.modes import MODES as CASSETTE_MODES
from axe_nb.results import Status

Face = Literal["cell", "line", "command", "python"]
"""An interface that takes options: cell magics, `%axe …`, `axe-nb …`, or Python functions."""

FACES: tuple[Face, ...] = get_args(Face)
IN_NOTEBOOKS: tuple[Face, ...] = ("cell", "line")
IN_TEXT: tuple[Face, ...] = ("cell", "line", "command")

INPUT, AGENT_AND_MODEL, LIMITS, ANSWER, STEPS, SHOWN = OPTION_GROUPS = (
    "Prompt and inputs", "Agent and model", "Limits and permissions", "Answer and checks",
    "Step by step", "Display",
)  # fmt: skip

MOST_USED = 10
"""Number of options or commands that a long help page lists first, in the order of the tables."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option or positional argument, defined once for all interfaces that offer it."""

    names: str
    """An option's flags, as in `-m --model`, or the name of a positional argument."""
    help: str
    metavar: str = ""
    """Placeholder for the value in help texts; empty if the option takes no value."""
    faces: tuple[Face, ...] = FACES
    choices: tuple[str, ...] = ()
    read: Callable[[str], Any] = str
    """Parser for the value; raises ValueError if the value is invalid."""
    repeated: bool = False
    """True for an option that takes several KEY=VALUE pairs, or an argument that takes several
    words."""
    required: bool = True
    """True for a positional argument that must be given; ignored for options."""
    value: bool = True
    """Value to use if a flag (an option without `metavar`) is given."""
    offers: Literal["", "agents", "models", "tools", "variables", "files", "commands"] = ""
    """Kind of completions for the value; if empty, the `choices` are offered. For `files`,
    IPython completes file names."""
    group: str = "Options"
    keyword: str = ""
    """Attribute of the parsed options that holds the value; by default made from `names`."""

    def __post_init__(self) -> None:
        derived = self.names.split()[-1].lstrip("-").replace("-", "_")
        object.__setattr__(self, "keyword", self.keyword or derived)

    @property
    def flags(self) -> tuple[str, ...]:
        """The short and long flags; empty for a positional argument."""
        return tuple(self.names.split()) if self.names.startswith("-") else ()

    @property
    def flag(self) -> str:
        return self.flags[-1]


PROGRAMS: Mapping[Face, str] = {"cell": "%%", "line": "%axe ", "command": "axe-nb "}
"""Prefix of usage lines, keyed by interface."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, defined once for all interfaces that offer it."""

    name: str
    help: str
    words: Mapping[Face, str]
    """Name that invokes the command, without the prefix in `PROGRAMS`; keyed by interface."""
    options: tuple[Option, ...] = ()
    """Options of all interfaces; `Option.faces` lists those that offer an option."""
    is_verbatim: bool = False
    """True if everything after the command name is a single argument, exactly as typed."""

    def program(self, face: Face) -> str:
        """Returns the command as in usage lines, such as `%axe show` or `axe-nb agents show`."""
        return f"{PROGRAMS[face]}{self.words[face]}"

    def options_of(self, face: Face) -> tuple[Option, ...]:
        return tuple(option for option in self.options if face in option.faces)


def names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if text.strip() and not all(found):
        raise ValueError
    return tuple(filter(None, found))


def seconds(text: str) -> float:
    number = float(text)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError
    return number


def dollars(text: str) -> float:
    return seconds(text.removeprefix("$"))


def budget(text: str) -> Any:
    """Parses a budget: an amount in US dollars, or limits as in `max_requests=100,max_cost=0.5`."""
    if "=" not in text:
        return dollars(text)
    words = [word.partition("=") for word in text.split(",")]
    return {key.strip(): float(number.removeprefix("$")) for key, _, number in words}


def whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError
    return int(text)


def variable(word: str) -> str:
    if not word.isidentifier() or keyword.iskeyword(word):
        raise ValueError
    return word


def parameter(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not equals or len(key.split()) != 1:
        raise ValueError
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return key.strip(), value


def prompt_variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or variable_problem(name.strip()):
        raise ValueError
    return name.strip(), value


WANTED: Mapping[Callable[[str], Any], str] = {
    names: "names without spaces, as in a,b",
    seconds: "seconds, as in 120 or 0.5",
    dollars: "US dollars, as in 0.40",
    budget: "US dollars or KEY=NUMBER, as in 0.40 or max_requests=100",
    whole: "a whole number, as in 2",
    variable: "a Python name",
    parameter: "KEY=VALUE, as in temperature=0.2",
    prompt_variable: "NAME=VALUE, as in language=French",
}
"""Maps each parser to a description of the values that it accepts, for error messages."""

AGENT = Option("agent",
               "name of the agent; without it, the prompt goes directly to the model of -m",
               "AGENT", required=False, offers="agents")  # fmt: skip

BARE_PROMPT = Option("bare_prompt", "the prompt, in quotes; same as -p", "PROMPT",
                     ("line", "command"), required=False)  # fmt: skip

AGENTS_DIR = Option("--agents-dir", "folder to search for agents before axe/agents", "D",
                    offers="files", group=AGENT_AND_MODEL)  # fmt: skip

OPTIONS: tuple[Option, ...] = (
    Option("-m --model", "model to use for this run (default: the agent's)", "P/M",
           offers="models", group=AGENT_AND_MODEL),
    Option("-p --prompt", "the prompt; piped input is appended to it", "TEXT", ("line", "command"),
           group=INPUT),
    Option("-o --out", "variable for the result", "NAME",
           IN_NOTEBOOKS, read=variable, offers="variables", group=ANSWER),
    Option("-c --continue", "continue this agent's last conversation", keyword="goes_on",
           faces=IN_NOTEBOOKS, group=INPUT),
    Option("--from",
           "fork an earlier run at a place; the body, if any, replaces the prompt (a sub-agent's "
           "task) or is added there", "R@PLACE", IN_NOTEBOOKS, keyword="fork_from",
           offers="variables", group=INPUT),
    Option("--timeout", "time limit of a whole run in seconds, 0 = no limit (default 120)", "S",
           read=seconds, group=LIMITS),
    Option("--param", "set a model parameter", "KEY=VALUE", keyword="params", repeated=True,
           read=parameter, group=AGENT_AND_MODEL),
    Option("--tools", "tools to use instead of the agent's, comma-separated", "A,B", read=names,
           offers="tools", group=AGENT_AND_MODEL),
    Option("--mode", "permission for tools that write (default: the agent's, or ask)", "MODE",
           choices=MODES, group=LIMITS),
    Option("--dry-run", "show what would be sent, without sending it", "", IN_TEXT, group=SHOWN),
    Option("--output",
           "require structured output: a file with a JSON Schema, or in a notebook a type or a "
           "dict", "FILE_OR_NAME", offers="variables", group=ANSWER),
    Option("-q --quiet", "show only the answer: no tree, no progress", "", IN_TEXT, group=SHOWN),
    Option("--json", "print one line of JSON", "", IN_TEXT, group=SHOWN),
    Option("-v --verbose", "print progress line by line", "", IN_TEXT, group=SHOWN),
    Option("-M --model-all", "model for all agents of the tree; -m takes precedence for the root",
           "P/M", offers="models", group=AGENT_AND_MODEL),
    Option("--skill", "skill file to use instead of the agent's", "F", offers="files",
           group=AGENT_AND_MODEL),
    Option("--workdir",
           "folder for files and tools (default: the agent's, or the current folder)", "D",
           offers="files", group=AGENT_AND_MODEL),
    Option("--retries",
           "retries of a request that fails temporarily, as when a server is busy, 0 = none "
           "(default: the agent's, or 2)", "N", read=whole, group=LIMITS),
    Option("--var", "set a variable of system prompts, {{ NAME }}", "NAME=VALUE", keyword="vars",
           repeated=True, read=prompt_variable, group=AGENT_AND_MODEL),
    AGENTS_DIR,
    Option("--no-stream", "show replies when they are complete, not as they arrive",
           keyword="stream", value=False, group=SHOWN),
    Option("--expect", "fail unless the run meets these expectations, separated by ;", "EXPRS",
           group=ANSWER),
    Option("--step", "pause before each request and call: you continue, edit, skip or stop",
           group=STEPS),
    Option("--break", "pause only at tool:NAME, agent:NAME or depth:N, comma-separated",
           "WHERE", keyword="break_at", read=names, group=STEPS),
    Option("--raises", "succeed only if the run ends with this status", "STATUS", IN_TEXT,
           choices=(*get_args(Status), "config", "provider"), group=ANSWER),
    Option("--full", "with --dry-run: show the exact body too, and what fills its context", "",
           IN_TEXT, group=SHOWN),
    Option("--raw", "do not interpolate {{ … }} in the prompt", "", ("cell",), group=INPUT),
    Option("--bg", "run in the background; the result is a handle, at once", "", IN_NOTEBOOKS,
           keyword="background", group=ANSWER),
)  # fmt: skip
"""All options of a run, starting with the most used."""

NAME = Option("agent", "name of the agent", "NAME", offers="agents")
ANY_NAME = Option("agent", "name of an agent", "NAME", required=False, offers="agents")
ANY_RUN = Option("run", "variable of a run, or its id in the history (default: the last run)", "R",
                 required=False, offers="variables")  # fmt: skip
NOTEBOOKS = Option("notebooks", "notebooks or folders", "NB", repeated=True)
CELL_TIMEOUT = Option("--timeout", "time limit of a cell in seconds, 0 = no limit (default 600)",
                      "S", read=seconds)  # fmt: skip

RUN = Command("run", "run an agent", {"cell": "axe", "line": "run", "command": "run"},
              (AGENT, BARE_PROMPT, *OPTIONS))  # fmt: skip

AGENT_CELL = Command("agent", "define an agent from the TOML in the cell", {"cell": "axe_agent"}, (
    NAME,
    Option("--save", "write the file and show the changes"),
    Option("--dir", "folder for the file (default: where it is now, or axe/agents)", "D",
           offers="files"),
))  # fmt: skip

OF_GRIDS: Mapping[str, Mapping[str, Any]] = {
    "out": {"help": "variable for the grid"},
    "expect": {"help": "expectations that a run must meet to pass, separated by ;"},
    "dry_run": {"help": "show how many requests it takes, without sending any"},
    "timeout": {"help": "time limit of each run in seconds, 0 = no limit (default 120)"},
    "params": {}, "tools": {}, "mode": {}, "output": {}, "model_all": {}, "skill": {},
    "workdir": {}, "retries": {}, "vars": {}, "agents_dir": {},
}  # fmt: skip
"""Keywords of the run options that a grid also accepts, starting with the most used, and the
fields that differ."""

GRID = Command("grid", "run variants of agents on the same inputs", {"cell": "axe_grid"}, (
    Option("agents", "agents, comma-separated; without any, prompts go directly to the models",
           "AGENT[,AGENT]", required=False, read=names, offers="agents"),
    Option("--inputs",
           "variable with the inputs, or a .csv or .jsonl file (default: one input, the cell)",
           "NAME_OR_FILE", offers="files", group=INPUT),
    Option("-m --models", "models to use instead of the agents' own, comma-separated",
           "P/M,P/M", read=names, offers="models", group=AGENT_AND_MODEL),
    Option("--params", "variable with a list of params, or a dict of them by label", "NAME",
           keyword="variants", read=variable, offers="variables", group=AGENT_AND_MODEL),
    Option("--repeats", "runs per square (default 1)", "N", read=whole, group=INPUT),
    Option("--score", "function (result, row) that returns a score, or True or False", "NAME",
           read=variable, offers="variables", group=ANSWER),
    Option("--judge", "agent that answers with a number and a reason", "AGENT",
           offers="agents", group=ANSWER),
    Option("--budget", "US dollars for all runs together, or KEY=NUMBER as in [limits]",
           "AMOUNT", read=budget, group=LIMITS),
    *(replace(option, **own) for word, own in OF_GRIDS.items() for option in OPTIONS
      if option.keyword == word),
    Option("--concurrency", "maximum number of runs at once (default 8)", "N", read=whole,
           group=LIMITS),
    Option("--executor",
           "variable with an executor or a cluster client, such as a Dask client (default: "
           "here)", "NAME", read=variable, offers="variables", group=LIMITS),
    Option("--resume", "file that keeps each result; with it, an interrupted grid continues",
           "PATH", offers="files", group=LIMITS),
))  # fmt: skip

COMMANDS: tuple[Command, ...] = (
    AGENT_CELL,
    GRID,
    Command("start", "write a first notebook and agent here, and open JupyterLab; needs no key",
            {"command": "start"}, (Option("--no-open", "only write the files"),)),
    Command("demo", "run an agent with three sub-agents; needs no key or network",
            {"command": "demo"}),
    RUN,
    Command("list", "list the agents", {"line": "list", "command": "agents list"}, (AGENTS_DIR,)),
    Command("show", "show an agent's settings, tools and sub-agents",
            {"line": "show", "command": "agents show"}, (NAME, AGENTS_DIR)),
    Command("init", "write a commented starter file", {"line": "init", "command": "agents init"},
            (Option("agent", "name of the new agent", "NAME"), AGENTS_DIR)),
    Command("edit", "open an agent's TOML in a new cell, or in a terminal in $EDITOR",
            {"line": "edit", "command": "agents edit"}, (NAME, AGENTS_DIR)),
    Command("request", "show the exact request at a place of a run, and what fills its context",
            {"line": "request"}, (
        Option("place",
               "turn 3 of run 0.2 is R@0.2/3; R is a variable (default: the last run and turn)",
               "R@PLACE", required=False, offers="variables"),
    )),
    Command("diff", "show how two runs differ, and where they first do", {"line": "diff"}, (
        Option("a", "variable of a run; A@0.2 is run 0.2 in its tree, 0.2 that of the last run",
               "A", offers="variables"),
        Option("b", "the run to compare it with", "B", offers="variables"),
    )),
    Command("history", "list the latest runs of all notebooks, newest first",
            {"line": "history", "command": "history"}, (
        Option("words",
               "only runs with these words in agent, model, prompt or project; the id of a run "
               "shows it, of a map or grid its runs", "WORDS", repeated=True, required=False,
               offers="agents"),
        Option("--status", "only runs with this status", "STATUS", keyword="ended",
               choices=(*get_args(Status), "running")),
        Option("--since", "only runs since a date, today or yesterday", "DATE"),
        Option("--until", "only runs until a date, that day included", "DATE"),
        Option("--delete", "delete a run, with its texts", "ID", read=whole),
    )),
    Command("cassette", "record the exchanges with models in a file, and replay them",
            {"line": "cassette"}, (
        Option("path", "the file (default: show the counts of the cassette in use)", "PATH",
               required=False, offers="files"),
        Option("--mode",
               "mode of the cassette; live does not use it (default: auto; replay if no one can be "
               "prompted)", "M", keyword="cassette_mode", choices=CASSETTE_MODES),
        Option("--status", "show what was replayed, missed, recorded and unused"),
        Option("--prune", "remove the recordings that this session has not used"),
    )),
    Command("doctor", "diagnose configuration problems",
            {"line": "doctor", "command": "doctor"}, (AGENTS_DIR,)),
    Command("check", "run notebooks without a key or network, and list the cells that differ",
            {"command": "check"}, (NOTEBOOKS, CELL_TIMEOUT)),
    Command("freeze",
            "record a notebook's exchanges with models, and verify that it is its own test",
            {"command": "freeze"}, (NOTEBOOKS, CELL_TIMEOUT)),
    Command("lesson", "write the student copy of a lesson, or mark a folder of submissions",
            {"command": "lesson"}, (
        Option("notebook", "the lesson, with its check cells", "NB"),
        Option("--to", "folder of the student copy (default: student, next to NB)", "DIR"),
        Option("--check", "run and mark the notebooks in this folder", "DIR",
               keyword="submissions"),
        Option("--timeout", "time limit of a submission in seconds, 0 = no limit (default 120)",
               "S", read=seconds),
        Option("--csv", "also write the marks to this file", "FILE"),
        Option("--no-sandbox",
               "run submissions without a sandbox, where they can do anything you can"),
    )),
    Command("tools", "list all tools, or those of an agent", {"line": "tools"},
            (ANY_NAME, AGENTS_DIR)),
    Command("expect", "check that a run met expectations, separated by ;", {"line": "expect"},
            (Option("expectations", "R is a variable (default: the last run)", "[R:] EXPRS"),),
            is_verbatim=True),
    Command("time", "show where the time of a finished run went", {"line": "time"}, (
        Option("run", "variable of a run (default: the last); R@0.2 is run 0.2 of its tree", "R",
               required=False, offers="variables"),
    )),
    Command("replay", "play a finished run again in the live tree, at its recorded speed",
            {"line": "replay"}, (
        Option("run", "variable of a run, its id in the history, or a file (default: the last run)",
               "R", required=False, offers="variables"),
        Option("--speed", "seconds of the run to play per second (default 1)", "N", read=seconds),
    )),
    Command("undo",
            "put back the files that the tools of a run changed, after showing the difference",
            {"line": "undo"}, (ANY_RUN,)),
    Command("usage", "show the tokens used in this notebook, by agent and model, and their cost",
            {"line": "usage"}),
    Command("budget",
            "show or set what this notebook may spend; you are asked before it is exceeded",
            {"line": "budget"}, (
        Option("amount", "US dollars in total, 0 = no budget (default: show the budget)",
               "AMOUNT", required=False, read=dollars),
    )),
    Command("env", "set variables from a file such as .env; without one, show which keys are set",
            {"line": "env"}, (
        Option("file", "file of NAME=VALUE lines (default: show which keys are set)", "FILE",
               required=False, offers="files"),
    )),
    Command("trust", "trust a project's folder, so that its agents run as they are written",
            {"line": "trust", "command": "trust"}, (
        Option("target", "folder of the project (default: that of the agents found here)",
               "FOLDER", required=False, offers="files"),
        AGENTS_DIR,
    )),
    Command("reset", "forget conversations, so that --continue starts a new one",
            {"line": "reset"}, (ANY_NAME,)),
    Command("config path", "show the path of the global config.toml", {"command": "config path"}),
    Command("config init", "write a commented starter config.toml", {"command": "config init"}),
    Command("version", "print the version", {"command": "version"}),
    Command("help", "list these commands, or describe one", {"line": "help"}, (
        Option("topic", "command to describe, such as request", "COMMAND", required=False,
               offers="commands"),
    )),
)  # fmt: skip


def commands_of(face: Face) -> Mapping[str, Command]:
    """Returns the commands of an interface, keyed by the name that invokes them."""
    return {command.words[face]: command for command in COMMANDS if face in command.words}


ABOUT: Mapping[str, str] = {
    "%%axe": "The cell's body is the prompt; the value is the RunResult. {{ expr }} in the body is "
    "replaced by the value of a Python expression. All other text is left as it is: single braces, "
    "dollar signs, JSON, TeX, code. \\{{ is a literal {{, and --raw turns interpolation off. "
    "Without AGENT, the prompt goes directly to the model given with -m. On the option line, "
    "IPython's own {x} and $x work. `%config AxeMagics` sets defaults for all cells.",
    "%%axe_agent": "The agent is then available in this session, also as a sub-agent of others. "
    "With --save, the TOML, comments included, is also written to the agent's file, and the "
    "changes are shown. `name` may be omitted.",
    "%%axe_grid": "The body is a template of the prompt: {{ name }} is a column of the inputs or "
    "a variable. The table shows the share of runs that passed, with its confidence interval; "
    "each square opens its runs.",
    "%axe": "List, show, run and check agents, and look into finished runs. %axe help COMMAND "
    "describes one command. Cells have pages of their own: %%axe?, %%axe_agent? and %%axe_grid?",
    "axe-nb": "Run LLM agents that delegate to other agents. axe-nb COMMAND --help describes one "
    "command. Without a key, begin with demo or start.",
    "axe-nb run": "The answer goes to stdout, everything else to stderr. Exit code: 0 completed, "
    "1 the agent failed or reached a limit, 2 invalid configuration (nothing was sent), 3 the "
    "model's server failed, its key is missing or the time limit was reached, 130 interrupted.",
    "axe-nb agents": "List, show, create and edit agents.",
    "axe-nb config": "path shows where the settings file is, init creates it.",
    "axe-nb check": "A cell differs if it fails, if its output is not the saved one, or if its "
    "saved answer no longer belongs to the agents, prompts and cassettes on disk. The exit code is "
    "then 1.",
    "axe-nb freeze": "The exchanges go to a cassette next to the notebook. Two more runs, without "
    "network, must give the same outputs; if not, the notebook is left unchanged and the exit code "
    "is 1.",
}
"""Additional paragraphs for help pages, keyed by the command as shown in usage lines."""

EXAMPLES: Mapping[str, str] = {
    "%%axe": """\
%%axe critic -o review
What is missing in {{ draft }}?

%%axe critic -c
Which of these matters most?

%%axe -m ollama/llama3.2 --param temperature=0
Name three rivers of France.""",
    "%%axe_agent": f"""\
%%axe_agent critic
model = "{suggest_model("anthropic")}"
system_prompt = "You find what is missing."

%%axe_agent reader --save
model = "ollama/llama3.2"
tools = ["file_ops_readonly"]""",
    "%%axe_grid": f"""\
%%axe_grid brief,thorough --inputs texts
Summarise: {{{{ input }}}}

%%axe_grid critic --models {suggest_model("openai")},{suggest_small()} --inputs cases.csv
What is missing in {{{{ text }}}}?

%%axe_grid critic --inputs cases.csv --budget 0.50 --dry-run
What is missing in {{{{ text }}}}?""",
    "%axe": """\
%axe init critic
%axe run critic "What is missing?"
%axe help request""",
    "%axe run": """\
%axe run critic "What is missing?" -o review
%axe run critic -p {draft}
%axe run critic "What is missing?" --dry-run""",
    "%axe expect": """\
%axe expect depth <= 2; no write_file
%axe expect review: text ~ /missing/
%axe expect turns <= 6; tokens < 5000; cost < 0.02""",
    "%axe history": """\
%axe history
%axe history critic towns --since yesterday
%axe history --status error
%axe history --delete 17""",
    "%axe cassette": """\
%axe cassette lesson.axe
%axe cassette lesson.axe --mode record
%axe cassette --status""",
    "%axe request": """\
%axe request
%axe request review@0.2/3
%axe request 0/1""",
    "axe-nb": """\
axe-nb start
axe-nb run greeter "My name is Ada."
git diff | axe-nb run critic -p "What did I miss?\"""",
    "axe-nb run": """\
axe-nb run critic "What is missing?"
git diff | axe-nb run critic -p "What did I miss?"
axe-nb run -m ollama/llama3.2 -p "Say hello.\"""",
    "axe-nb lesson": """\
axe-nb lesson lesson.ipynb
axe-nb lesson lesson.ipynb --to handout
axe-nb lesson lesson.ipynb --check submissions --csv marks.csv""",
}
"""Examples for help pages, keyed by the command as shown in usage lines.

Blank lines separate cells."""
