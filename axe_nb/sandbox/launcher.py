"""Launcher for the sandbox level `files`: a program that restricts itself, then runs a command.

The launcher's arguments are a plan from `find.py` (a marshalled dict in hexadecimal), and the
command with its arguments. The launcher imports little, because every command starts it. Source:
D-82.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from typing import Any, NoReturn
else:  # importing `signal` and `typing` takes longer than everything else
    import _signal as signal

LIBC = ctypes.CDLL(None, use_errno=True)
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
PR_PDEATHSIG, PR_SECCOMP, PR_DROP, PR_SUBREAPER, PR_NO_NEW_PRIVS, PR_AMBIENT = 1, 22, 24, 36, 38, 47
RIGHTS_ON_FILES = 0b1100000000000111
REMOVE = 'chmod -R u+rwx "$1"; exec rm -rf "$1"'
"""Shell command that removes a folder of any depth without following links."""


def check(name: str, result: int) -> int:
    if result < 0:
        raise OSError(f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


def prctl(*arguments: int) -> int:
    padded = (*arguments, 0, 0, 0, 0)[:5]
    return int(LIBC.prctl(*(ctypes.c_ulong(argument) for argument in padded)))


def drop_capabilities() -> None:
    """Drops all capabilities, including those that root would regain by executing a program."""
    for capability in range(64):
        prctl(PR_DROP, capability)
    prctl(PR_AMBIENT, 4)
    header = struct.pack("=Ii", 0x20080522, 0)
    check("capset", LIBC.capset(header, bytes(24)))
    check("no_new_privs", prctl(PR_NO_NEW_PRIVS, 1))


def restrict(handled: bytes, rules: Mapping[str, int]) -> None:
    """Denies this process the rights in `handled`, except as `rules` (path → rights) allow."""
    size = ctypes.c_size_t(len(handled))
    ruleset = check("landlock", LIBC.syscall(LANDLOCK_CREATE, handled, size, 0))
    for path, rights in rules.items():
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib is slow to import
            rights &= RIGHTS_ON_FILES
        rule = struct.pack("=Qi", rights, place)
        check(f"landlock: {path}", LIBC.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0))
        os.close(place)
    check("landlock", LIBC.syscall(LANDLOCK_RESTRICT, ruleset, 0))
    os.close(ruleset)


def refuse_calls(program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    buffer = ctypes.create_string_buffer(filter_, len(filter_))
    check("seccomp", prctl(PR_SECCOMP, 2, ctypes.addressof(buffer)))


def become(plan: dict[str, Any], words: list[str]) -> NoReturn:
    restrict(plan["handled"], plan["rules"])
    refuse_calls(plan["filter"])
    os.execvp(words[0], words)


def end_all(*, is_confined: bool) -> None:
    """Kills all processes that the command started, even if they left its process group."""
    while True:  # the children of a killed process become children of this one
        for pid in [-1] if is_confined else list_children(os.getpid()):
            kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def list_children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children") as listed:  # noqa: PTH123
                found += map(int, listed.read().split())
    except OSError:
        pass  # the process has ended
    return found


def main() -> None:
    """Runs the command; exits with its exit code, or 128 plus the number of the fatal signal.

    All processes that the command started are killed before the launcher exits. If the parent of
    the launcher ends, the command is killed.
    """
    plan, words = marshal.loads(bytes.fromhex(sys.argv[1])), sys.argv[2:]
    drop_capabilities()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    prctl(PR_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != plan["parent"]:
        return
    check("subreaper", prctl(PR_SUBREAPER, 1))
    if plan["confined"]:  # signals then reach only processes started here; not on older kernels
        restrict(plan["confined"], plan["unconfined"])
    try:
        os.kill(plan["parent"], 0)
        is_confined = False
    except PermissionError:
        is_confined = True
    folder = f"/tmp/axe-nb-{os.urandom(8).hex()}"  # the only writable one besides the workdir
    os.mkdir(folder, 0o700)  # noqa: PTH102
    os.environ.update(TMPDIR=folder, HOME=folder)
    plan["rules"][folder] = plan["rules"]["."]
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
            signal.signal(number, signal.SIG_DFL)
        become(plan, words)
    signal.signal(signal.SIGTERM, lambda *_: kill(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    pid, status = os.waitpid(-1, 0)
    while pid != child:
        pid, status = os.waitpid(-1, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_all(is_confined=is_confined)
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        remove = ["sh", "-c", REMOVE, "sh", folder]
        if os.spawnv(os.P_WAIT, "/bin/sh", remove) < 0:  # killed instead of the command
            os.spawnv(os.P_WAIT, "/bin/sh", remove)
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        os.write(2, f"launcher: {error}\n".encode())
        os._exit(125)
