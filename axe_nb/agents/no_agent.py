"""A model that is asked without an agent: no system prompt, no tools, no files.

Source: product.md "Notebook" (AGENT may be left out where -m names a model).
"""

from __future__ import annotations

from typing import ClassVar

from axe_nb.agents.agent import Agent


class NoAgent(Agent):
    """Stands for the agent of a run without one; its name is empty."""

    required: ClassVar[tuple[str, ...]] = ("model",)
