"""The links between a run and its model, and between a call and its tool, as each run needs them.

A run that forks nothing, has no cassette and is not stepped through has none of `interceptors.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from axe_nb.agents.names import parse_model
from axe_nb.engine.attempts import Attempts, Send
from axe_nb.engine.dispatch import Dispatch
from axe_nb.engine.partial_reply import Partial
from axe_nb.engine.plan import Plan
from axe_nb.engine.retries import Retries
from axe_nb.results import RunResult


def connect_model(plan: Plan, partial: Partial) -> Send:
    """Makes the links to the model of a run, and returns the first."""
    scope, env, provider = plan.scope, plan.scope.env, plan.provider
    find_virtual = getattr(provider, "is_virtual", None)
    is_virtual = bool(find_virtual and find_virtual(parse_model(scope.agent.model)[1]))
    attempts = Attempts(scope, provider, partial, keeps_replies=env.cassette is not None)
    send: Send = Retries(scope, is_virtual, attempts.send).send
    if env.cassette or env.stepper or env.fork:
        from axe_nb.engine.interceptors import CassetteReplay, ForkReplay, Steps

        if env.cassette:
            send = CassetteReplay(scope, env.cassette, attempts, is_virtual, send).send
        if env.stepper:
            send = Steps(scope, env.stepper, provider.name, partial, send).send
        if env.fork:
            send = ForkReplay(scope, env.fork, env.cassette, partial, send).send
    return send


def connect_calls(calls: Dispatch, adopt: Callable[[RunResult], None]) -> None:
    """Adds the links of calls that the run needs and most runs do without.

    `adopt` takes over a finished child run.
    """
    scope, env = calls.scope, calls.scope.env
    if env.cassette or env.stepper or env.fork:
        from axe_nb.engine.interceptors import CassetteCalls, ForkCalls, StepCalls

        if env.cassette:
            calls.authorizer.next = CassetteCalls(scope, env.cassette, calls.run_tool).run
        if env.stepper:
            calls.answer = StepCalls(scope, env.stepper, calls.authorizer.run).run
        if env.fork:
            calls.make = ForkCalls(calls, env.fork, adopt, calls.run).run
