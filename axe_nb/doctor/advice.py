"""The next step after a refused model name: which names its server knows.

Only the faces that show an error ask for this, once; a run never does.
Source: issue "Working in the notebook" (hints with errors).
"""

from __future__ import annotations

from axe_nb.agents.config import Config
from axe_nb.agents.names import parse_model
from axe_nb.connections import server
from axe_nb.errors import AxeError, ConfigError, ProviderError
from axe_nb.events import RunResult
from axe_nb.providers.listing import advice, has, models
from axe_nb.session.portal import run_and_wait


def with_next_step(result: RunResult) -> RunResult:
    """The result; the hint of its error names models where the one asked for is not there."""
    error = result.cause
    provider, model = parse_model(result.model)
    if not (isinstance(error, ProviderError) and error.status == 404):
        return result
    error.hint = run_and_wait(_hint(provider, model)) or error.hint
    return result


async def _hint(provider: str, model: str) -> str:
    """Empty where the server has the model after all, or says nothing of use."""
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
