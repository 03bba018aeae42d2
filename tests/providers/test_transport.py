"""Connections over httpx: when a request is sent once more, what is closed, and what is left."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.errors import ProviderError
from axe_nb.providers import transport
from axe_nb.providers.openai import OpenAI
from axe_nb.providers.transport import make_client
from tests.providers.conftest import OwnCA
from tests.providers.dialects import KEY, ask, send_all
from tests.providers.raw_server import HELLO, SECONDS, Peer, always, raw_server, reply
from tests.waiting import eventually


async def send(url: str, *, read_timeout: float | None = SECONDS) -> str:
    info = replace(PROVIDERS["openai"], read_timeout=read_timeout)
    return (await OpenAI(url, KEY, info).send(ask())).content


def client_of(url: str) -> httpx.AsyncClient:
    """A client as requests to models have it, which keeps 20 idle connections."""
    client = make_client(httpx.URL(url), ("", ""), 20)
    client.timeout = httpx.Timeout(SECONDS)
    return client


def first_then(second: Callable[[Peer], None]) -> Callable[[Peer], None]:
    """Answers every request, but the second one on the first connection by `second`."""

    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(reply())
        peer.read()
        if peer.number == 0:
            second(peer)
            return
        peer.send(reply())

    return answer


def once(data: bytes) -> Callable[[Peer], None]:

    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(data)

    return answer


LOST = {"closed": lambda peer: None, "reset": Peer.reset}


@pytest.mark.req("D-23")
@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_request_on_a_kept_connection_that_is_closed_unanswered_is_sent_once_more(
    lose: Callable[[Peer], None],
) -> None:
    with raw_server(first_then(lose)) as server:
        assert send_all(server.url, server.url) == ["hello", "hello"]
        assert [asked.connection for asked in server.requests] == [0, 0, 1]
        assert server.requests[1].body == server.requests[2].body


@pytest.mark.req("D-23")
@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_request_whose_reply_has_begun_is_never_sent_again(begun: bytes) -> None:
    with raw_server(first_then(lambda peer: peer.send(begun))) as server:
        _, failed = send_all(server.url, server.url)
        assert failed.startswith(f"the connection to {server.url} failed: ")
        assert len(server.requests) == 2


@pytest.mark.req("D-23")
def test_a_request_is_sent_once_more_but_not_twice() -> None:
    def answer(peer: Peer) -> None:
        while peer.read() and not peer.number and len(server.requests) < 2:
            peer.send(reply())

    with raw_server(answer) as server:
        assert send_all(server.url, server.url)[1].count("without a reply") == 1
        assert [asked.connection for asked in server.requests] == [0, 0, 1]


@pytest.mark.req("D-23", "D-25")
def test_a_connection_that_was_closed_while_the_loop_was_blocked_is_not_used() -> None:
    """A long cell: what the server did meanwhile lies in the socket, unread by the loop."""
    with raw_server(once(reply())) as server:

        def block() -> None:
            assert server.closed.acquire(timeout=SECONDS)
            time.sleep(0.05)  # as the loop does not run, so does a cell

        assert send_all(*[server.url] * 3, between=block) == ["hello"] * 3
        assert [asked.connection for asked in server.requests] == [0, 1, 2]


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.req("B-5")
@pytest.mark.parametrize(
    "data",
    [
        b"", b"HTTP/1.1 200 OK\r\ncontent-", reply()[:-5], CHUNKED + b"5\r\n{",
        CHUNKED + b"1\r\n{\r\n", b"SSH-2.0-OpenSSH\r\n", CHUNKED + b"ZZ\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 600_000, b"HTTP/1.1 102 Wait\r\n\r\n" * 30_000,
    ],
    ids=range(10),
)  # fmt: skip
def test_a_reply_that_breaks_off_or_is_wrong_is_a_server_error(data: bytes) -> None:
    with raw_server(once(data)) as server:
        (failed,) = send_all(server.url)
        assert failed.startswith(f"the connection to {server.url} failed: ")
        assert len(server.requests) == 1


def run_in_uvloop(work: Coroutine[Any, Any, Any]) -> Any:
    uvloop = pytest.importorskip("uvloop", reason="uvloop does not exist for Windows")
    return uvloop.run(work)


each_loop = pytest.mark.parametrize("run", [asyncio.run, run_in_uvloop], ids=["asyncio", "uvloop"])


@each_loop
@pytest.mark.req("D-25", "X-19", "O-2")
def test_providers_of_one_base_url_share_a_connection(run: Any, context: Any) -> None:
    async def several(url: str) -> None:
        for _ in range(3):
            assert await send(url) == "hello"

    with raw_server(always(reply()), context) as server:
        run(several(server.url))
        assert {asked.connection for asked in server.requests} == {0}


@each_loop
@pytest.mark.req("D-8")
@pytest.mark.parametrize("sent", [b"", reply()[:-5]], ids=["before a reply", "within a reply"])
def test_cancelling_closes_the_connection_at_once(run: Any, context: Any, sent: bytes) -> None:
    closed = threading.Event()

    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(sent)
        if peer.wait_until_closed():
            closed.set()

    async def cancel(url: str) -> None:
        sending = asyncio.create_task(send(url))
        assert await asyncio.to_thread(server.asked.acquire, timeout=SECONDS)
        await asyncio.sleep(0.05)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        # the loop lives on: it is not its end that closes the connection
        assert await asyncio.to_thread(closed.wait, SECONDS)

    with raw_server(answer, context) as server:
        run(cancel(server.url))


def open_files() -> set[str]:
    files = Path("/proc/self/fd")
    found = files.iterdir() if files.exists() else ()
    return {str(file.readlink()) for file in found if file.is_symlink()}


@pytest.mark.req("D-8")
def test_2000_requests_cancelled_at_random_moments_leave_nothing() -> None:
    def answer(peer: Peer) -> None:
        while True:
            peer.read()
            peer.send(reply()[:-5])
            time.sleep(0.002)
            peer.send(reply()[-5:])

    async def cancel(url: str) -> int:
        chance = random.Random(20)
        async with client_of(url) as client:
            for _ in range(40):
                sending = [asyncio.create_task(client.post(url, content=b"x")) for _ in range(50)]
                for task in sending:
                    asyncio.get_running_loop().call_later(chance.random() * 0.05, task.cancel)
                await asyncio.wait(sending)
                failed = {task.exception() for task in sending if not task.cancelled()}
                assert failed <= {None}
            right = await asyncio.gather(*(client.post(url, content=b"x") for _ in range(20)))
            assert {found.content for found in right} == {HELLO}
            return len(client._transport.idle)

    before = set(open_files())  # of other tests in this process
    with raw_server(answer) as server:
        assert asyncio.run(cancel(server.url)) <= 20
        for _ in range(server.connections):
            assert server.closed.acquire(timeout=SECONDS)
        left = [name for name in set(open_files()) - before if name.startswith("socket:")]
    gc.collect()
    assert len(left) < 20, "those of the test itself"


@pytest.mark.req("B-5")
@pytest.mark.parametrize("sent", [b"", reply()[:-5]], ids=["before a reply", "within a reply"])
def test_a_server_that_is_silent_is_a_timeout_that_names_it(sent: bytes) -> None:
    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(sent)
        peer.wait_until_closed()

    with raw_server(answer) as server:
        with pytest.raises(ProviderError) as raised:
            asyncio.run(send(server.url, read_timeout=0.3))
        assert str(raised.value) == f"timeout: no data from {server.url} within 0.3s"
        assert raised.value.hint == "raise read_timeout under [providers.openai] in config.toml"
        assert server.closed.acquire(timeout=SECONDS)


@pytest.mark.req("D-25")
def test_a_connection_that_was_idle_for_its_time_is_closed_and_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "IDLE_SECONDS", 0.1)

    async def wait(url: str) -> None:
        await send(url)
        await asyncio.sleep(0.2)
        assert await send(url) == "hello"
        assert await asyncio.to_thread(server.closed.acquire, timeout=SECONDS)

    with raw_server(always(reply())) as server:
        asyncio.run(wait(server.url))
        assert [asked.connection for asked in server.requests] == [0, 1]


BEGIN = """
import asyncio, logging
logging.getLogger("asyncio").setLevel(logging.ERROR)  # slow machines are no fault
from axe_nb.messages import Message, Request
from axe_nb.providers.openai import OpenAI
provider = OpenAI({url!r}, "k")
request = Request("m", (Message("user", "hi"),))
async def turn():
    print((await provider.send(request)).content)
"""

UNDER_WAY = """
async def leave():
    task = asyncio.create_task(provider.send(request))
    await asyncio.sleep(0.01)
asyncio.run(leave())
"""


@pytest.mark.req("D-25")
@pytest.mark.parametrize("end", ["asyncio.run(turn())", UNDER_WAY])
def test_the_end_of_a_process_is_silent(end: str, context: Any, own_ca: OwnCA) -> None:
    with raw_server(always(reply()), context) as server:
        script = BEGIN.format(url=server.url) + end
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", script],
            capture_output=True, text=True, timeout=60, check=False,
            env=os.environ | {"SSL_CERT_FILE": str(own_ca.file)},
        )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.req("D-23")
@pytest.mark.parametrize(
    "more", [b"\r\n", reply(b'{"error": {"message": "not yours"}}')], ids=["a line", "a reply"]
)
def test_what_a_server_sends_after_its_reply_is_not_taken_for_the_next_one(more: bytes) -> None:
    with raw_server(always(reply() + more)) as server:
        assert send_all(*[server.url] * 3) == ["hello"] * 3
        assert [request.connection for request in server.requests] == [0, 1, 2]


@pytest.mark.req("D-8")
def test_a_request_that_is_cancelled_during_the_tls_handshake_closes_its_connection() -> None:
    gone: list[bool] = []

    def answer(peer: Peer) -> None:
        while peer.sock.recv(65536):  # the client's part of the handshake
            pass
        gone.append(True)

    async def cancel(url: str) -> None:
        async with client_of(url) as client:
            sending = asyncio.create_task(client.post(url, content=b"x"))
            await asyncio.sleep(0.2)
            sending.cancel()
            await asyncio.wait({sending})
            await asyncio.to_thread(eventually, lambda: gone)

    gc.disable()
    try:
        with raw_server(answer) as server:
            asyncio.run(cancel(server.url.replace("http:", "https:")))
    finally:
        gc.enable()
    assert gone == [True]


ASK_SEVERAL = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from axe_nb.messages import Message, Request
from axe_nb.providers.openai import OpenAI

async def main(urls):
    request = Request("m", (Message("user", "hi"),))
    for url in urls:
        provider = OpenAI(url, "k")
        answers = await asyncio.gather(*(provider.send(request) for _ in range(100)))
        print(sum(answer.content == "hello" for answer in answers))

asyncio.run(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.req("D-51")
def test_128_open_files_carry_100_requests_to_each_of_four_servers() -> None:
    def answer(peer: Peer) -> None:
        while True:
            peer.read()
            time.sleep(0.2)
            peer.send(reply())

    with ExitStack() as servers:
        urls = [servers.enter_context(raw_server(answer)).url for _ in range(4)]
        done = subprocess.run(
            [sys.executable, "-c", ASK_SEVERAL, *urls], capture_output=True, text=True, timeout=90
        )
    assert done.stdout.split() == ["100"] * 4, done.stderr


PROGRAM = """
import asyncio, uvloop, warnings
warnings.simplefilter("ignore", DeprecationWarning)
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())  # as uvloop.install() does
import axe_nb
agent = axe_nb.Agent("a", "openai/m")
print(axe_nb.run(agent, "hi").text, axe_nb.run(agent, "hi").text)
print([run.text for run in axe_nb.map(agent, ["one", "two"])])
print(asyncio.run(axe_nb.arun(agent, "hi")).text)
"""


def test_a_process_whose_every_loop_is_of_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvloop", reason="uvloop does not exist for Windows")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with raw_server(always(reply())) as server:
        monkeypatch.setenv("AXE_OPENAI_BASE_URL", server.url)
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
        )
    assert ended.stdout.splitlines() == ["hello hello", "['hello', 'hello']", "hello"]
    assert (ended.returncode, ended.stderr) == (0, "")
