"""The runs that a grid needs, in the order in which they are asked.

Source: product.md "Exploring".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from axe_nb.errors import ConfigError
from axe_nb.grids.squares import MAX_NAMED, Squares
from axe_nb.interpolation import interpolate
from axe_nb.maps.tasks import Task
from axe_nb.pictures.picture import Picture
from axe_nb.text import list_some


class Job(NamedTuple):
    """One run of a grid."""

    input: int
    variant: int
    repeat: int
    """From 1."""


def list_jobs(grid: Squares) -> Iterator[Job]:
    """Yields the runs that a grid lacks.

    All variants of an input come together, and all inputs before a repeat: a grid that is stopped
    has compared them on the same inputs.
    """
    for repeat in range(1, grid.repeats + 1):
        for input in range(len(grid.rows)):
            for variant in range(len(grid.choices)):
                if not grid.has(input, variant, repeat):
                    yield Job(input, variant, repeat)


def write_task(grid: Squares, job: Job) -> Task:
    """Returns the task of a job: the template of its variant with the values of its input.

    Its `problem` is that the template names what no column has, or that an expression fails.
    """
    pictures: list[Picture] = []
    template = grid.choices[job.variant].prompt
    names = {**grid.names, **grid.rows[job.input]}
    try:
        text = interpolate(template, names, grid.first_line, pictures)
    except ConfigError as error:
        columns = list_some(list(grid.rows[job.input]), MAX_NAMED) or "none"
        error.hint = f"the columns of the inputs: {columns}; write \\{{{{ for a literal brace"
        return Task(problem=error, asking=job.variant)
    return Task(text=text, pictures=tuple(pictures), asking=job.variant)
