"""The contenders and the tasks of the comparison: which package, which versions, which rows."""

from __future__ import annotations

from dataclasses import dataclass

AGENT_TASKS = ("chain", "fan_out_10", "fan_out_100", "many", "go_on_10", "go_on_1000")
MODEL_SECONDS = 0.05


@dataclass(frozen=True)
class Contender:
    """A library, and the module `with_NAME.py` that runs the tasks with it."""

    name: str
    """As users know it."""
    packages: tuple[str, ...]
    """What pip installs; exact versions, so that the same figures can be measured again."""
    first_line: str
    """The import of its first example."""
    tasks: tuple[str, ...] = AGENT_TASKS
    is_parallel: bool = True
    """It makes the calls of one reply at the same time."""

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")


CONTENDERS = (
    Contender("axe_nb", ("-e", "."), "import axe_nb"),
    Contender("httpx", ("httpx==0.28.1",), "import httpx"),
    Contender(
        "pydantic-ai", ("pydantic-ai-slim[openai]==2.68.0",), "from pydantic_ai import Agent"
    ),
    Contender("openai-agents", ("openai-agents==0.24.0",), "from agents import Agent, Runner"),
    Contender(
        "langgraph",
        ("langgraph==1.2.24", "langchain==1.5.2", "langchain-openai==1.7.4"),
        "from langchain.agents import create_agent",
    ),
    Contender(
        "inspect_ai", ("inspect-ai==0.3.285", "openai==3.57.0"), "from inspect_ai import Task, eval"
    ),
    Contender("chatlas", ("chatlas==0.23.0",), "from chatlas import ChatOpenAI", is_parallel=False),
    Contender(
        "claudette",
        # the newest SDK has no `temperature`, which claudette 0.3.15 passes
        ("claudette==0.3.15", "anthropic==0.125.0"),
        "from claudette import Chat",
        is_parallel=False,
    ),
    Contender(
        "jupyter-ai",
        ("jupyter-ai[magics]==3.2.0",),
        # what %load_ext imports, without the table of prices that litellm would fetch
        "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; "
        "import jupyter_ai_magic_commands.magics",
        tasks=(),
    ),
)


@dataclass(frozen=True)
class Task:
    """A row of the tables that warm processes run in turns."""

    name: str
    function: str
    """The function of `with_NAME.py`."""
    arguments: tuple[float, ...]
    requests: int
    """That it takes; a contender that sends others does something else."""
    rounds: int
    """At most; fewer if `seconds` are over, but never fewer than three."""
    seconds: float
    """For all contenders together."""


CHAIN = 50
MANY, AT_ONCE = 200, 50

TASKS = (
    Task("chain", "chain", (CHAIN,), CHAIN, 12, 25),
    Task("fan_out_10", "fan_out", (10, MODEL_SECONDS), 12, 12, 12),
    Task("fan_out_100", "fan_out", (100, MODEL_SECONDS), 102, 8, 30),
    Task("many", "many", (MANY, AT_ONCE, MODEL_SECONDS), MANY, 8, 25),
    Task("go_on_10", "go_on", (10,), 1, 12, 5),
    Task("go_on_1000", "go_on", (1000,), 1, 8, 10),
)
COLD = 1000
"""Children of the fan-out that each process makes once."""
