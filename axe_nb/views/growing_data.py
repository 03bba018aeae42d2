"""The values that are complete in JSON that is still being written. Pure.

Source: design README ("nothing jumps"); product.md "Models can do more than text".
"""

from __future__ import annotations

import json
import re
from typing import Any

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|"', re.DOTALL)

CLOSERS = {"{": "}", "[": "]"}


def read_beginning(text: str) -> Any:
    """The data of a beginning of JSON: what is open is closed, what is half a value is left out.

    Returns:
        None if nothing is complete yet, or the text is not JSON.
    """
    open_now, end, depth = list[str](), 0, 0
    is_key = False
    for match in TOKEN.finditer(text):
        token = match[0]
        if token == '"':  # of a text without its end
            break
        if token in CLOSERS:
            open_now.append(token)
            is_key = token == "{"
            continue
        if token in "]}":
            if open_now:
                open_now.pop()
        elif token in ",:":
            is_key = token == "," and open_now[-1:] == ["{"]
            continue
        elif is_key or (match.end() == len(text) and token[0] != '"'):  # a number may go on
            continue
        end, depth = match.end(), len(open_now)
        if token in "]}" and not depth:  # what may follow are the end of a fence, and words
            break
    # what was opened before `end` is still open: whatever closes moves `end`
    closers = "".join(CLOSERS[each] for each in reversed(open_now[:depth]))
    try:
        return json.loads(text[:end] + closers)
    except (ValueError, RecursionError):
        return None
