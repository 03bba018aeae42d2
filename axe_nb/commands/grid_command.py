"""The command of `%%axe_grid`: options of a grid, beside those that every run of it has.

Source: product.md "Exploring".
"""

from __future__ import annotations

import argparse
import re

from axe_nb.commands.options import (
    AGENT_AND_MODEL,
    ANSWER,
    INPUT,
    LIMITS,
    OPTIONS,
    Option,
    dollars,
    names,
    variable,
)
from axe_nb.commands.table import Command
from axe_nb.text import quote

OF_RUNS = (
    "model_all", "skill", "workdir", "timeout", "retries", "params", "vars", "agents_dir", "tools",
    "mode", "output", "expect", "out", "dry_run",
)  # fmt: skip
"""Options of a run that all runs of a grid have, or the grid as a whole."""


def count(text: str) -> int:
    """Parses a whole number from 1."""
    if not (text.isascii() and text.isdecimal() and int(text[:9]) >= 1 and len(text) < 10):
        raise argparse.ArgumentTypeError(f"takes a positive whole number, not {quote(text)}")
    return int(text)


def results_file(text: str) -> str:
    """Checks that the word is a file, not agents after an option without its value."""
    if not re.search(r"[./\\]", text):
        raise argparse.ArgumentTypeError(f"takes a file, as in grid.jsonl, not {quote(text)}")
    return text


def budget(text: str) -> float | dict[str, float]:
    """Parses US dollars, or keys of `[limits]` with numbers: `max_requests=100,max_cost=0.5`."""
    if "=" not in text:
        return dollars(text)
    table: dict[str, float] = {}
    for word in text.split(","):
        key, _, number = word.partition("=")
        try:
            table[key.strip()] = float(number.removeprefix("$"))
        except ValueError:
            told = f"takes KEY=NUMBER, as in max_requests=100, not {quote(word)}"
            raise argparse.ArgumentTypeError(told) from None
    return table


GRID = Command(
    "grid", "run variants of agents on the same inputs", {"cell": "axe_grid"},
    (
        Option(
            (), "agents", "agents, comma-separated; without any, prompts go directly to the models",
            "AGENT[,AGENT]", required=False, read=names, offers="agents",
        ),
        Option(
            ("--inputs",), "inputs",
            "variable with the inputs, or a .csv or .jsonl file (default: one input, the cell)",
            "NAME_OR_FILE", offers="files", group=INPUT,
        ),
        Option(
            ("-m", "--models"), "models",
            "models to use instead of the agents' own, comma-separated", "P/M,P/M",
            read=names, offers="models", group=AGENT_AND_MODEL,
        ),
        Option(
            ("--params",), "variants", "variable with a list of params, or a dict of them by label",
            "NAME", read=variable, offers="variables", group=AGENT_AND_MODEL,
        ),
        Option(
            ("--repeats",), "repeats", "runs per square (default 1)", "N", read=count,
            group=INPUT,
        ),
        Option(
            ("--score",), "score", "function (result, row) that returns a score, or True or False",
            "NAME", read=variable, offers="variables", group=ANSWER,
        ),
        Option(
            ("--judge",), "judge", "agent that answers with a number and a reason", "AGENT",
            offers="agents", group=ANSWER,
        ),
        Option(
            ("--concurrency",), "concurrency", "maximum number of runs at once (default 8)", "N",
            read=count, group=LIMITS,
        ),
        Option(
            ("--executor",), "executor",
            "variable with an executor or a cluster client, such as a Dask client (default: here)",
            "NAME", read=variable, offers="variables", group=LIMITS,
        ),
        Option(
            ("--budget",), "budget", "US dollars for all runs together, or KEY=NUMBER as in "
            "[limits]",
            "AMOUNT", read=budget, group=LIMITS,
        ),
        Option(
            ("--resume",), "resume",
            "file that keeps each result; the same call continues a grid that was interrupted",
            "PATH", read=results_file, offers="files", group=LIMITS,
        ),
        *(option for option in OPTIONS if option.keyword in OF_RUNS),
    ),
)  # fmt: skip
