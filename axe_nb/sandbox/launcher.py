"""Restricts itself, then runs a command: a program of its own, started as `python -I -S`.

    launcher.py PLAN WORD...

PLAN is a dict, marshalled, in hexadecimal: `read`, `write` and `files`, paths for Landlock;
`workdir` and its `identity`; `parent`; `network`; `filter`, system calls to refuse.
It imports the standard library alone, and little of it, as it starts with every command.
Source: D-82; safety-facts §2, §4.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn
else:  # what `signal` and `typing` import takes longer than all the rest
    import _signal as signal

LIBC = ctypes.CDLL(None, use_errno=True)
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
PR_PDEATHSIG, PR_SECCOMP, PR_DROP, PR_SUBREAPER, PR_NO_NEW_PRIVS, PR_AMBIENT = 1, 22, 24, 36, 38, 47
REMOVING = 10
"""Seconds that it may take to remove temporary files."""
REMOVE = 'chmod -R u+rwx "$1"; exec rm -rf "$1"'

EXECUTE_OR_READ, READ_FILE, WRITE_FILE = 0b1101, 0b100, 0b10
ON_FILES = 0b1100000000000111
"""Landlock: rights that a file can have."""
ALL, ALL_BEFORE_5 = 0xFFFF, 0x7FFF
MAKE_DEVICES = 1 << 6 | 1 << 11
SCOPED_SIGNALS, OLDEST_SCOPED = 0b10, 6


class Refused(Exception):
    """The kernel refuses a step."""


def call(name: str, result: int) -> int:
    """Returns the result of a system call.

    Raises:
        Refused: it failed.
    """
    if result < 0:
        raise Refused(f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


def prctl(*arguments: int) -> int:
    """Calls prctl, whose arguments are all long."""
    padded = (*arguments, 0, 0, 0, 0)[:5]
    return int(LIBC.prctl(*(ctypes.c_ulong(argument) for argument in padded)))


def find_landlock_version() -> int:
    """Returns the version of Landlock in this kernel; 0 if it is missing or not permitted."""
    return max(0, int(LIBC.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)))


def restrict_files(plan: dict[str, Any]) -> None:
    """Allows the paths of a plan, signals to its own processes, and nothing else."""
    version = find_landlock_version()
    known = ALL if version >= 5 else ALL_BEFORE_5
    network = 0 if plan["network"] or version < 4 else 0b11
    handled = struct.pack("=QQQ", known, network, 0b11)[: 24 if version >= 6 else 16]
    size = ctypes.c_size_t(len(handled) if version >= 4 else 8)
    ruleset = call("landlock", LIBC.syscall(LANDLOCK_CREATE, handled, size, 0))
    for rights, paths in (
        (EXECUTE_OR_READ, plan["read"]),
        (ALL & ~MAKE_DEVICES, plan["write"]),
        (READ_FILE | WRITE_FILE, plan["files"]),
    ):
        for path in paths:
            is_workdir = path == plan["workdir"]
            allow(ruleset, path, rights & known, plan["identity"] if is_workdir else "")
    call("landlock", LIBC.syscall(LANDLOCK_RESTRICT, ruleset, 0))


def allow(ruleset: int, path: str, rights: int, identity: str = "") -> None:
    """Adds a path to a ruleset, if it exists and is what it was."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):  # noqa: PTH112 - pathlib is slow to import
        rights &= ON_FILES
    found = os.fstat(place)
    if identity not in ("", f"{found.st_dev}:{found.st_ino}"):
        raise Refused(f"{path} was replaced while the command started; try again")
    rule = struct.pack("=Qi", rights, place)
    call(f"landlock: {path}", LIBC.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0))
    os.close(place)


def drop_capabilities() -> None:
    """Gives up all capabilities, also those that root would get back with the next program."""
    for capability in range(64):
        prctl(PR_DROP, capability)
    prctl(PR_AMBIENT, 4)
    header = struct.pack("=Ii", 0x20080522, 0)
    call("capset", LIBC.capset(header, bytes(24)))


def refuse_calls(program: bytes) -> None:
    """Installs a filter of system calls, which children inherit."""
    steps = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    buffer = ctypes.create_string_buffer(filter_, len(filter_))
    call("seccomp", prctl(PR_SECCOMP, 2, ctypes.addressof(buffer)))


def become(plan: dict[str, Any], words: list[str]) -> NoReturn:
    """Restricts this process for good and becomes the command."""
    try:
        os.chdir(plan["workdir"])
        drop_capabilities()
        call("no_new_privs", prctl(PR_NO_NEW_PRIVS, 1))
        restrict_files(plan)
        refuse_calls(bytes.fromhex(plan["filter"]))
        os.execvp(words[0], words)
    except (Refused, OSError) as error:
        os.write(2, f"launcher: {error}\n".encode())
    os._exit(125)


def make_folder(plan: dict[str, Any]) -> str:
    """Makes a folder for temporary files, as those of others are out of sight."""
    folder = f"/tmp/axe-nb-{os.urandom(8).hex()}"
    os.mkdir(folder, 0o700)  # noqa: PTH102
    os.environ.update(TMPDIR=folder, HOME=folder)
    plan["write"].append(folder)
    return folder


def remove(folder: str) -> None:
    """Removes a folder, with programs that know folders of any depth and follow no link."""
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        child = os.fork()
        if not child:
            signal.alarm(REMOVING)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.execv("/bin/sh", ["sh", "-c", REMOVE, "sh", folder])
        os.waitpid(child, 0)


def confine_signals(outside: int) -> bool:
    """Lets signals reach only what this process starts; returns true if `outside` is out of reach.

    Older kernels cannot do it.
    """
    if find_landlock_version() < OLDEST_SCOPED:
        return False
    call("no_new_privs", prctl(PR_NO_NEW_PRIVS, 1))
    handled = struct.pack("=QQQ", 0, 0, SCOPED_SIGNALS)
    ruleset = LIBC.syscall(LANDLOCK_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    call("landlock", LIBC.syscall(LANDLOCK_RESTRICT, call("landlock", ruleset), 0))
    return bool(LIBC.kill(outside, 0)) and ctypes.get_errno() == 1


def end_all(*, is_confined: bool) -> None:
    """Kills all processes that came from the command, those that left its group included.

    If signals are confined, -1 means exactly these, all at one moment.
    """
    while True:
        try:
            for pid in [-1] if is_confined else list_descendants(os.getpid()):
                kill(pid)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        except Exception:
            pass  # what is left would go on
        signal.sigtimedwait({signal.SIGCHLD}, 0.002)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def list_descendants(pid: int) -> list[int]:
    """Returns the processes below one, however deep."""
    found = [pid]
    for parent in found:  # which grows meanwhile
        found += list_children(parent)
    return found[1:]


def list_children(pid: int) -> list[int]:
    """Returns the processes that the threads of one started."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children") as listed:  # noqa: PTH123
                found += map(int, listed.read().split())
    except OSError:
        pass  # it has ended
    return found


def main() -> None:
    """Runs the command and exits with its code, or 128 and its signal, when all has ended."""
    plan, words = marshal.loads(bytes.fromhex(sys.argv[1])), sys.argv[2:]
    prctl(PR_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != plan["parent"]:
        return
    folder = make_folder(plan)
    call("subreaper", prctl(PR_SUBREAPER, 1))
    is_confined = confine_signals(plan["parent"])

    def stop(code: int) -> NoReturn:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
            end_all(is_confined=is_confined)
            remove(folder)
        finally:
            os._exit(code)

    signal.signal(signal.SIGTERM, lambda *_: stop(128 + signal.SIGTERM))
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        become(plan, words)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            stop(128 - code if code < 0 else code)


if __name__ == "__main__":
    try:
        main()
    except (Refused, OSError) as error:
        os.write(2, f"launcher: {error}\n".encode())
        sys.exit(125)
