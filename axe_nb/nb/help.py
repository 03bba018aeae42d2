"""The pages that `%%axe?`, `%axe?`, `%%axe_agent?` and their like show, written from the tables.

Source: product.md "Notebook"; issue "Working in the notebook".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from axe_nb.commands.grid_command import GRID
from axe_nb.commands.parser import parser
from axe_nb.commands.table import AGENT_CELL, RUN, Command, commands_of

Topic = Literal["cell", "line", "agent", "grid"]

ABOUT: Mapping[Topic, str] = {
    "cell": """\
Runs an agent; the cell's body is the prompt. Returns the RunResult.

{{ expr }} in the body is replaced by the value of a Python expression. All other text is left as
it is: single braces, dollar signs, JSON, TeX, code. \\{{ is a literal {{, and --raw turns
interpolation off. Without AGENT, the model of -m is asked alone. On the option line, IPython's own
{x} and $x work. `%config AxeMagics` sets defaults for all cells.""",
    "line": """\
Lists, shows, runs and checks agents: %axe COMMAND.""",
    "agent": """\
Defines an agent from the TOML in the cell, and shows its tools, permissions and sub-agents.

It is available in this session from then on, also as a sub-agent of others. With --save, the TOML
is also written to the agent's file, comments included, and the changes are shown. `name` may be
omitted.""",
    "grid": """\
Runs every variant of agents, models and parameters on every input. Returns the Grid.

The body is a template of the prompt: {{ name }} is a column of the inputs, else a variable. The
table says what passed, and how sure that is; each input opens its runs.""",
}

COMMANDS: Mapping[Topic, Command] = {"cell": RUN, "agent": AGENT_CELL, "grid": GRID}


def help_text(topic: Topic) -> str:
    """One page."""
    page = _format_line_page() if topic == "line" else _format_options(COMMANDS[topic])
    return f"{ABOUT[topic]}\n\n{page}"


def _format_line_page() -> str:
    uses = {command.use("line"): command.help for command in commands_of("line").values()}
    width = max(map(len, uses))
    listed = [f"  {use:<{width}}  {meaning}" for use, meaning in uses.items()]
    also = "  %%axe NAME          run an agent on the cell: see %%axe?"
    agent = "  %%axe_agent NAME    define an agent in the cell: see %%axe_agent?"
    grid = "  %%axe_grid A,B      run variants on the same inputs: see %%axe_grid?"
    return "\n".join([*listed, "", also, agent, grid])


def _format_options(command: Command) -> str:
    return parser(command, "cell").format_help().rstrip()
