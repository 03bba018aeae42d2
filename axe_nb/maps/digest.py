"""A hash of all that a run is asked, by which a resume file knows it again.

It covers the agent with its options, its skill and context files, what it tells the model of its
tools, the agents below it, and the prompt. It leaves out what only bounds or shows a run
(`timeout`, `stream`, `concurrency`, budgets, expectations), and the code of tools and scripts.
Source: product.md "Exploring" (`resume=`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.toml_tables import make_table
from axe_nb.engine.plan import Plan
from axe_nb.errors import ConfigError
from axe_nb.pictures.picture import Picture
from axe_nb.session.overrides import Overrides

SIZE = 16
"""Bytes of a hash: two of a million runs agree with a chance of less than 1 in 10^26."""

MAX_AGENTS = 1000
"""Agents of a tree that are looked at."""


async def compute_digest(plan: Plan, overrides: Overrides) -> bytes:
    """Returns the hash of all that the runs of a map have in common.

    Args:
        plan: the plan of one of them.
        overrides: their options.
    """
    output = plan.output
    parts = {
        "agent": _describe(plan.agent),
        "system": plan.briefing.system,
        "pictures": [picture.digest for _, picture in plan.briefing.pictures],
        "tools": [[s.name, s.description, s.input_schema()] for s in plan.toolset.offered],
        "output": output and [output.sent, output.is_wrapped],
        "model_all": overrides.model_all,
        "vars": overrides.vars,
        "below": await _describe_below(plan),
    }
    return _hash(parts)


def compute_key(common: bytes, text: str, pictures: Sequence[Picture] = ()) -> str:
    """Returns the key of one run in a resume file.

    Args:
        common: the hash of what all runs have in common.
        text: its prompt.
        pictures: those of the prompt.
    """
    own = _hash([text, [picture.digest for picture in pictures]])
    return hashlib.blake2b(common + own, digest_size=SIZE).hexdigest()


def _describe(agent: Agent) -> Any:
    table = make_table(agent)
    return {key: table[key] for key in table.keys() - {"description", "retry", "stream"}}


async def _describe_below(plan: Plan) -> dict[str, Any]:
    """The agents that can be called below the root, as they were read when the map began."""
    env = plan.scope.env
    names, found = list(plan.agent.sub_agents), dict[str, Any]()
    while names and len(found) < MAX_AGENTS:
        name = names.pop()
        if name in found:
            continue
        try:
            agent = env.as_child(env.agents.load(name))
            briefing = await env.agents.brief(agent)
        except ConfigError as error:
            found[name] = str(error)
            continue
        pictures = [picture.digest for _, picture in briefing.pictures]
        found[name] = [_describe(agent), briefing.system, pictures]
        names += agent.sub_agents
    return found


def _hash(parts: Any) -> bytes:
    text = json.dumps(jsonable(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=SIZE).digest()
