"""The next step after a rejected model name: the models that its server has.

Requested once, by the interface that shows the error; a run never does.
Source: issue "Working in the notebook" (hints with errors).
"""

from __future__ import annotations

from axe_nb.agents.config import Config
from axe_nb.agents.names import parse_model
from axe_nb.errors import AxeError, ConfigError, ProviderError
from axe_nb.make_provider import server
from axe_nb.providers.listing import advice, has, models
from axe_nb.results import RunResult
from axe_nb.session.portal import run_and_wait


def with_next_step(result: RunResult) -> RunResult:
    """Returns the result; if the model was not found, the hint of its error names others."""
    error = result.cause
    provider, model = parse_model(result.model)
    if not (isinstance(error, ProviderError) and error.status == 404):
        return result
    error.hint = run_and_wait(_find_hint(provider, model)) or error.hint
    return result


async def _find_hint(provider: str, model: str) -> str:
    """Finds a hint; empty if the server has the model after all, or is of no help."""
    try:
        config = Config.load()
        info = config.provider(provider)
    except ConfigError:
        return ""
    if not info.has_server:
        return ""
    try:
        names = await models(server(provider, config))
    except AxeError:
        names = ()
    return "" if has(model, names) else advice(info, model, names)
