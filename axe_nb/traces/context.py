"""The decision to trace a run, made where it is started.

Source: issue 12 "Traces"; library-facts "OpenTelemetry".
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from axe_nb.events import Emit, Event

if TYPE_CHECKING:
    from opentelemetry.context import Context


def find_context() -> Context | None:
    """The context in which the caller's run is to be traced; None = tracing is not set up.

    The package is never imported here: a program that traces has imported it.
    """
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import context

    return context.get_current()


def with_spans(emit: Emit, context: Context | None) -> Emit:
    """Returns a function that passes events on, and records spans if there is a context."""
    if context is None:
        return emit
    from axe_nb.traces.spans import Spans

    spans = Spans(context)

    def pass_on(event: Event) -> None:
        spans.event(event)
        emit(event)

    return pass_on
