"""`%%axe_grid AGENT,AGENT`: runs the cell's prompt template with every variant and input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from axe_nb.cell_display.display import install
from axe_nb.commands.console import Write
from axe_nb.commands.option_table import GRID
from axe_nb.commands.parser import parse, parser
from axe_nb.conversion.interpolation import LEFT_OUT
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid import NAME, Grid
from axe_nb.exploring.run_grid import SUFFIXES, GridRunner
from axe_nb.notebook.option_line import find_cell_source, read_words
from axe_nb.session.overrides import Overrides
from axe_nb.text import quote, suggestion


def run_grid(
    shell: InteractiveShell, line: str, cell: str, names: Mapping[str, Any], write: Write
) -> Grid | None:
    """Runs a cell's grid and returns the Grid. The `-o` variable is set even after an interrupt."""
    install(shell)
    found = parse(GRID, "cell", read_words(GRID, "cell", line, names))
    fail = parser(GRID, "cell").error
    chosen = vars(found)
    of_runs = {one.name for one in fields(Overrides)} - {"model", "expect"}
    given = {key: value for key, value in chosen.items() if key in of_runs and value is not None}
    if found.agents is None and not (found.models or given.get("model_all")):
        fail("no agent: give one, or give models with -m")
    if "output" in given:
        given["output"] = names.get(given["output"], given["output"])
    values: dict[str, Any] = {}
    for flag, name in (
        ("params", found.variants), ("score", found.score), ("executor", found.executor),
    ):  # fmt: skip
        if name is not None and name not in names:
            fail(f"--{flag}: no variable {quote(name)}")
        values[flag] = names.get(name)
    counts = {name: chosen[name] for name in ("repeats", "concurrency") if chosen[name] is not None}
    template, magic_line = find_cell_source(shell, "axe_grid", cell)
    source = found.inputs or ""
    if source and source not in names and Path(source).suffix not in SUFFIXES:
        near = suggestion(source, names) or "--inputs takes a variable, or a .csv or .jsonl file"
        raise ConfigError(f"--inputs: no variable {quote(source)}", hint=near)
    runner = GridRunner(
        found.agents or None, LEFT_OUT.sub("", template).removesuffix("\n"),
        inputs=names.get(source, found.inputs), models=found.models or None,
        **values,
        expect=found.expect, judge=found.judge, budget=found.budget, resume=found.resume,
        **counts, options=given, names=names,
        first_line=magic_line + 1, is_dry=bool(found.dry_run),
    )  # fmt: skip
    if found.dry_run:
        runner.close()
        warnings = [f"warning: {warning}" for warning in runner.warnings]
        write("\n".join([repr(runner.grid), f"{runner.forecast}, nothing was sent", *warnings]))
        return None
    try:
        runner.run(True, found.out or NAME)
    finally:
        if found.out:
            shell.user_ns[found.out] = runner.grid
    return None if isinstance(shell.display_pub, CapturingDisplayPublisher) else runner.grid
