"""Finished runs made by hand, for the views."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from axe_nb.messages import CallTraits, ToolCall, ToolResult, Usage
from axe_nb.results import RunResult, Turn
from axe_nb.views.html import twin

if TYPE_CHECKING:
    import nbformat  # late: it imports jsonschema, which takes a kernel a second

PAYLOADS: tuple[str, ...] = tuple(
    json.loads((Path(__file__).parent.parent / "payloads.json").read_text("utf-8"))
)
"""Texts that would act, load or be typeset if a view let them."""

TEXT = ("The quick brown fox jumps over the lazy dog, 42 times a day. " * 40)[:1500]


ONE_CHILD = CallTraits(delegates=True, is_one_child=True)


def done(**fields: Any) -> RunResult:
    """A completed run, but for what is given."""
    return RunResult(
        **{"status": "completed", "text": "ok", "agent": "lead", "model": "script/x", **fields}
    )


def turn(number: int, *calls: ToolCall, text: str = "", results: Sequence[str] = ()) -> Turn:
    """A turn whose calls gave back the results."""
    answered = tuple(ToolResult(c.id, r, name=c.name) for c, r in zip(calls, results, strict=False))
    return Turn(number, text, calls, answered, "", Usage(300, 212))


def ask(id: str, agent: str, task: str) -> ToolCall:
    return ToolCall(id, "call_agent", {"agent": agent, "task": task}, traits=ONE_CHILD)


def long_run() -> RunResult:
    """30 turns of 1.5 kB with 4 children: what goals.md measures saved notebooks by."""
    log, children = [], []
    for number in range(1, 30):
        if number % 7:
            call = ToolCall(f"c{number}", "read_file", {"path": f"docs/page{number}.md"})
        else:
            task = f"Look into part {number} of the loader"
            call = ask(f"c{number}", "helper", task)
            children.append(
                done(
                    agent="helper", text=TEXT, id=f"0.{number}", call_id=call.id, task=task,
                    prompt=f"Task: {task}", log=(turn(1, text=TEXT),), usage=Usage(300, 212),
                )
            )  # fmt: skip
        log.append(turn(number, call, results=[TEXT]))
    return done(text=TEXT, log=(*log, turn(30, text=TEXT)), children=tuple(children))


def hostile_run(payloads: Sequence[str] = PAYLOADS) -> RunResult:
    """A failed run with every payload everywhere: answer, names, arguments, results, errors."""
    log, children = [], []
    for number, payload in enumerate(payloads, 1):
        read = ToolCall(f"a{number}", payload, {payload: payload}, raw=payload)
        told = ask(f"b{number}", payload, payload)
        children.append(
            done(
                status="error", agent=payload, model=payload, text=payload, error=payload,
                id=f"0.{number}", call_id=told.id, task=payload, prompt=payload,
                warnings=(payload,), metadata={payload: payload}, files_read=(payload,),
                files_modified=(payload,),
            )
        )  # fmt: skip
        log.append(turn(number, read, told, text=payload, results=[payload, f"Error: {payload}"]))
    return done(
        status="error", text="\n\n".join(payloads), agent=payloads[0], model=payloads[2],
        error=payloads[4], warnings=tuple(payloads[:5]), log=tuple(log),
        children=tuple(children),
    )  # fmt: skip


def code(*sources: str) -> nbformat.NotebookNode:
    import nbformat

    made = nbformat.v4.new_notebook()
    made.metadata["kernelspec"] = {
        "name": "python3", "display_name": "Python 3", "language": "python"
    }  # fmt: skip
    made.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    return made


def saved(*bundles: dict[str, str]) -> nbformat.NotebookNode:
    """A notebook as it is saved after a run: a cell for each bundle."""
    import nbformat

    made = code(*["%%axe lead\nCheck the loader."] * len(bundles))
    for cell, bundle in zip(made.cells, bundles, strict=True):
        cell.execution_count = 1
        cell.outputs = [nbformat.v4.new_output("display_data", bundle)]
    return made


def saved_size(result: RunResult) -> int:
    """Bytes of a notebook that holds the run's twin and nothing else."""
    import nbformat

    return len(nbformat.writes(saved(twin(result))).encode())
