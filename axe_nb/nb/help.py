"""The pages that `%%axe?`, `%axe?`, `%%axe_agent?` and `%axe help` show, written from the tables.

Source: product.md "Notebook"; issue "Working in the notebook".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from axe_nb.commands.parser import parser
from axe_nb.commands.table import AGENT_CELL, RUN, Command, commands_of

Topic = Literal["cell", "line", "agent"]

ABOUT: Mapping[Topic, str] = {
    "cell": """\
Runs an agent; the cell's body is the prompt. Returns the RunResult.

{{ expr }} in the body is replaced by the value of a Python expression. Every other brace, dollar
sign, JSON, TeX or code stays as it is; \\{{ is a literal {{, and --raw leaves all as it is. On the
option line IPython's own {x} and $x work. `%config AxeMagics` sets what holds where a cell says
nothing.""",
    "line": """\
What belongs to working with agents: %axe COMMAND.""",
    "agent": """\
Makes an agent of the TOML in the cell, and shows what it may do and whom it may call.

It is known in this session from then on, also to other agents. With --save it is written to its
file too, with your comments, and the difference is shown. `name` may be left out.""",
}


def help_text(topic: Topic) -> str:
    """One page."""
    page = _line() if topic == "line" else _page(RUN if topic == "cell" else AGENT_CELL)
    return f"{ABOUT[topic]}\n\n{page}"


def _line() -> str:
    uses = {command.use("line"): command.help for command in commands_of("line").values()}
    width = max(map(len, uses))
    listed = [f"  {use:<{width}}  {meaning}" for use, meaning in uses.items()]
    also = "  %%axe NAME          run an agent on the cell: see %%axe?"
    agent = "  %%axe_agent NAME    define an agent in the cell: see %%axe_agent?"
    return "\n".join([*listed, "", also, agent])


def _page(command: Command) -> str:
    return parser(command, "cell").format_help().rstrip()
