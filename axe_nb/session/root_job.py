"""From the request of a run to its agent and its job: names, overrides, variables of the tree.

Source: D-27.
"""

from __future__ import annotations

from dataclasses import fields, replace

from axe_nb.agents.agent import Agent, NoAgent
from axe_nb.agents.agent_files import has_file
from axe_nb.agents.prompt import find_names, set_declared
from axe_nb.engine.scope import Env
from axe_nb.errors import ConfigError
from axe_nb.messages.model_table import suggest_model
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.text import list_some, quote, suggestion
from axe_nb.tools.tool import Job, Limits

SIMPLE = [
    option.name
    for option in fields(Overrides)
    if option.name in {key.name for key in fields(Agent)} - {"params", "vars", "tools", "output"}
]
"""Options that replace the agent's key of the same name."""

ALONE = (
    "to ask the model without an agent, give the prompt as -p TEXT, as the body of a cell, "
    "or to run(None, …)"
)
"""The next step where a model was named and the agent does not exist: it may be the prompt."""


def find_agent(request: RunRequest, env: Env) -> Agent:
    """Returns the agent of a request, or its stand-in if the request names none.

    Raises:
        ConfigError: no such agent exists, its file is invalid, or neither agent nor model is named.
    """
    if isinstance(request.agent, Agent):
        return request.agent
    options, earlier = request.overrides, request.continue_from
    model = options.model or options.model_all or ""
    if request.agent is None:
        if earlier and not earlier.agent:
            model = model or earlier.model
        if not model:
            raise ConfigError(
                "neither an agent nor a model is named",
                hint=f'for example axe_nb.run(None, prompt, model="{suggest_model("anthropic")}")',
            )
        return NoAgent(name="", model=model)
    try:
        return env.agents.load(request.agent)
    except ConfigError as error:
        is_there = request.agent in env.defined or has_file(request.agent, options.agents_dir)
        if model and not is_there:
            error.hint = "; ".join(filter(None, [error.hint, ALONE]))
        raise


def check_names(request: RunRequest, agent: Agent, env: Env) -> None:
    """Rejects names in the options of a run that its tree does not have.

    Raises:
        ConfigError: names the nearest one.
    """
    _check_variables(request, env)
    if request.overrides.expect is not None:
        _check_expected(request.overrides.expect, agent, env, request.overrides.agents_dir)


def _check_variables(request: RunRequest, env: Env) -> None:
    """Rejects a variable that no agent of the tree has: a misspelt one would have no effect."""
    given = request.overrides.vars
    if not given:
        return
    root = find_agent(request, env)
    known = {*find_names(root.system_prompt), *root.vars}
    if not given.keys() <= known:
        known.update(name for agents in env.walk_below((root,)) for name in agents[0].vars)
    unknown = sorted(given.keys() - known)
    if unknown:
        listed = f"known variables: {list_some(sorted(known), 5)}"
        step = listed if known else r"use {{ name }} in the system_prompt of an agent"
        raise ConfigError(
            f"no agent in this run has the variable {quote(unknown[0])}",
            hint=suggestion(unknown[0], known) or step,
        )


def _check_expected(expectations: str, root: Agent, env: Env, agents_dir: str | None) -> None:
    """Rejects expectations that misspell an agent or a tool, before anything is sent.

    The tools of MCP servers are not known yet: a tree that has such servers is not checked.
    """
    from axe_nb.expectations.check import check_spelling

    agents = [root, *(below[0] for below in env.walk_below((root,)))]
    if not any(agent.mcp_servers for agent in agents):
        check_spelling(expectations, agents, agents_dir)


def adapt(env: Env, overrides: Overrides) -> Env:
    """The dependencies of a run with these overrides, and of its descendants."""
    as_child = env.as_child

    def adapt_child(agent: Agent) -> Agent:
        agent = _with_model(agent, overrides.model_all)
        if not overrides.vars.keys().isdisjoint(agent.vars):
            agent = replace(agent, vars=set_declared(agent, overrides.vars))
        return as_child(agent)

    return replace(
        env,
        retries=env.retries if overrides.retries is None else overrides.retries,
        tools=(*env.tools, *(t for t in overrides.tools or () if not isinstance(t, str))),
        as_child=adapt_child,
    )


def make_job(request: RunRequest, env: Env) -> tuple[Agent, Job]:
    """The agent of a requested run, with the run's overrides applied, and its job."""
    overrides, earlier = request.overrides, request.continue_from
    found = find_agent(request, env)
    agent = apply_overrides(found, overrides)
    history = earlier.messages if earlier else ()
    limits = Limits(seconds=overrides.timeout)
    job = Job(
        agent, request.prompt, request.prompt, limits, mode=overrides.mode, history=history,
        output=overrides.output, pictures=request.pictures,
    )  # fmt: skip
    return agent, job


def apply_overrides(agent: Agent, overrides: Overrides) -> Agent:
    """The agent with this run's overrides applied."""
    changes = {name: value for name in SIMPLE if (value := getattr(overrides, name)) is not None}
    if overrides.model is None:
        agent = _with_model(agent, overrides.model_all)
    if overrides.tools is not None:
        changes["tools"] = overrides.tools  # tools that are objects travel with the agent
    for table in ("params", "vars"):
        if given := getattr(overrides, table):
            changes[table] = {**getattr(agent, table), **given}
    return replace(agent, **changes) if changes else agent


def _with_model(agent: Agent, model: str | None) -> Agent:
    return agent if model is None else replace(agent, model=model)
