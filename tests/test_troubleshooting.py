"""The messages of docs/troubleshooting.md are those of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module, with `…` in the place of what an f-string fills in."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)):
                yield text
            case ast.JoinedStr(values):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…" for part in values
                )


def test_every_message_of_the_page_is_one_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 20
    found = "\n".join(
        text
        for file in (ROOT / "axe_nb").rglob("*.py")
        for text in texts(ast.parse(file.read_text("utf-8")))
    )
    shown = {message: message.removesuffix(" …") for message in messages}
    missing = [
        message
        for message, text in shown.items()
        if not re.search(re.escape(text).replace("…", "[^\n]+"), found)
    ]
    assert missing == []
