"""The variants of a grid (agents × models × parameters × prompts), and its inputs as rows."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeAlias

from axe_nb.agents.agent import Agent
from axe_nb.agents.files import expand_home, reason
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.own_text import shown_value
from axe_nb.errors import ConfigError
from axe_nb.results import NO_AGENT
from axe_nb.text import one_line, plural, quote

Row: TypeAlias = Mapping[str, Any]
"""Name in `{{ }}` → value."""

MAX_RUNS = 1_000_000
"""Maximum number of runs of a grid, so that an endless iterator is an error."""

MAX_LABEL = 40
"""Characters of a label, unless another one begins with the same."""

SUFFIXES = (".csv", ".jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One combination of agent, model, parameters and prompt."""

    label: str
    """Name made of its differences from the other variants; a single variant has its agent's
    name."""
    agent: str | Agent | None = field(repr=False)
    model: str | None = None
    params: Mapping[str, Any] | None = None
    """Model parameters; None = those of the agent."""
    prompt: str = field(repr=False)


def make_variants(agents: Any, models: Any, params: Any, prompts: Any) -> tuple[Variant, ...]:
    """Makes all combinations, in order. The arguments are those of `grid`."""
    if params is None or (
        isinstance(params, Mapping) and not all(isinstance(v, Mapping) for v in params.values())
    ):
        params = [params]

    def describe(some: Mapping[str, Any] | None) -> str:
        said = (f"{name}={json.dumps(jsonable(value))}" for name, value in (some or {}).items())
        return ", ".join(said) or "no params"

    choices = [
        _name("agents", [agents] if isinstance(agents, str | Agent | None) else agents, name_agent),
        _name("models", [models] if isinstance(models, str | None) else models, str),
        _name("params", [{}] if params == {} else params, describe),
        _name("prompt", [prompts] if isinstance(prompts, str) else prompts, lambda _: ""),
    ]
    variants = []
    for combination in product(*choices):
        agent, model, some, prompt = (value for _, value in combination)
        parts = [label for (label, _), one in zip(combination, choices, strict=True) if one[1:]]
        label = " · ".join(parts) or name_agent(agent)
        variants.append(Variant(label=label, agent=agent, model=model, params=some, prompt=prompt))
    return tuple(variants)


def name_agent(agent: str | Agent | None) -> str:
    return (agent.name if isinstance(agent, Agent) else agent) or NO_AGENT


def _name(what: str, given: Any, describe: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(given, Mapping):
        named = [(str(label), value) for label, value in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        named = [
            (describe(value) or f"{what} {number}", value) for number, value in enumerate(given)
        ]
    else:
        raise ConfigError(f"{what} takes one value or a list, not {type(given).__name__}")
    if not named:
        raise ConfigError(f"{what} is empty: there is nothing to run")
    short = [one_line(label, MAX_LABEL) for label, _ in named]
    labels = [  # those that would be cut to the same are whole
        label if short.count(label) == 1 else one_line(whole, max(len(whole), MAX_LABEL))
        for label, (whole, _) in zip(short, named, strict=True)
    ]
    for label in labels:
        if labels.count(label) > 1:
            hint = f'name them: {what}={{"before": …, "after": …}}'
            raise ConfigError(f"{what} contains {one_line(label, MAX_LABEL)} twice", hint=hint)
    return [(label, value) for label, (_, value) in zip(labels, named, strict=True)]


def read_inputs(given: Any) -> list[Row]:
    """Returns values, a frame, or a CSV or JSONL file as rows; None = one row without names."""
    if given is None:
        return [{}]
    if isinstance(given, str | os.PathLike):
        found: Iterable[Any] = _read_file(Path(given))
    elif callable(to_rows := getattr(given, "to_dicts", None)):  # polars
        found = to_rows()
    elif hasattr(given, "columns") and callable(to_rows := getattr(given, "to_dict", None)):
        found = to_rows("records")
    elif isinstance(given, Iterable) and not isinstance(given, Mapping | bytes):
        found = given
    else:
        forms = "a list, a DataFrame, or the path of a .csv or .jsonl file"
        raise ConfigError(f"inputs takes {forms}, not {type(given).__name__}")
    rows = [
        value if isinstance(value, Mapping) else {"input": value}
        for value in islice(found, MAX_RUNS + 1)
    ]
    if not rows:
        raise ConfigError("there are no inputs")
    for number, row in enumerate(rows):
        if wrong := [name for name in row if not isinstance(name, str)]:
            shown = shown_value(wrong[0])
            raise ConfigError(f"input {number}: the column name {shown} is not text")
    return rows


def _read_file(path: Path) -> list[Any]:
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"inputs {quote(one_line(str(path), 100))}: not a .csv or .jsonl file")
    what = f"inputs {quote(path.name)}"
    try:
        text = expand_home(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{what}: {reason(error)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{what}: not UTF-8 text") from None
    rows: list[Any] = []
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            try:
                rows += [json.loads(line)] if line.strip() else []
            except (ValueError, RecursionError):
                raise ConfigError(f"{what}, line {number}: not JSON") from None
        return rows
    lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = lines.fieldnames or []
        if len(set(columns)) < len(columns) or "" in columns:
            raise ConfigError(f"{what}: the first line must name each column once")
        for row in lines:
            if None in row or None in row.values():
                raise csv.Error(f"expected {plural(len(columns), 'value')}")
            rows.append(row)
    except csv.Error as error:
        raise ConfigError(f"{what}, line {lines.reader.line_num}: {error}") from None
    return rows


def label_inputs(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns a unique short label for each input: its first column that tells them apart.

    Rows that no column tells apart are numbered.
    """
    for column in rows[0]:
        try:
            labels = tuple(one_line(str(row.get(column, "")), MAX_LABEL) for row in rows)
        except Exception:  # of the user's own class
            continue
        if len(set(labels)) == len(labels) and all(labels):
            return labels
    return tuple(map(str, range(len(rows))))
