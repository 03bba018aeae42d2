"""The chains of one run: what stands before its model, and before its tools.

A run that forks nothing, has no cassette and is not stepped through has no such links.
"""

from __future__ import annotations

from axe_nb.agents.names import parse_model
from axe_nb.engine.arrival import Partial
from axe_nb.engine.call import CallLink
from axe_nb.engine.call_links import Authorised, RunCalls, Told, ToolRun, TopLink
from axe_nb.engine.links import Arrival, Exchanges, Link, Slots
from axe_nb.engine.money import Money
from axe_nb.engine.plan import Plan
from axe_nb.engine.replays import CassetteCalls, CassetteReplay, ForkCalls, ForkReplay
from axe_nb.engine.retries import Retries
from axe_nb.engine.stepping import StepCalls, Steps
from axe_nb.events import discard


def connect_model(plan: Plan) -> Arrival:
    """Returns the links to the model of a run."""
    scope, env, provider = plan.scope, plan.scope.env, plan.provider
    find_virtual = getattr(provider, "is_virtual", None)
    is_virtual = bool(find_virtual and find_virtual(parse_model(scope.agent.model)[1]))
    emit = env.emit if plan.streams else discard
    partial = Partial(scope.id, emit, is_streamed=plan.is_streamed)
    exchanges = Exchanges(scope, provider, partial, keeps_replies=env.cassette is not None)
    paid = Money(scope, partial, provider.name == "script", exchanges)
    link: Link = Retries(scope, is_virtual, Slots(scope, paid))
    if env.cassette is not None:
        link = CassetteReplay(scope, env.cassette, exchanges, is_virtual, link)
    if env.stepper is not None:
        link = Steps(scope, env.stepper, provider.name, partial, link)
    if env.fork is not None:
        link = ForkReplay(scope, env.fork, env.cassette, partial, link)
    return Arrival(scope, partial, link)


def connect_calls(made: RunCalls) -> TopLink:
    """Returns the links to the tools of a run."""
    scope, env = made.scope, made.scope.env
    link: CallLink = ToolRun(made)
    if env.cassette is not None:
        link = CassetteCalls(scope, env.cassette, link)
    link = Authorised(made, link)
    if env.stepper is not None:
        link = StepCalls(scope, env.stepper, link)
    top: TopLink = Told(made, link)
    return top if env.fork is None else ForkCalls(made, env.fork, top)
