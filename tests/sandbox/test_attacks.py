"""What a command tries, in each sandbox, as root and as an ordinary user.

A control is the same attack with one flag or line taken away: it succeeds, so each is needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import not_run
from tests.sandbox.cages import FULL, SECRET, Cage, canary, server, unique, users

pytestmark = pytest.mark.req("D-82")

PYTHON = "/usr/bin/python3 -c"

OF_LAUNCHER = {
    "filter": ('    refuse_calls(plan["filter"])\n', ""),
    "files": ('    restrict(plan["handled"], plan["rules"])\n', ""),
}
"""A line of the launcher, and what stands there in a control."""


def control(cage: Cage, *without: Sequence[str]) -> Cage:
    return dataclasses.replace(cage, without=without)


def test_an_ordinary_command_works_and_a_signal_that_ends_it_is_told(cage: Cage) -> None:
    ended = cage.run("echo hi > a.txt; cat a.txt; pwd; ulimit -c; exit 3")
    assert (ended.code, ended.output) == (3, f"hi\n{cage.work}\n0\n")
    assert (cage.work / "a.txt").read_text() == "hi\n"
    assert cage.run("kill -TERM $$").code == -15
    assert cage.run("kill -KILL $$").code == -9


def test_keys_home_and_other_folders_cannot_be_read(cage: Cage) -> None:
    ended = cage.run("env; cat /proc/*/environ /proc/*/task/*/environ 2>/dev/null; ps eww -e")
    assert SECRET not in ended.output
    other = cage.base / "other"
    ended = cage.run(f"cat {cage.home}/.ssh/id_rsa {other}/secret.txt; ls {cage.home}/.ssh {other}")
    assert SECRET not in ended.output
    assert "id_rsa\n" not in ended.output
    assert "cannot open" in ended.output or "No such file" in ended.output
    assert cage.run("cat /etc/shadow").code == 1


def test_nothing_outside_the_workdir_is_written(cage: Cage) -> None:
    home, other = cage.home, cage.base / "other"
    cage.run(
        f"""
        echo x > {home}/new; echo x > {home}/.bashrc; echo x >> {home}/.ssh/id_rsa
        rm -rf {home}/.ssh {other}; truncate -s 0 {other}/secret.txt; mv {other} {other}2
        ln {other}/secret.txt hard; echo x > hard
        ln -s {other}/secret.txt soft; echo x > soft
        mkdir {other}/sub; cp a {other}/b; touch {cage.base}/new /usr/new /etc/new
        """
    )
    assert sorted(path.name for path in home.iterdir()) == [".ssh", "work"]
    assert (home / ".ssh" / "id_rsa").read_text() == SECRET
    assert [path.name for path in other.iterdir()] == ["secret.txt"]
    assert (other / "secret.txt").read_text() == SECRET
    assert not any(Path(folder, "new").exists() for folder in (cage.base, "/usr", "/etc"))


CONNECT = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); "
    "s.connect(sys.argv[1].replace('@', chr(0))); print('connected')"
)


@pytest.mark.parametrize(
    ("method", "without", "command", "evidence"),
    [
        (
            "Landlock",
            OF_LAUNCHER["files"],
            "echo x > {other}/secret.txt && echo written",
            "written",
        ),
        ("bubblewrap", ["--unshare-all"], "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", "{sleep}"),
        ("bubblewrap", ["--disable-userns"], "unshare --user true && echo nested", "nested"),
    ],
)
def test_without_its_flag_an_attack_succeeds(
    cage: Cage, without: Sequence[str], command: str, evidence: str
) -> None:
    with canary() as sleeper:
        sleep = str(sleeper.args[1])  # type: ignore[index]
        ended = control(cage, without).run(command.format(other=cage.base / "other"))
    assert evidence.format(sleep=sleep) in ended.output


@pytest.mark.parametrize("network", [False, True])
def test_a_server_is_reached_with_a_network_only(cage: Cage, network: bool) -> None:
    command = (
        "echo x > /dev/tcp/127.0.0.1/{port}; echo x > /dev/udp/127.0.0.1/{port}; sleep 0.2; "
        f"{PYTHON} 'import socket; print(socket.if_nameindex())'"
    )
    with server() as (port, reached):
        ended = cage.run(command.format(port=port), network=network)
    assert reached == (["tcp", "udp"] if network else [])
    assert "'lo'" in ended.output or not network


@pytest.mark.parametrize(
    ("method", "without"),
    [("bubblewrap", ["--unshare-all"]), ("Landlock", OF_LAUNCHER["filter"])],
)
def test_without_its_flag_a_server_is_reached(cage: Cage, without: Sequence[str]) -> None:
    with server() as (port, reached):
        control(cage, without).run(f"echo x > /dev/udp/127.0.0.1/{port}")
    assert reached == ["udp"]


@pytest.mark.parametrize("network", [False, True])
def test_no_socket_of_another_program_is_reached_outside_the_workdir(
    cage: Cage, network: bool
) -> None:
    """One that another program keeps in the workdir is, at `full`, unless there is a network."""
    addresses = [unix_address(cage, kind) for kind in ("file", "abstract", "file in the workdir")]
    script = "".join(f'{PYTHON} "{CONNECT}" {address}; echo =$?=\n' for address in addresses)
    with contextlib.ExitStack() as opened:
        for address in addresses:
            opened.enter_context(listening(address))
        ended = cage.run(script, network=network)
    last = 0 if cage.method in FULL and not network else 1
    codes = [line for line in ended.output.splitlines() if line.startswith("=")]
    assert codes == ["=1=", "=1=", f"={last}="], ended.output


PAIR = (
    "import socket, sys; s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); "
    "s.sendto(b'x', sys.argv[1].replace('@', chr(0))); print('sent')"
)


@pytest.mark.parametrize("network", [False, True])
def test_no_socket_is_reached_from_a_pair_of_sockets(cage: Cage, network: bool) -> None:
    """A pair of datagram sockets can send to any other."""
    addresses = [unix_address(cage, "file"), unix_address(cage, "abstract")]
    with contextlib.ExitStack() as opened:
        for address in addresses:
            own = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            own.bind(address.replace("@", chr(0)))
        script = "".join(f'{PYTHON} "{PAIR}" {address}\n' for address in addresses)
        assert "sent" not in cage.run(script, network=network).output
    streams = f"{PYTHON} 'import socket; print(len(socket.socketpair()))'"
    assert cage.run(streams, network=network).output == "2\n"


@pytest.mark.parametrize("method", FULL)
def test_no_socket_in_the_home_folder_is_reached_where_the_workdir_is_home(cage: Cage) -> None:
    """Docker and agents that hold keys listen there."""
    folder = cage.home / ".agent"
    folder.mkdir()
    with listening(f"{folder}/socket"):
        command = f'{PYTHON} "{CONNECT}" {folder}/socket'
        assert "connected" not in cage.run(command, workdir=cage.home).output


@pytest.mark.parametrize("method", ["bubblewrap"])
def test_without_the_filter_an_abstract_socket_is_reached(cage: Cage) -> None:
    address = unix_address(cage, "abstract")
    with listening(address):
        weak = control(cage, ["--seccomp"])
        ended = weak.run(f'{PYTHON} "{CONNECT}" {address}', network=True)
    assert "connected" in ended.output


def unix_address(cage: Cage, kind: str) -> str:
    name = f"axe-nb-{unique()}"
    folder = cage.base / "other" if kind == "file" else cage.work
    return f"@{name}" if kind == "abstract" else f"{folder}/socket"


@contextlib.contextmanager
def listening(address: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address.replace("@", "\0"))
        if not address.startswith("@"):
            Path(address).chmod(0o777)
        server.listen()
        yield


def test_other_processes_are_neither_seen_nor_ended(cage: Cage) -> None:
    with canary() as sleeper:
        ended = cage.run(
            f"kill -9 {sleeper.pid}; kill -9 -1; kill -9 -- -{os.getpgid(0)}; ps -eo args; "
            "cat /proc/[0-9]*/cmdline"
        )
        assert sleeper.poll() is None
        if cage.method in FULL:
            assert str(sleeper.args[1]) not in ended.output  # type: ignore[index]


MOUNTS = """
mount -o remount,rw,bind {work}/.git/config; umount {work}/.git/config; umount -l {home}
umount {work}/.git; echo evil >> .git/config; mount -t tmpfs none {home}; chroot / true
"""


def test_nothing_is_mounted_or_unmounted(cage: Cage) -> None:
    config = cage.work / ".git" / "config"
    before = config.read_text()
    ended = cage.run(MOUNTS.format(work=cage.work, home=cage.home))
    if cage.method in FULL:
        assert config.read_text() == before
    else:  # seen, not prevented
        assert ended.notes == ('".git/config" is protected, and was changed',)


def test_settings_of_the_kernel_are_not_written(cage: Cage) -> None:
    ended = cage.run(
        "find /proc -maxdepth 3 -not -path '/proc/[0-9]*' -not -path '/proc/self*' "
        "-not -path '/proc/thread-self*' -not -path '/proc/pressure/*' -not -type l "
        "-writable 2>/dev/null; "
        "true >> /proc/sys/kernel/core_pattern && echo /opened; "
        "true >> /proc/sysrq-trigger && echo /opened"
    )
    found = [line for line in ended.output.splitlines() if line.startswith("/")]
    assert [line for line in found if "launcher" not in line and "bash" not in line] == []


@pytest.mark.parametrize("method", FULL)
def test_modes_of_the_machine_are_not_changed(cage: Cage) -> None:
    """The kernel keeps them once for the whole machine, even where it is mounted anew."""
    names = ("/proc/dma", "/proc/stat")
    before = [Path(name).stat().st_mode for name in names]
    cage.run(f"chmod a+x,a+w {' '.join(names)}")
    assert [Path(name).stat().st_mode for name in names] == before


@pytest.mark.parametrize("method", FULL)
@pytest.mark.parametrize("uid", users()[:1])
def test_without_its_mount_root_changes_modes_of_the_machine(cage: Cage) -> None:
    if cage.uid:
        not_run("only root may change them at all")
    change = "chmod 445 /proc/version && stat -c %a /proc/version; chmod 444 /proc/version"
    assert control(cage, ["--remount-ro", "/proc"]).run(change).output == "445\n"


def test_there_is_no_terminal_no_namespace_and_no_host_of_a_virtual_machine(cage: Cage) -> None:
    ended = cage.run("tty; : < /dev/tty")
    assert "not a tty" in ended.output
    assert ended.code
    nested = cage.run("unshare --user --map-root-user --mount true && echo nested")
    assert "nested\n" not in nested.output
    asked = cage.run(f"{PYTHON} 'import socket; print(socket.socket(socket.AF_VSOCK))'")
    assert "Permission denied" in asked.output


DATABASE = """
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
initdb -D data -A trust > made || cat made
pg_ctl -D data -w -l log -o "-k {sockets} -c listen_addresses=" start > started || cat log
psql -h {sockets} -d postgres -Atc 'select 6 * 7'
pg_ctl -D data -w -m fast stop > stopped
"""


@pytest.mark.parametrize("method", FULL)
@pytest.mark.parametrize("sockets", ["$PWD", "/tmp"])
def test_a_database_server_is_started_and_asked(cage: Cage, sockets: str) -> None:
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        pytest.skip("not run: there is no PostgreSQL (Debian: sudo apt-get install postgresql)")
    if not cage.uid:
        pytest.skip("its server refuses root")
    assert cage.run(DATABASE.format(sockets=sockets)).output == "42\n"


def test_no_temporary_files_are_left(cage: Cage) -> None:
    folder = cage.base / "temporary"
    folder.mkdir()
    os.chown(folder, cage.uid, cage.uid)
    cage.environ["TMPDIR"] = str(folder)
    cage.run("echo x > $TMPDIR/x; mkdir $TMPDIR/a; ln -s / $TMPDIR/a/root")
    assert list(folder.iterdir()) == []


def test_the_sandbox_is_started_by_a_program_of_the_system(cage: Cage) -> None:
    for name in ("bwrap", "unshare", "setpriv"):
        (cage.work / name).write_text("#!/bin/sh\ntouch $HOME/taken\n")
        (cage.work / name).chmod(0o755)
    cage.environ["PATH"] = f"{cage.work}:/usr/bin:/bin"
    assert cage.run("echo hi").output == "hi\n"
    assert not (cage.home / "taken").exists()
