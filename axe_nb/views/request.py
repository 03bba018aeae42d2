"""Shows one request of a run: its exact body, its changes, and what fills the context.

A request is displayed without secrets, as plain text or as HTML without scripts. The tokens of each
source, such as the tool results, are estimated as UTF-8 bytes / 4. If the response reports the
number of input tokens, the estimates are scaled to add up to it. Source: D-18, D-59, D-60, D-62.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from axe_nb.agents.provider_table import PROTOCOLS
from axe_nb.conversion.jsonable import change_texts
from axe_nb.engine.loop import Run
from axe_nb.engine.person import OF_SCRIPTS
from axe_nb.engine.plan import Plan
from axe_nb.errors import ConfigError
from axe_nb.messages import Message, Request, dump
from axe_nb.recording.find_exchange import count_earlier, find_exchange
from axe_nb.recording.same_request import Description, list_changes
from axe_nb.results import RunResult, name_run
from axe_nb.secrets import find_filter, redact
from axe_nb.text import (
    clean,
    count_bytes,
    cut_chars,
    hide_in_tab,
    list_some,
    one_line,
    plural,
    quote,
)
from axe_nb.views.appearance import GAP, HUES, LINE_HEIGHT, MUTED, SWATCH, TEXT, TEXT_MARGIN, TRACK
from axe_nb.views.html import PLAIN, hide
from axe_nb.views.rows import join_facts

SOURCES = ("system prompt", "skill", "files", "tool schemas", "history", "prompt", "results")
"""All sources of the text in a request. `prompt` is the run's prompt and any closing questions,
`results` are tool results, and `history` is the rest of the conversation, including tool calls."""

BYTES = 4
"""Assumed average number of UTF-8 bytes per token."""

MAX_TEXT, MAX_BODY, MAX_CHANGES = 1_000, 20_000, 30
"""Maximum number of characters shown for one text in a body and for the whole body, and maximum
number of changes listed."""

COLOURS: Mapping[str, str] = dict(zip(SOURCES, HUES, strict=True))

_PICTURE = re.compile(
    r"(?:data:[\w/.+-]{1,40};base64,)?(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|JVBERi)"
    r"(?=[A-Za-z0-9+/]{16,}={0,2}\Z)"
)
"""Matches the start of a PNG, JPEG, GIF, WebP or PDF in base64."""

MAX_SHOWN = 60
"""Maximum length, in characters, of a text quoted in the list of changes."""


class ContextTokens(dict[str, int]):
    """Number of tokens in a request by source; 0 for a source without text."""

    def __init__(self, tokens: Mapping[str, int], is_estimate: bool) -> None:
        super().__init__(tokens)
        self.is_estimate = is_estimate
        """True if the total is an estimate, because the model's server did not report it."""

    @property
    def total(self) -> int:
        return sum(self.values())

    @property
    def size(self) -> str:
        """The total as text, such as `1,204 tokens`, or `about 1,204 tokens` if estimated."""
        return f"{'about ' if self.is_estimate else ''}{plural(self.total, 'token')}"

    def list_shares(self) -> Iterator[tuple[str, int, str]]:
        """Yields (source, tokens, share of the total) for each source that has tokens."""
        for source, count in self.items():
            if count:
                share = f"{count / self.total:.0%}" if 100 * count >= self.total else "<1%"
                yield source, count, share

    def __repr__(self) -> str:
        shares = ", ".join(f"{source} {count:,}" for source, count in self.items() if count)
        return f"ContextTokens({self.size}: {shares})"


def _count_context(
    request: Request,
    body: Mapping[str, Any],
    encode: Callable[[Message], Iterable[Mapping[str, Any]]],
    first: int,
    reported: int,
) -> ContextTokens:
    """Estimates a request's tokens by source.

    `first` is the index of the run's own prompt in the messages. The result adds up to `reported`,
    the number of input tokens in the response, unless it is 0 (unknown).
    """
    whole = len(request.system)
    end_of_prompt, end_of_skill = (*request.system_ends, whole, whole)[:2]
    size = dict.fromkeys(SOURCES, 0)
    size["system prompt"] = count_bytes(request.system[:end_of_prompt])
    size["skill"] = count_bytes(request.system[end_of_prompt:end_of_skill])
    size["files"] = count_bytes(request.system[end_of_skill:])
    size["tool schemas"] = len(dump(body["tools"])) if body.get("tools") else 0
    for number, message in enumerate(request.messages):
        # pictures count as the bytes of text that have as many tokens
        pictures = sum(BYTES * picture.tokens for picture in message.all_pictures())
        if message.tool_results:
            texts = sum(count_bytes(result.content) for result in message.tool_results)
            size["results"] += texts + pictures
        elif message.role == "user":
            kind = "prompt" if number >= first else "history"
            size[kind] += count_bytes(message.content) + pictures
        else:
            size["history"] += sum(map(_count_texts, encode(message)))
    if not reported:
        return ContextTokens({source: -(-n // BYTES) for source, n in size.items()}, True)
    if not any(size.values()):
        size["prompt"] = 1
    whole = sum(size.values())
    shares = {source: reported * n // whole for source, n in size.items()}
    by_rest = sorted(size, key=lambda source: -(reported * size[source] % whole))
    for source in by_rest[: reported - sum(shares.values())]:
        shares[source] += 1  # so that the parts add up
    return ContextTokens(shares, False)


def _count_texts(value: Any) -> int:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return sum(map(_count_texts, value))
    return count_bytes(value if isinstance(value, str) else dump(value).decode())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SentRequest:
    """A request to a model. `body` and `raw` may contain secrets; `format()` never does."""

    place: str
    """Place in the run tree, such as `0.2/3` for the third turn of run `0.2`."""
    attempt: int = 1
    """Number of the attempt, starting at 1. Results contain only each turn's last attempt."""
    agent: str
    model: str
    """The model, as provider/model."""
    protocol: str
    """Protocol in which the body is encoded, such as `anthropic`."""
    note: str = ""
    """Reason why this exact body was not sent; empty if it was sent."""
    raw: bytes = field(repr=False)
    """The exact bytes of the body."""
    changed: tuple[str, ...]
    """Descriptions of what is new since the previous turn, without secrets."""
    context: ContextTokens
    """Tokens by source, and their `total`."""

    __dir__ = hide_in_tab("attempt", "format", "note", "raw")

    @property
    def body(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.raw)
        return decoded

    def __repr__(self) -> str:
        who = one_line(redact(name_run(self.agent, self.model)), 80)
        return f"SentRequest({who}, {self.place}, {self.protocol}, {self.context.size})"

    def __str__(self) -> str:
        return self.format()

    def format(self, *, whole: bool = False) -> str:
        """Formats the request as text, without secrets. Long bodies are cut if `whole` is false."""
        bars = (
            f"{source:<13}  {count:>9,}  {share:>4}  "
            + ("█" * round(30 * count / self.context.total) or "▏")
            for source, count, share in self.context.list_shares()
        )
        changes = [f"+ {change}" for change in self._list_changes()]
        head = join_facts(self.agent, self._facts)
        parts = [head, *bars, "", f"{self._news}:", *changes, "", f"{self._title}:"]
        return clean(find_filter().text("\n".join([*parts, *self._format_body(whole)])))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        changes = "".join(f"<div>+ {hide(change)}</div>" for change in self._list_changes())
        body = hide("\n".join(self._format_body()))
        stops, names, end = "", "", 0
        for source, count, share in self.context.list_shares():
            end += count
            stops += f"{COLOURS[source]} 0 {round(100 * end / self.context.total)}%,"
            names += (
                f"<span style=white-space:nowrap;margin-right:{GAP}>"
                f"<b style=color:{COLOURS[source]}>{SWATCH}</b> {source} {count:,} "
                f"<small style=opacity:{MUTED}>{hide(share)}</small></span> "
            )
        paint = f"background:linear-gradient(90deg,{stops}{TRACK} 0)"
        html = (
            f"<div class='{PLAIN}' style='line-height:{LINE_HEIGHT}'><div><b>{hide(self.agent)}"
            f"</b> <span style=opacity:{MUTED}>{hide(self._facts)}</span></div>"
            f"<div style='height:.8em;margin:.2em 0;{paint}'></div><div>{names}</div>"
            f"<details open><summary>{self._news}</summary>"
            f"<div style=margin-left:{TEXT_MARGIN}>{changes}</div></details>"
            f"<details open><summary>{self._title}</summary>"
            f"<pre style='{TEXT};max-height:40em;overflow:auto;margin:0;line-height:1.3'>{body}"
            "</pre></details></div>"
        )
        return {"text/html": html, "text/plain": self.format()}

    @property
    def _news(self) -> str:
        return "first turn" if self.place.endswith("/1") else "since the previous turn"

    @property
    def _title(self) -> str:
        return f"body ({self.protocol}, {plural(len(self.raw), 'byte')})"

    @property
    def _facts(self) -> str:
        attempt = f"attempt {self.attempt}" if self.attempt > 1 else ""
        return join_facts(self.model, self.place, attempt, self.context.size, self.note)

    def _list_changes(self) -> Iterator[str]:
        yield from self.changed[:MAX_CHANGES]
        if (more := len(self.changed) - MAX_CHANGES) > 0:
            yield f"{more:,} more"

    def _format_body(self, whole: bool = False) -> Iterator[str]:
        def shorten(text: str) -> str:  # the bytes of pictures mean nothing to a reader
            found = _PICTURE.match(text)
            return f"{found[0]}… ({len(text):,} characters of base64)" if found else text

        body = change_texts(find_filter().json(self.body), shorten)
        if whole:
            yield json.dumps(body, ensure_ascii=False, indent=2)
            return
        short = change_texts(
            body, lambda text: cut_chars(text, MAX_TEXT, "… ({more:,} more characters)")
        )
        text = json.dumps(short, ensure_ascii=False, indent=2)
        yield text[:MAX_BODY]
        if short != body or len(text) > MAX_BODY:
            yield f'… cut; in full: .request("{self.place}").body'


def find_request(
    result: RunResult, place: str | int | None, protocol: str | None = None
) -> SentRequest:
    """Returns the request at a place in a run tree. Arguments are as in `RunResult.request`."""
    if protocol is not None and protocol not in PROTOCOLS:
        raise ConfigError(
            f"unknown protocol {quote(protocol)}", hint=f"one of {', '.join(PROTOCOLS)}"
        )
    found = find_exchange(result, place)
    exchange = found.exchange
    before = found.request(found.before) if found.before else None
    return _make(
        found.request(exchange), found.run.model,
        own=exchange.protocol, wanted=protocol, streaming=exchange.streaming,
        before=before, first=count_earlier(found.run),
        reported=0 if exchange.response is None else exchange.response.usage.input_tokens,
    )  # fmt: skip


def preview_request(plan: Plan) -> SentRequest:
    """Returns a planned run's first request. Raises ProviderError if it cannot be encoded."""
    request = Run(plan).make_request()
    own = plan.provider.name
    streaming = {}
    if plan.is_streamed and own in PROTOCOLS:
        streaming = import_module(PROTOCOLS[own].module).PROVIDER.stream_fields[0]
    return _make(
        request, plan.agent.model, own=own, streaming=streaming,
        first=len(request.messages) - 1, note="nothing was sent",
    )  # fmt: skip


def _make(
    request: Request,
    model: str,
    *,
    own: str,
    wanted: str | None = None,
    streaming: Mapping[str, Any] | None = None,
    before: Request | None = None,
    first: int,
    reported: int = 0,
    note: str = "",
) -> SentRequest:
    """Encodes a request in protocol `wanted`, or in the model's `own` protocol if `wanted` is None.

    `streaming` contains the fields that request a stream, `before` is the previous turn's request,
    `first` is the index of the run's own prompt in the messages, `reported` is the number of input
    tokens in the response, and `note` says why the request was not sent.
    """
    protocol = wanted or (own if own in PROTOCOLS else OF_SCRIPTS)
    module = import_module(PROTOCOLS[protocol].module)
    if protocol != own:
        sent = f"sent over {own}" if own in PROTOCOLS else "script models receive no body"
        note = f"{note or sent}; shown in {protocol} format"
        reported = reported if own not in PROTOCOLS else 0
        streaming = module.PROVIDER.stream_fields[0] if streaming else {}
    raw = module.body(request, streaming)
    return SentRequest(
        place=request.place, attempt=request.attempt, agent=request.agent, model=model,
        protocol=protocol, note=note, raw=raw, changed=tuple(_describe_changes(before, request)),
        context=_count_context(request, json.loads(raw), module.encode, first, reported),
    )  # fmt: skip


def _describe_changes(before: Request | None, now: Request) -> Iterator[str]:
    if before:
        if before.tools and not now.tools:
            yield "tools can no longer be called"
        told = before if now.tools else replace(before, tools=())
        described: list[Description] = [
            find_filter().json(
                {
                    "model": one.model, "system": one.system, "params": one.params,
                    "tools": [
                        {"name": tool.name, "description": tool.description, **tool.input_schema()}
                        for tool in one.tools
                    ],
                }
            )
            for one in (told, now)
        ]  # fmt: skip
        for change in list_changes(*described):
            yield change.removeprefix("its ")
    sent = len(before.messages) if before else max(0, len(now.messages) - 1)
    if not before and sent:
        yield f"it continues a conversation of {plural(sent, 'message')}"
    for message in now.messages[sent:]:
        for result in message.tool_results:
            kind = "error" if result.is_error else "result"
            yield f"new {kind} of {_name(result.name)}: {_show(result.content)}"
        if message.tool_results:
            continue
        what = f"new {'prompt' if message.role == 'user' else 'reply'}"
        said = f": {_show(message.content)}" if message.content.strip() else ""
        counts = Counter(call.name for call in message.tool_calls)
        calls = [_name(name) + (f" ×{n}" if n > 1 else "") for name, n in counts.items()]
        called = f", calls {list_some(calls, 10)}" if calls else ""
        yield f"{what}{said}{called}"


def _name(name: str) -> str:
    return one_line(redact(name), MAX_SHOWN)


def _show(text: str) -> str:
    """Quotes the beginning of a text, followed by the text's length if it is cut."""
    text = redact(text)
    line = one_line(text, MAX_SHOWN)
    more = f" ({plural(len(text), 'character')})" if len(text) > MAX_SHOWN else ""
    return quote(line) + more
