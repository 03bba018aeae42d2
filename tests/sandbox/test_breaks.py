"""Ways out that were found once: through the package, the clean-up, queues, and advice."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from axe_nb.errors import ConfigError
from axe_nb.sandbox import find, process
from axe_nb.sandbox.view import TIME, cover, make_view
from tests.sandbox.cages import ROOT, SECRET, Cage, as_user, package_for

pytestmark = pytest.mark.req("D-82")

TWO_COMMANDS = """
import os, sys
from pathlib import Path
from axe_nb.sandbox.find import Sandbox, list_landlock
from axe_nb.sandbox.view import make_view
[method] = list_landlock()
for command in sys.argv[1:]:
    sandbox = Sandbox(method, make_view(Path.cwd()))
    sandbox.start(["/bin/sh", "-c", command], {"PATH": "/usr/bin:/bin"}, (-3, -3, -3)).wait(60)
"""


@pytest.mark.parametrize("method", ["Landlock"])
def test_a_command_that_changes_the_package_does_not_open_the_next_sandbox(cage: Cage) -> None:
    library = cage.work / ".venv"
    copy = ["cp", "-r", str(package_for(cage.uid) / "axe_nb"), str(library)]
    subprocess.run(["mkdir", str(library)], check=True, **as_user(cage.uid))
    subprocess.run(copy, check=True, **as_user(cage.uid))
    evil = f"import os; os.system('touch {cage.home}/taken')"
    change = f'for f in .venv/axe_nb/sandbox/*.py; do echo "{evil}" > $f; done'
    subprocess.run(
        [cage.python, "-P", "-c", TWO_COMMANDS, change, "touch ran"],
        cwd=cage.work, env={**cage.environment, "PYTHONPATH": str(library)}, check=True,
        **as_user(cage.uid),
    )  # fmt: skip
    assert (cage.work / "ran").exists()
    assert not (cage.home / "taken").exists()


def test_the_clean_up_follows_no_link_that_takes_the_place_of_a_folder(cage: Cage) -> None:
    theirs = cage.base / "other" / "axe"
    before = f"mkdir sub {theirs}; touch -d @{TIME} {theirs}; ln -s sub/axe axe"
    subprocess.run(["sh", "-c", before], cwd=cage.work, check=True, **as_user(cage.uid))
    ended = cage.run(f"rmdir sub; ln -s {theirs.parent} sub")
    assert theirs.is_dir()
    assert ended.notes


def test_no_placeholder_is_made_through_a_link_that_takes_the_place_of_the_workdir(
    tmp_path: Path,
) -> None:
    """A command in a folder above it may exchange them at any moment."""
    work, link, other = (tmp_path / name for name in ("work", "link", "other"))
    work.mkdir()
    other.mkdir()
    link.symlink_to(other)
    before = other.stat().st_mtime_ns
    libc, is_over = ctypes.CDLL(None), threading.Event()

    def exchange() -> None:
        while not is_over.is_set():
            libc.renameat2(-100, bytes(work), -100, bytes(link), 2)

    thread = threading.Thread(target=exchange)
    thread.start()
    until = time.monotonic() + 2
    while time.monotonic() < until and other.stat().st_mtime_ns == before:
        with suppress(OSError, ConfigError), cover(make_view(work), "mounts"):
            pass
    is_over.set()
    thread.join()
    assert other.stat().st_mtime_ns == before


QUEUES = """
import ctypes
libc = ctypes.CDLL(None)
text = ctypes.create_string_buffer(64)
print(libc.semctl({semaphore}, 0, 0), libc.semop({semaphore}, bytes(6), 1))
print(libc.msgrcv({queue}, text, 56, 0, 0o4000), libc.msgctl({queue}, 0, None))
print(libc.shmctl({memory}, 0, None), libc.mq_unlink(b"/{name}"), libc.mq_open(b"/{name}", 0))
print(text.raw)
"""


def test_semaphores_and_queues_of_other_programs_are_not_reached(
    cage: Cage, queues: dict[str, object]
) -> None:
    (cage.work / "script.py").write_text(QUEUES.format(**queues))
    ended = cage.run("/usr/bin/python3 script.py")
    assert ended.output.splitlines()[:3] == ["-1 -1", "-1 -1", "-1 -1 -1"]
    assert SECRET not in ended.output


@pytest.fixture
def queues() -> Iterator[dict[str, object]]:
    libc = ctypes.CDLL(None)
    name = f"axe-nb-test-{os.getpid()}"
    found = {
        "semaphore": libc.semget(0, 1, 0o1666), "queue": libc.msgget(0, 0o1666),
        "memory": libc.shmget(0, 4096, 0o1666), "name": name,
    }  # fmt: skip
    libc.msgsnd(found["queue"], (1).to_bytes(8, "little") + SECRET.encode().ljust(56), 56, 0)
    libc.mq_open(f"/{name}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    yield found
    libc.semctl(found["semaphore"], 0, 0)
    libc.msgctl(found["queue"], 0, None)
    libc.shmctl(found["memory"], 0, None)
    libc.mq_unlink(f"/{name}".encode())


def test_private_keys_of_the_system_are_out_of_sight(cage: Cage) -> None:
    """Root may read them; programs need the certificates beside them."""
    ended = cage.run("ls /etc/ssl/private /etc/pki/tls/private 2>/dev/null; ls /etc/ssl/certs | wc")
    assert len(ended.output.splitlines()) == 1


EMBEDDED = """
git init -q sub; cd sub
printf '#!/bin/sh\\ntouch %s/taken\\n' $PWD > run; chmod +x run; git config core.fsmonitor $PWD/run
git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m x; git add run; rm -f taken
cd ..; git add sub
"""


def test_the_commands_that_the_page_advises_afterwards_run_nothing(cage: Cage) -> None:
    """Git runs what a repository in a folder says, where it looks for changes in it."""
    page = (ROOT / "docs" / "safety.md").read_text()
    [advice] = re.findall(r"Afterwards look at what changed \(([^)]*)\)", page)
    cage.run(EMBEDDED)
    assert (cage.work / "sub" / "run").exists()
    for command in re.findall("`(.+?)`", advice):
        subprocess.run(
            shlex.split(command), cwd=cage.work, check=True, capture_output=True,
            env={"HOME": str(cage.home), "PATH": "/usr/bin:/bin"}, **as_user(cage.uid),
        )  # fmt: skip
    assert not (cage.work / "sub" / "taken").exists()


def test_an_image_is_no_option_of_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--help`, docker would print its help and succeed, in place of each command."""
    program = tmp_path / "docker"
    program.write_text("""#!/bin/sh
        for word; do case "$word" in --) exit 1;; --help) exit 0;; esac; done""")
    program.chmod(0o755)
    monkeypatch.setattr(process, "PROGRAM_FOLDERS", (str(tmp_path),))
    with pytest.raises(ConfigError):
        find.make_docker("--help")
