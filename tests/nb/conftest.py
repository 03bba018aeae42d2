"""One kernel of each line for all tests of this folder, like new for each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, Kernels, write_agents


@pytest.fixture(scope="session")
def kernels() -> Iterator[Kernels]:
    with ExitStack() as ends:
        yield Kernels(ends)


@pytest.fixture
def kernel(project: Path, kernels: Kernels) -> Kernel:
    return kernels.at(Path(sys.executable), project)


@pytest.fixture
def each_kernel(project: Path, kernel_python: Path, kernels: Kernels) -> Kernel:
    """A kernel of each line in the project."""
    return kernels.at(kernel_python, project)


@pytest.fixture
def cells(request: pytest.FixtureRequest, project: Path, each_kernel: Kernel) -> Kernel:
    """A kernel of each line, with the agents of the module's `SCRIPTS`, after its `SETUP`."""
    module = vars(request.module)
    write_agents(project, module.get("SCRIPTS", {}), **module.get("AGENTS", {}))
    assert each_kernel.run(module.get("SETUP", "%load_ext axe_nb")) == []
    return each_kernel


@pytest.fixture
def served(cells: Kernel) -> Iterator[Kernel]:
    """The kernel of a test module, as a Jupyter server starts it."""
    cells.run("import os; os.environ['JPY_SESSION_NAME'] = 'test.ipynb'")
    yield cells
    cells.run("os.environ.pop('JPY_SESSION_NAME', None)")
