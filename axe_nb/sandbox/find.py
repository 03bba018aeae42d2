"""Defines the sandbox methods for commands, and chooses the strongest that works (D-82).

Level `full` uses bubblewrap or macOS's sandbox-exec, level `files` uses Landlock through axe_nb's
own launcher, and level `docker` runs each command in a container. The first two are tried with a
trivial command before use; for `docker`, only the image is checked.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from axe_nb.errors import ConfigError
from axe_nb.sandbox import seccomp
from axe_nb.sandbox.launcher import LANDLOCK_CREATE, LIBC
from axe_nb.sandbox.process import Launch, Level, Method, Process, find_program
from axe_nb.sandbox.view import View
from axe_nb.secrets import is_secret_name
from axe_nb.text import one_line, quote

BUBBLEWRAP = (
    "--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session",
)  # fmt: skip
NOT_PROMISED_TO_ROOT = ("it may change modes of devices such as /dev/null",)
"""Caveat for commands run as root. Devices are not mounted read-only, as this would break them."""
NO_NESTING = "--disable-userns"
"""bubblewrap option that forbids nested user namespaces; versions with it also have `--size`."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")

SETTINGS = (
    "alternatives", "crypto-policies", "fonts", "group", "hosts", "java", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "maven", "mime.types", "nsswitch.conf", "os-release",
    "passwd", "pki/ca-trust", "pki/java", "pki/nssdb", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf", "R", "resolv.conf", "services", "ssl/cert.pem", "ssl/certs",
    "ssl/openssl.cnf", "terminfo", "texmf", "timezone",
)  # fmt: skip
"""Files and folders in `/etc` that programs need and that hold no secrets. Each entry is
mounted separately, which takes 0.2 ms."""

SIZE = 1 << 30
"""Size limit of each tmpfs mount in bytes; set only together with `NO_NESTING`."""


def list_bubblewrap() -> Iterator[Method]:
    """Yields the bubblewrap methods, strictest first; none if bubblewrap is not installed."""
    if program := find_program("bwrap"):
        for flags in ((*BUBBLEWRAP, NO_NESTING), BUBBLEWRAP):
            yield Method(
                level="full",
                name="bubblewrap",
                ending="child",
                promises=(
                    "writes nothing outside the workdir, and no protected file in it",
                    "reads nothing in the home folder except toolchains",
                    "sees no other processes and none of the kernel's environment",
                    "leaves no process behind",
                ),
                not_promised=() if os.geteuid() else NOT_PROMISED_TO_ROOT,
                wrap=partial(_wrap_bubblewrap, (program, *flags)),
                protection="mounts",
            )


def _wrap_bubblewrap(start: Sequence[str], words: Sequence[str], view: View) -> Launch:
    """Wraps a command in bubblewrap, with a file system that contains only the mounted files."""
    mounts: list[str] = ["--share-net"] if view.network else []
    empty = ["--size", str(SIZE), "--tmpfs"] if NO_NESTING in start else ["--tmpfs"]
    for name in SYSTEM:
        if Path(name).is_symlink():
            mounts += ("--symlink", os.readlink(name), name)  # noqa: PTH115 - as written
        elif Path(name).is_dir():
            mounts += ("--ro-bind", name, name)
    for name in SETTINGS:
        if (path := Path("/etc", name)).exists():
            mounts += ("--ro-bind", str(path), str(path))
    # otherwise root could change kernel settings, and modes in /proc, for the whole machine
    mounts += ("--proc", "/proc", "--remount-ro", "/proc")
    mounts += ("--dev", "/dev", *empty, "/dev/shm", "--remount-ro", "/dev")
    for name in ("/tmp", "/run", "/var/tmp"):
        mounts += (*empty, name)
    if view.home != Path(view.home.anchor):
        mounts += (*empty, str(view.home))
    for path in view.readable:
        mounts += ("--ro-bind", str(path), str(path))
    for path in (view.workdir, *view.anchored):
        mounts += ("--bind", str(path), str(path))
    for path, seen in view.closed.items():
        if seen:
            mounts += ("--ro-bind", str(seen), str(path))
        else:
            mounts += (*empty, str(path), "--remount-ro", str(path))
    mounts += ("--remount-ro", "/", "--chdir", str(view.workdir))
    is_shared = view.network or view.workdir == view.home  # sockets of other programs are in reach
    families = seccomp.INTERNET if is_shared else (seccomp.UNIX, *seccomp.INTERNET)
    return Launch(
        words=[*start, *mounts, "--", *words],
        environment={"TMPDIR": "/tmp"},
        filter=seccomp.make_filter({**seccomp.KEYRINGS, **seccomp.allow_sockets(families)}),
    )


LAUNCHER = Path(__file__).with_name("launcher.py").read_text("utf-8")
"""Source code of the launcher; read at import, as a command could later change the file."""

MORE_SETTINGS = (
    "ca-certificates", "ca-certificates.conf", "debian_version", "gai.conf", "host.conf", "inputrc",
    "locale.alias", "magic", "magic.mime", "perl", "protocols", "python3", "python3.11",
    "redhat-release", "rpc", "wgetrc",
)  # fmt: skip
"""Further files and folders in `/etc` to make readable under Landlock. Landlock cannot hide them,
and programs may fail if they see a file but cannot read it."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

EXECUTE_OR_READ, READ_OR_WRITE_FILE, SIGNALS = 0b1101, 0b110, 0b10
ALL, ALL_BEFORE_5, MAKE_DEVICES, REFER = 0xFFFF, 0x7FFF, 1 << 6 | 1 << 11, 1 << 13
ALL_TCP, ALL_SCOPES = 0b11, 0b11

OLDEST_LANDLOCK = 3  # the first version that can forbid truncating files


def find_landlock_version() -> int:
    """Returns the kernel's Landlock version; less than 1 if Landlock is unavailable."""
    return int(LIBC.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1))


def list_landlock() -> Iterator[Method]:
    if not seccomp.is_supported():
        return
    version = find_landlock_version()
    if version >= OLDEST_LANDLOCK:
        signals = ("sends no signals to other processes", "leaves no process behind")
        yield Method(
            level="files",
            name=f"Landlock {version}",
            ending="child",
            promises=(
                "writes no file outside the workdir",
                "reads nothing in the home folder except toolchains",
                *(signals if version >= 6 else ()),
            ),
            not_promised=(
                "protected files in the workdir are only compared afterwards, and changes reported",
                "it may change a Python environment in the workdir",
                "it sees names of files and processes",
                "it may change modes and times of your files",
            ),
            wrap=partial(_wrap_landlock, version),
            protection="notes",
        )


def _wrap_landlock(version: int, words: Sequence[str], view: View) -> Launch:
    known = ALL if version >= 5 else ALL_BEFORE_5
    handled = struct.pack("=QQQ", known, 0 if view.network else ALL_TCP, ALL_SCOPES)
    settings = (f"/etc/{name}" for name in (*SETTINGS, *MORE_SETTINGS))
    facts = (f"/proc/{name}" for name in os.listdir("/proc") if not name.isdigit())  # noqa: PTH208
    readable = [*SYSTEM, *settings, *facts]
    families = seccomp.INTERNET if view.network else ()
    plan = {
        "handled": handled[: 24 if version >= 6 else 16 if version >= 4 else 8],
        "confined": struct.pack("=QQQ", REFER, 0, SIGNALS) if version >= 6 else b"",
        "unconfined": {"/": REFER},  # otherwise no later ruleset could allow it
        "rules": {
            **dict.fromkeys([*readable, *map(str, view.readable)], EXECUTE_OR_READ),
            **dict.fromkeys(DEVICES, READ_OR_WRITE_FILE),
            ".": known & ~MAKE_DEVICES,
        },
        "filter": seccomp.make_filter(
            {**seccomp.KEYRINGS, **seccomp.OTHER_PROGRAMS, **seccomp.allow_sockets(families)}
        ),
        "parent": os.getpid(),
    }
    base = getattr(sys, "_base_executable", "") or sys.executable  # no workdir can change it
    python = [os.path.realpath(base), "-I", "-S", "-c", LAUNCHER]
    return Launch(
        words=[*python, marshal.dumps(plan).hex(), *words],
        # git would fail on system settings that it cannot read
        environment={"GIT_CONFIG_NOSYSTEM": "1"},
    )


SANDBOX_EXEC = "/usr/bin/sandbox-exec"

OF_MACOS = (
    "/usr", "/bin", "/sbin", "/opt", "/System", "/Library", "/Applications/Xcode.app", "/dev",
    "/nix/store", "/private/etc", "/private/var/db/dyld", "/private/var/db/timezone",
    "/private/var/select",
)  # fmt: skip

PROFILE = """\
(version 1)
(deny default)
(allow process-exec process-fork sysctl-read file-read-metadata)
(allow signal process-info* (target same-sandbox))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem ipc-posix-shm)
(allow pseudo-tty)
(allow file-read* (literal "/"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))"""


def list_seatbelt() -> Iterator[Method]:
    if Path(SANDBOX_EXEC).is_file():
        yield Method(
            level="full",
            name="sandbox-exec",
            ending="group",
            promises=(
                "writes nothing outside the workdir and the folder for temporary files, and no "
                "protected file in the workdir",
                "reads nothing in the home folder except toolchains",
            ),
            not_promised=(
                "it sees other processes",
                "a process that leaves its process group is not ended",
            ),
            wrap=lambda words, view: Launch(words=[SANDBOX_EXEC, "-p", make_profile(view), *words]),
            protection="rules",
        )


def make_profile(view: View) -> str:
    """Formats a view as a sandbox-exec profile, in which the last matching rule applies."""
    temporary = os.path.realpath(tempfile.gettempdir())
    hidden = [path for path, seen in view.closed.items() if seen != path]
    work = [view.workdir, Path(temporary)]
    rules = [
        PROFILE,
        _rule("allow file-read*", "subpath", [*map(Path, OF_MACOS), *view.readable, *work]),
        _rule("allow file-write*", "subpath", work),
        _rule("deny file-write*", "subpath", [*view.names, *view.closed]),
        _rule("deny file-write-unlink", "literal", view.anchored),
        _rule("deny file-read* file-write*", "subpath", hidden),
        "(allow network*)" if view.network else "",
    ]
    return "\n".join(filter(None, rules))


def _rule(start: str, kind: str, paths: Iterable[Path]) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"'})
    filters = [f'({kind} "{str(path).translate(escapes)}")' for path in paths]
    return f"({start} {' '.join(filters)})" if filters else ""


CONTAINER = (
    "run", "--rm", "--init", "--interactive", "--pull", "never", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges", "--read-only", "--pids-limit", "4096",
    "--tmpfs", "/tmp:exec", "--env", "HOME=/tmp", "--env", "TMPDIR=/tmp", "--env", "TERM=dumb",
)  # fmt: skip

OF_CLIENT = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
"""Environment variables that the docker client itself needs to reach its daemon."""

OF_PROGRAMS = re.compile(r"(DOCKER|LD|DYLD|XDG)_.*|PATH|HOME|TMPDIR", re.IGNORECASE)
"""Pattern for variables of the container whose names would affect the docker client itself."""

ANSWER = 20.0


def make_docker(image: str) -> Method:
    """Creates the method for a Docker image. Raises ConfigError if the image cannot be used."""
    program = find_program("docker")
    problem = "docker is not installed"
    if program:
        asked = [program, "image", "inspect", "--format", "{{.Id}}", "--", image]
        try:
            done = subprocess.run(
                asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER
            )
            said = done.stderr.decode("utf-8", "replace")
            problem = quote(one_line(said, 200)) if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired):
            problem = f"docker did not answer within {ANSWER:.0f} s"
    if problem:
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
        wrap=partial(wrap_docker, program, image),
        protection="mounts",
    )


def wrap_docker(program: str, image: str, words: Sequence[str], view: View) -> Launch:
    name = f"axe-nb-{os.urandom(8).hex()}"
    found = [program, *CONTAINER, "--name", name, "--workdir", str(view.workdir)]
    if not view.network:
        found += ["--network", "none"]
    if os.name == "posix":
        found += ["--user", f"{os.getuid()}:{os.getgid()}"]
    environment = {key: os.environ[key] for key in OF_CLIENT if key in os.environ}
    for variable, value in view.variables.items():
        if OF_PROGRAMS.fullmatch(variable) and not is_secret_name(variable):
            found += ["--env", f"{variable}={value}"]
        else:  # without the value, as other processes can read arguments
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
    fields = ["type=tmpfs", f"target={target}"]
    if source:
        fields = ["type=bind", f"source={source}", f"target={target}", *more]
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _start_plainly(words: Sequence[str], view: View) -> Launch:
    if os.name != "nt":
        setpriv = find_program("setpriv")  # kills it when the thread that started it ends
        return Launch(words=[*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *words])
    if words[1:2] != ["/c"]:
        return Launch(words=words)
    program, option, command = words  # cmd.exe splits its line itself
    return Launch(words=f'{program} {option} "{command}"')


PLAIN = Method(
    level="none",
    name="",
    ending="group",
    promises=(),
    not_promised=("it can do anything you can",),
    wrap=_start_plainly,
    protection="none",
)
"""Method that runs a command without a sandbox, but in a process group of its own."""

METHODS: Mapping[str, Sequence[Callable[[], Iterable[Method]]]] = {
    "linux": (list_bubblewrap, list_landlock),
    "darwin": (list_seatbelt,),
}

is_caged = False
"""True if this process, and thus every program that it starts, runs in a sandbox."""

TRIAL = 10.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox method for this machine, and the files and network that commands may use."""

    method: Method
    view: View
    is_off: bool = False

    @property
    def level(self) -> Level:
        return self.method.level

    @property
    def promises(self) -> tuple[str, ...]:
        network = () if self.view.network or self.level == "none" else ("reaches no network",)
        return (*self.method.promises, *network)

    @property
    def label(self) -> str:
        """Short description of the sandbox for approval prompts and views."""
        if self.level == "none":
            return "sandbox turned off" if self.is_off else "no sandbox here"
        name = self.method.name if self.level == "docker" else self.level
        return self.portable_label.replace(",", f" ({name}),")

    @property
    def portable_label(self) -> str:
        """The label without the level, which would make saved notebooks depend on the machine."""
        if self.level == "none":
            return self.label
        return f"in a sandbox, {'with network' if self.view.network else 'no network'}"

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], files: tuple[int, int, int]
    ) -> Process:
        return Process(self.method, self.view, words, environment, files)


def find_sandbox(setting: str, view: View) -> Sandbox:
    """Returns the sandbox for a setting: `auto` (strongest that works), `off` or `docker:IMAGE`.

    If no method works, `auto` runs commands without a sandbox. Raises ConfigError if docker cannot
    be used, or if the workdir is the home folder and its keys cannot be hidden.
    """
    if setting == "off" or is_caged:
        return Sandbox(PLAIN, view, is_off=True)
    if setting.startswith("docker:"):
        return Sandbox(make_docker(setting.removeprefix("docker:")), view)
    method = next((m for m in list_methods() if _works(m, view)), PLAIN)
    if method.protection == "notes" and view.workdir == view.home:
        raise ConfigError(
            f"the workdir {view.workdir} is the home folder, and its keys cannot be hidden here",
            hint='use a project folder as workdir, or set sandbox = "off"',
        )
    return Sandbox(method, view)


def list_methods() -> Iterator[Method]:
    for listed in METHODS.get(sys.platform, ()):
        yield from listed()


_tried: dict[tuple[object, ...], bool] = {}
_lock = threading.Lock()


def _works(method: Method, view: View) -> bool:
    """True if the method can run `/bin/true`; the protection of files is not tested."""
    words = method.wrap(["/bin/true"], view).words
    key = (os.stat(words[0]).st_mtime_ns, *words)  # noqa: PTH116
    with _lock:
        if key not in _tried:
            files = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
            trial = Process(replace(method, protection="none"), view, ["/bin/true"], {}, files)
            if trial.wait(TRIAL):  # after a timeout, which may come from a busy machine, try again
                _tried[key] = trial.code == 0
            trial.kill()
        return _tried.get(key, False)
