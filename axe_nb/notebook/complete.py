"""Tab completion behind the magics: the matcher that IPython asks.

IPython's custom matchers are used: its older hooks break words at hyphens.
"""

from __future__ import annotations

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell


@context_matcher(identifier="axe_nb", priority=1000)  # type: ignore[untyped-decorator]  # IPython's own gap
def matcher(context: CompletionContext) -> SimpleMatcherResult:
    """Completions at the cursor, if it is on the line of one of our magics or in its body."""
    if "%axe" not in context.full_text:
        return {"completions": []}
    from axe_nb.notebook.offers import list_offers

    above = context.full_text.split("\n")[: context.cursor_line]
    offered = list_offers(above, context.text_until_cursor, context.full_text)
    if offered is None:
        return {"completions": []}
    written, texts = offered
    return {
        "completions": [
            SimpleCompletion(text=text, type="option" if text.startswith("-") else "value")
            for text in texts
        ],
        "suppress": True,
        "matched_fragment": written,
    }


def install(shell: InteractiveShell) -> None:
    """Adds the matcher; twice is harmless."""
    if shell.Completer is not None and matcher not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(matcher)


def uninstall(shell: InteractiveShell) -> None:
    """Removes the matcher."""
    if shell.Completer is not None and matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)
