"""Colours of notebook cells on the site: a prompt is Markdown, an agent TOML, all else Python."""

from __future__ import annotations

from collections.abc import Iterator

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexers import MarkdownLexer, TOMLLexer
from pygments.token import Name, Whitespace, _TokenType


class CellLexer(IPython3Lexer):
    """Python as IPython has it, and our own magics, whose body is none."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """Yields position, kind and text of each token."""
        if not text.startswith("%%axe"):
            yield from super().get_tokens_unprocessed(text)
            return
        head, _, body = text.partition("\n")
        yield 0, Name.Decorator, head
        yield len(head), Whitespace, "\n"
        lexer = TOMLLexer() if head.startswith("%%axe_agent") else MarkdownLexer()
        for at, kind, token in lexer.get_tokens_unprocessed(body):
            yield len(head) + 1 + at, kind, token
