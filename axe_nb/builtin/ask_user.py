"""ask_user: asks the person at the notebook or terminal a question for the model.

Source: O-19, D-19, D-20, D-48.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.messages import ToolParameter
from axe_nb.tools.tool import Tool, ToolContext, ToolError, text_argument

NAME = "ask_user"


async def run(ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Returns the person's answer.

    Raises ToolError if the question is empty, or no one can be prompted.
    """
    question = text_argument(arguments, "question")
    if not question.strip():
        raise ToolError("question cannot be empty")
    if ctx.ask is None:
        raise ToolError(
            f"permission denied for {NAME}: no one can be prompted here; "
            "decide yourself and state your assumptions"
        )
    answer = await ctx.ask(question)
    return answer if answer.strip() else "(The user gave no answer.)"


TOOLS = {
    NAME: Tool(
        NAME,
        "Ask the user a question and wait for the answer. Only for what you cannot find out.",
        {"question": ToolParameter("string", "The question, in one sentence", required=True)},
        run,
        "read",
        denied_below="sub-agents cannot ask questions; decide and state your assumptions",
    )
}
