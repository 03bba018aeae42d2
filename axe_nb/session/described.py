"""The agents of a tree as its result keeps them, for later forks.

Source: D-53, D-66.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from axe_nb.agents.agent import Agent
from axe_nb.agents.definitions import Definition, Definitions
from axe_nb.commands.overrides import Overrides
from axe_nb.engine.scope import AgentSource
from axe_nb.session.snapshot import Snapshot
from axe_nb.tools.output_form import Output, make_output

OUTPUT = "output"
"""Key of `Definitions.memory`: the form of the answer, with the type that it becomes."""


def find_output(kept: Definitions | None) -> Output | None:
    """Returns the form of the answer that agents were kept with; None = it was text."""
    if kept is None:
        return None
    found: Output | None = kept.memory.get(OUTPUT)
    if found is None and kept.output is not None:
        return make_output(kept.output)
    return found


def describe_agents(
    snapshot: Snapshot, options: Overrides, forked: Definitions | None
) -> AgentSource:
    """The agents of a snapshot, as a source that can describe them for later forks.

    Args:
        snapshot: the snapshot.
        options: those of the root.
        forked: the agents of the run that is forked; None = the run is not a fork.
    """
    output = options.output or find_output(forked)

    def describe(root: Agent, changed: Mapping[str, Agent]) -> Definitions:
        def define(agent: Agent) -> Definition:
            return Definition.of(agent, snapshot.find_context(agent))

        made = Definitions(
            root=define(root),
            agents={name: define(agent) for name, agent in snapshot.list_loaded().items()},
            changed={id: define(one) for id, one in changed.items()},
            model_all=options.model_all or (forked.model_all if forked else ""),
            vars={**(forked.vars if forked else {}), **options.vars},
            output=output.sent if output else None,
        )
        made.memory[OUTPUT] = output
        return made

    return replace(snapshot.source, describe=describe)
