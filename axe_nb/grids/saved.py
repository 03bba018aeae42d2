"""Grids in files: a header, then JSON lines: the inputs and variants, and one for each run.

Source: product.md "Exploring" (`.save()`); D-60, D-61.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from axe_nb.agents.files import expand_home, reason, write_whole
from axe_nb.conversion.jsonable import jsonable
from axe_nb.data_files import MAX_BYTES, check_header, format_header, make_error
from axe_nb.descriptors import open_real_file
from axe_nb.errors import ConfigError
from axe_nb.grids.outcome import GridRun
from axe_nb.grids.squares import Squares
from axe_nb.grids.variants import Variant, name_agent
from axe_nb.redaction import find_filter
from axe_nb.results import RunResult

S = TypeVar("S", bound=Squares)


def save_grid(grid: Squares, path: str | os.PathLike[str]) -> None:
    """Writes a grid without secrets to a file for `axe_nb.load`; values that JSON lacks as text.

    Raises:
        ConfigError: the file cannot be written.
    """
    place = expand_home(os.fspath(path))
    lines = (json.dumps(line, ensure_ascii=True) for line in _list_lines(grid))
    text = format_header("grid") + "".join(f"{line}\n" for line in lines)
    try:
        if len(text) > MAX_BYTES:
            raise make_error("write", place, f"larger than {MAX_BYTES} bytes")
        if not place.resolve().parent.is_dir():
            raise make_error("write", place, "its folder does not exist")
    except OSError as error:
        raise make_error("write", place, reason(error)) from None
    write_whole(place, text, None if place.exists() else 0o600)


def _list_lines(grid: Squares) -> Iterator[Any]:
    clean = find_filter()
    variants = [
        {
            "label": one.label, "agent": name_agent(one.agent), "model": one.model,
            "params": jsonable(one.params), "prompt": one.prompt,
        }
        for one in grid.choices
    ]  # fmt: skip
    plan = {
        "inputs": jsonable(grid.rows), "variants": variants, "repeats": grid.repeats,
        "note": grid.note,
    }  # fmt: skip
    yield clean.json(plan)
    for (input, variant, repeat), run in grid.list_places():
        judgement = run.judgement and run.judgement.to_dict_without_secrets()
        yield {
            "at": [input, variant, repeat], "passed": run.passed, "score": run.score,
            "reason": clean.text(run.reason), "problem": clean.text(run.problem),
            "result": run.result.to_dict_without_secrets(), "judgement": judgement,
        }  # fmt: skip


def load_grid(path: str | os.PathLike[str], make: type[S]) -> S:
    """Returns the grid of a file.

    Args:
        make: its type.

    Raises:
        ConfigError: it cannot be read, or is not a grid.
    """
    place = expand_home(os.fspath(path))
    try:
        with os.fdopen(open_real_file(Path(os.path.realpath(place))), "rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise make_error("read", place, f"larger than {MAX_BYTES} bytes")
        text = content.decode("utf-8-sig")
        _, start = check_header(place, "grid", text)
        return _read(text[start:].split("\n"), place, make)
    except OSError as error:
        raise make_error("read", place, reason(error)) from None
    except UnicodeDecodeError as error:
        raise make_error("read", place, f"not UTF-8 at byte {error.start}") from None


def _read(lines: list[str], place: Path, make: type[S]) -> S:
    number = 2
    try:
        grid = _read_plan(json.loads(lines[0]), make)
        for line in lines[1:]:
            number += 1
            if line.strip():
                _read_run(grid, json.loads(line))
    except ConfigError as error:
        raise make_error("read", place, f"line {number}: {error.message}") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        raise make_error("read", place, f"line {number} is not part of a grid") from None
    return grid


def _read_plan(plan: Mapping[str, Any], make: type[S]) -> S:
    variants = [
        Variant(
            label=str(one["label"]), agent=one["agent"] or None, model=one["model"],
            params=one["params"], prompt=str(one["prompt"]),
        )
        for one in plan["variants"]
    ]  # fmt: skip
    rows = [dict(row) for row in plan["inputs"]]
    grid = make(rows, variants, max(1, int(plan["repeats"])))
    grid.note = str(plan["note"])
    return grid


def _read_run(grid: Squares, line: Mapping[str, Any]) -> None:
    input, variant, repeat = (int(number) for number in line["at"])
    if not 1 <= repeat <= grid.repeats or min(input, variant) < 0:
        raise ValueError
    judged, score, passed = line["judgement"], line["score"], line["passed"]
    run = GridRun(
        input=grid.inputs[input], variant=grid.variants[variant], repeat=repeat,
        passed=None if passed is None else bool(passed),
        score=None if score is None else float(score),
        reason=str(line["reason"]), problem=str(line.get("problem", "")),
        result=RunResult.from_dict(line["result"]),
        judgement=None if judged is None else RunResult.from_dict(judged),
    )  # fmt: skip
    grid.add(input, variant, run)


def is_grid(path: str | os.PathLike[str]) -> bool:
    """True if a file begins as that of a grid."""
    start = b"axe_nb grid "
    with suppress(OSError, ValueError):
        real = Path(os.path.realpath(expand_home(os.fspath(path))))
        with os.fdopen(open_real_file(real), "rb") as file:
            return file.read(len(start)) == start
    return False
