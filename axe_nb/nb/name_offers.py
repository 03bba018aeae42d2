"""Names that Tab completes: agents, models, tools, variables.

Source: product.md "Notebook" (Tab completes).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType

from IPython.core.getipython import get_ipython

from axe_nb.agents import agent_files
from axe_nb.agents.agent import Agent
from axe_nb.agents.config import Config
from axe_nb.errors import ConfigError
from axe_nb.expectations.table import MEASURES
from axe_nb.interpolation import LONGEST_EXPRESSION
from axe_nb.nb import offers
from axe_nb.provider_table import PROVIDERS
from axe_nb.results import RunResult
from axe_nb.scripting.lookup import known
from axe_nb.session.runs import RunHandle
from axe_nb.session.session import session
from axe_nb.toolbox import REGISTRY
from axe_nb.tools.output_form import may_be_output

_IN_BRACES = re.compile(r"(?<!\\)\{\{(?:(?!\}\})[^\n])*?(?P<word>[^\W\d][\w.]*)?\Z")
"""An expression whose braces are open at the end of a text."""

MOST = 200
"""Maximum number of agents whose files are read to complete models and variables."""


def _get_agents_dir() -> str | None:
    return session.defaults.get("agents_dir")


def list_agents() -> list[str]:
    """Returns the agents of this session and of files."""
    return sorted({*session.agents, *agent_files.list_agents(_get_agents_dir())})


def list_models() -> list[str]:
    """Returns the models of agents and of earlier runs, the scripts, and the providers."""
    models = {model for _, model in session.spent} | {f"script/{name}" for name in known()}
    models.update(agent.model for agent in _load_agents())
    providers: Iterable[str] = PROVIDERS
    with contextlib.suppress(ConfigError):
        providers = Config.load().known
    return sorted(models | {f"{provider}/" for provider in providers})


def list_prompt_variables() -> list[str]:
    """Returns the prompt variables of all agents, in the form of an option."""
    return sorted({f"{name}=" for agent in _load_agents() for name in agent.vars})


def _load_agents() -> Iterator[Agent]:
    """Yields the first agents whose files are valid."""
    for name in list_agents()[:MOST]:
        with contextlib.suppress(ConfigError):
            yield session.find(name, _get_agents_dir())


def list_tools() -> list[str]:
    """Returns the tools and sets of tools that any agent can name."""
    return sorted(REGISTRY.known)


def list_expectations() -> list[str]:
    """Returns the variables with results, and the words of expectations."""
    shell = get_ipython()
    names = shell.user_ns if shell else {}
    found = [
        f"{name}:" for name in list_variables() if isinstance(names[name], RunResult | RunHandle)
    ]
    words = ("not", "no", "then", "and", "parallel", "contains")
    known = {*MEASURES, *list_agents(), *list_tools(), *offers.list_names()}
    return [*found, *words, *sorted(known)]


def list_outputs(word: str = "") -> list[str]:
    """Returns the types and schemas of the user; within `list[`, the lists of them."""
    shell = get_ipython()
    names = shell.user_ns if shell else {}
    found = sorted(
        name for name, value in names.items() if not name.startswith("_") and may_be_output(value)
    )
    return [f"list[{name}]" for name in found] if word.startswith("list[") else found


def list_variables() -> list[str]:
    """Returns the user's own names that a result may replace."""
    shell = get_ipython()
    if shell is None:
        return []
    return sorted(
        name
        for name, value in shell.user_ns.items()
        if not name.startswith("_")
        and name not in shell.user_ns_hidden
        and not isinstance(value, ModuleType | type | FunctionType)
    )


def list_names_in_braces(text: str) -> tuple[str, list[str]] | None:
    """Returns the name that is being written in `{{ }}`, and the names that it may become.

    IPython reads a prompt as Python, and finds none behind the first apostrophe.

    Args:
        text: the prompt, up to the cursor.
    """
    found = _IN_BRACES.search(text, max(0, len(text) - LONGEST_EXPRESSION))
    shell = get_ipython()
    if found is None or shell is None:
        return None
    word = found["word"] or ""
    if not word:
        return word, list_variables()
    matches = shell.Completer.attr_matches if "." in word else shell.Completer.global_matches
    return word, list(matches(word))
