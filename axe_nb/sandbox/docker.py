"""Level `docker:IMAGE`: each command in a container of its own.

Source: D-82.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from axe_nb.errors import ConfigError
from axe_nb.sandbox.process import Launch, Method, find_program
from axe_nb.sandbox.view import View
from axe_nb.secrets import is_secret_name
from axe_nb.text import one_line, quote

FLAGS = (
    "run", "--rm", "--init", "--interactive", "--pull", "never", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges", "--read-only", "--pids-limit", "4096",
    "--tmpfs", "/tmp:exec", "--env", "HOME=/tmp", "--env", "TMPDIR=/tmp", "--env", "TERM=dumb",
)  # fmt: skip

OF_CLIENT = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
"""Variables that tell the client where its daemon is; the container does not get them."""

OF_PROGRAMS = re.compile(r"(DOCKER|LD|DYLD|XDG)_.*|PATH|HOME|TMPDIR", re.IGNORECASE)
"""Variables of a container that would change what the client does."""

TRIAL = 20.0
"""Seconds that the daemon has to answer."""


def make_method(image: str) -> Method:
    """Returns the method for an image; ConfigError if docker does not answer or lacks it."""
    program = find_program("docker")
    if problem := _find_problem(program, image):
        raise ConfigError(
            f'sandbox = "docker:{image}" does not work here: {problem}',
            hint=f'start docker and run: docker pull {image}; or set sandbox = "auto"',
        )
    return Method(
        level="docker",
        name=f"docker:{image}",
        ending="program",
        promises=(
            "sees only the image and the workdir",
            "writes no protected file in the workdir",
            "sees no other processes and none of the kernel's environment",
        ),
        not_promised=("a container outlives a kernel that is killed",),
        wrap=partial(wrap, program, image),
        protection="mounts",
    )


def wrap(program: str, image: str, words: Sequence[str], view: View) -> Launch:
    """Returns the command line for a command in a new container."""
    name = f"axe-nb-{os.urandom(8).hex()}"
    found = [program, *FLAGS, "--name", name, "--workdir", str(view.workdir)]
    if not view.network:
        found += ["--network", "none"]
    if os.name == "posix":
        found += ["--user", f"{os.getuid()}:{os.getgid()}"]
    environment = {key: os.environ[key] for key in OF_CLIENT if key in os.environ}
    for variable, value in view.variables.items():
        if OF_PROGRAMS.fullmatch(variable) and not is_secret_name(variable):
            found += ["--env", f"{variable}={value}"]
        else:  # by name: every process may read the arguments of others
            found += ["--env", variable]
            environment[variable] = value
    for path in (view.workdir, *view.anchored):
        found += ["--mount", _format_mount(path, path)]
    for path, seen in view.closed.items():
        found += ["--mount", _format_mount(path, seen, "readonly")]
    return Launch(
        words=[*found, image, *words], environment=environment, end=[program, "kill", name]
    )


def _format_mount(target: Path, source: Path | None, *more: str) -> str:
    """Returns a value of `--mount`, which is a line of CSV; without a source, an empty folder."""
    fields = ["type=tmpfs", f"target={target}"]
    if source:
        fields = ["type=bind", f"source={source}", f"target={target}", *more]
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _find_problem(program: str, image: str) -> str:
    if not program:
        return "docker is not installed"
    asked = [program, "image", "inspect", "--format", "{{.Id}}", "--", image]
    try:
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL)
    except (OSError, subprocess.TimeoutExpired):
        return f"docker did not answer within {TRIAL:.0f} s"
    said = done.stderr.decode("utf-8", "replace")
    return quote(one_line(said, 200)) if done.returncode else ""
