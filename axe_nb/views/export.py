"""Exports a finished run as HTML, Markdown or JSON lines, readable without axe_nb.

A content security policy keeps the HTML page from loading or running anything that a model or a
tool wrote. In Markdown, text from models and tools is put in code fences, so that no viewer renders
it. The titles of cited web pages are escaped instead. Source: D-59, D-60.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import date
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from axe_nb.agents.data_files import IN_PAGE, format_data, format_header
from axe_nb.agents.files import expand_home, write_whole
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.records import from_json, to_json
from axe_nb.errors import ConfigError
from axe_nb.messages import Usage
from axe_nb.results import RunResult
from axe_nb.secrets import find_filter
from axe_nb.text import clean, format_seconds, list_choices, one_line, quote
from axe_nb.views.html import write_tree
from axe_nb.views.outline import MAX_LISTED, TITLE, Outline, count_more, list_tree
from axe_nb.views.rows import format_tokens, join_facts
from axe_nb.views.timeline import Timeline
from axe_nb.views.transcript import Transcript

MAX_CHARS, MAX_ROWS, MAX_DATA = 200_000, 20_000, 20_000_000
"""Maximum length of a text, number of rows in the tree, and length of the run file in a page."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")
_TICKS = re.compile(r"`{3,}")

STATIC = Path(__file__).parent / "static"


def write_html(result: RunResult) -> str:
    """Formats a run as an HTML page that plays the timeline and contains the run as a file."""
    outline = Outline(Transcript.of(result).whole, "", max_chars=MAX_CHARS, max_rows=MAX_ROWS)
    who = result.agent or result.model
    script = (STATIC / "play.js").read_text("utf-8")
    spent = defaultdict[str, Usage](Usage)
    for run in result.walk():
        spent[run.model] += run.usage
    facts = [("agent", who), ("status", result.status)]
    models = (join_facts(name, format_tokens(usage)) for name, usage in spent.items())
    facts += [("model", "; ".join(models))]
    facts += [("in total", format_tokens(result.total_usage))] if len(spent) > 1 else []
    took = format_seconds(round(result.duration_ms / 1000, 1))
    facts += [("took", f"{took} s"), ("exported", f"{date.today():%d %B %Y}")]
    prompt = escape(clean(result.prompt[:MAX_CHARS]))
    data = (format_header("run") + format_data(to_json(result))).replace("<", r"\u003c")
    parts = {
        "DATA": data.join(IN_PAGE) if len(data) <= MAX_DATA else "",
        "TITLE": escape(one_line(f"{who}: {result.task or result.prompt}", 80)),
        "FACTS": "".join(f"<dt>{k}</dt><dd>{escape(clean(v))}</dd>" for k, v in facts if v),
        "CONTENT": f"<details><summary>prompt</summary><pre>{prompt}</pre></details>\n"
        f"{write_tree(outline)}",
        "TIMELINE": Timeline(result)._repr_mimebundle_()["text/html"],
        "SCRIPT": script,
        "HASH": b64encode(sha256(script.encode()).digest()).decode(),
    }
    page = (STATIC / "page.html").read_text("utf-8")
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], page)


def write_markdown(result: RunResult) -> str:
    """Formats a run as Markdown: prompt, answer, cited web pages, and the tree as plain text."""
    outline = Outline(Transcript.of(result).whole, "", max_chars=MAX_CHARS, max_rows=MAX_ROWS)
    answer = outline.answer().text
    lines = [f"# {_escape(one_line(result.agent or result.model, 80))}", ""]
    lines += ["## Prompt", "", *_fence(result.prompt[:MAX_CHARS]), ""]
    lines += ["## Answer", "", *(_fence(answer) if answer else ["(none)"]), ""]
    if pages := outline.sources().links:
        lines += ["## Sources", ""]
        for number, page in enumerate(pages[:MAX_LISTED], 1):
            lines.append(f"{number}. {_escape(one_line(page.title, TITLE))} <{page.url}>")
        lines += ["", count_more(pages), ""]
    lines += ["## Tree", "", *_fence("\n".join(list_tree(outline)))]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _fence(text: str) -> list[str]:
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=2))
    return [f"{ticks}text", clean(text), ticks]


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def write_json_lines(result: RunResult) -> str:
    """Formats a run as JSON lines: a header, then runs, turns and calls. New keys may be added."""
    lines = [{"kind": "axe_nb", "version": 1}, *_list_run(result)]
    # in ASCII, as some readers split lines at other characters, and some cannot decode UTF-8
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _list_run(result: RunResult) -> Iterator[Mapping[str, Any]]:
    told = result.to_dict()
    del told["children"]
    place = {"kind": "run", "place": result.id, "call": result.call_id}
    yield {**place, "prompt": result.prompt, **told}
    for turn in result.log:
        place = {"place": f"{result.id}/{turn.number}"}
        yield {
            "kind": "turn", **place, "agent": result.agent, "text": turn.text,
            "stop_reason": turn.stop_reason, "usage": asdict(turn.usage),
            "asked": "summary" if turn.closing else turn.asked,
            **({"server_calls": list(map(asdict, turn.server_calls))} if turn.server_calls else {}),
            **({"sources": list(map(asdict, turn.sources))} if turn.sources else {}),
        }  # fmt: skip
        results = {one.call_id: one for one in turn.results}
        for call in turn.calls:
            answer = results.get(call.id)
            yield {
                "kind": "call", **place, "id": call.id, "tool": call.name,
                "arguments": jsonable(call.arguments), **({"raw": call.raw} if call.raw else {}),
                "result": answer.content if answer else None,
                "is_error": bool(answer and answer.is_error),
                "is_denied": bool(answer and answer.is_denied),
                **({"is_skipped": True} if answer and answer.is_skipped else {}),
            }  # fmt: skip
            for child in result.children:
                if child.call_id == call.id:
                    yield from _list_run(child)


FORMATS: Mapping[str, Callable[[RunResult], str]] = {
    ".html": write_html,
    ".md": write_markdown,
    ".jsonl": write_json_lines,
}
"""File name suffix → function that formats a run for this suffix."""


def export(result: RunResult, path: str | os.PathLike[str]) -> Path:
    """Exports a finished run, without secrets, to a file readable without axe_nb. Returns the path.

    `.html` is a self-contained page that opens offline and plays the timeline. `.md` is Markdown
    with the tree as text. `.jsonl` has a header and one line of JSON for each run, turn and call.

    Args:
        result: the run, however it ended.
        path: the file to write; its suffix selects the format, and an existing file is replaced.

    Raises:
        ConfigError: if the suffix is unknown or the file cannot be written.
    """
    if not isinstance(result, RunResult):
        raise ConfigError(
            f"export takes a RunResult, not {type(result).__name__}",
            hint='for example axe_nb.export(axe_nb.last(), "run.html")',
        )
    target = expand_home(Path(path))
    write = FORMATS.get(target.suffix.lower())
    if write is None:
        raise ConfigError(
            f"unknown export format {quote(target.name)}",
            hint=f"the file name must end in {list_choices(tuple(FORMATS))}",
        )
    write_whole(target, write(from_json(RunResult, to_json(result, find_filter()))))
    return target
