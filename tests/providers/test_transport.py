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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from axe_nb.agents.provider_table import PROVIDERS, READ_SECONDS, describe_provider
from axe_nb.errors import ProviderError
from axe_nb.messages import Message, Role
from axe_nb.providers import transport
from axe_nb.providers.openai import OpenAI, body
from axe_nb.providers.transport import FreeList, make_client
from tests.providers.conftest import OwnCA
from tests.providers.dialects import KEY, ask
from tests.providers.raw_server import HELLO, SECONDS, Peer, always, raw_server, reply


async def send(url: str, *, read_timeout: float | None = SECONDS) -> str:
    info = replace(PROVIDERS["openai"], read_timeout=read_timeout)
    return (await OpenAI(url, KEY, info).send(ask())).content


def client_of(url: str, most: int, lists: list[FreeList] | None = None) -> httpx.AsyncClient:
    """A client as requests to models have it, with so many connections at most."""
    client = make_client(httpx.URL(url), ("", ""), [] if lists is None else lists, most)
    client.timeout = httpx.Timeout(SECONDS)
    return client


def send_in_turn(url: str, times: int, between: Callable[[], object] = lambda: None) -> list[str]:
    """What so many requests in one loop get: the text, or the error."""

    async def turns() -> list[str]:
        found = []
        for turn in range(times):
            if turn:
                await asyncio.sleep(0)  # the reply before is read to its end
                between()
            try:
                found.append(await send(url))
            except ProviderError as error:
                found.append(error.detail)
        return found

    return asyncio.run(turns())


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


LOST = {"closed": lambda peer: None, "reset": Peer.reset}


@pytest.mark.req("D-23")
@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_request_on_a_kept_connection_that_is_closed_unanswered_is_sent_once_more(
    lose: Callable[[Peer], None],
) -> None:
    with raw_server(first_then(lose)) as server:
        assert send_in_turn(server.url, 2) == ["hello", "hello"]
        assert [asked.connection for asked in server.requests] == [0, 0, 1]
        assert server.requests[1].body == server.requests[2].body


@pytest.mark.req("D-23")
@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_request_whose_reply_has_begun_is_never_sent_again(begun: bytes) -> None:
    with raw_server(first_then(lambda peer: peer.send(begun))) as server:
        _, failed = send_in_turn(server.url, 2)
        assert failed.startswith(f"the connection to {server.url} failed: ")
        assert len(server.requests) == 2


@pytest.mark.req("D-23")
def test_a_request_on_a_new_connection_is_never_sent_again() -> None:
    with raw_server(lambda peer: void(peer.read())) as server:
        (failed,) = send_in_turn(server.url, 1)
        assert failed.endswith("failed: the server closed the connection without a reply")
        assert len(server.requests) == 1


@pytest.mark.req("D-23")
def test_a_request_is_sent_once_more_but_not_twice() -> None:
    def answer(peer: Peer) -> None:
        peer.read()
        if peer.number == 0:
            peer.send(reply())
            peer.read()

    with raw_server(answer) as server:
        assert send_in_turn(server.url, 2)[1].endswith("without a reply")
        assert [asked.connection for asked in server.requests] == [0, 0, 1]


@pytest.mark.req("D-23")
def test_silence_on_a_kept_connection_is_no_reason_to_send_again() -> None:
    async def turns(url: str) -> None:
        await send(url)
        with pytest.raises(ProviderError, match="no data from"):
            await send(url, read_timeout=0.2)

    with raw_server(first_then(lambda peer: void(peer.wait_until_closed()))) as server:
        asyncio.run(turns(server.url))
        assert len(server.requests) == 2


@pytest.mark.req("D-23", "D-25")
def test_a_connection_that_was_closed_while_the_loop_was_blocked_is_not_used() -> None:
    """A long cell: what the server did meanwhile lies in the socket, unread by the loop."""

    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(reply())

    with raw_server(answer) as server:

        def block() -> None:
            assert server.closed.acquire(timeout=SECONDS)
            time.sleep(0.05)  # as the loop does not run, so does a cell

        assert send_in_turn(server.url, 3, block) == ["hello"] * 3
        assert [asked.connection for asked in server.requests] == [0, 1, 2]


def test_a_connection_whose_body_was_dropped_is_not_used_again() -> None:
    async def turns(url: str) -> None:
        async with client_of(url, 1) as client:
            for _ in range(2):
                async with client.stream("GET", url):
                    await asyncio.sleep(0.2)  # the reply is there, whole, and unread

    with raw_server(always(reply(b"x" * 400_000))) as server:
        asyncio.run(turns(server.url))
        assert [asked.connection for asked in server.requests] == [0, 1]


UNUSABLE = {
    "says that it closes": reply(HELLO, "connection: close"),
    "HTTP/1.0": reply().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "no length": b"HTTP/1.1 200 OK\r\n\r\n" + HELLO,
}


@pytest.mark.req("D-25")
@pytest.mark.parametrize("data", UNUSABLE.values(), ids=UNUSABLE)
def test_a_connection_whose_reply_leaves_doubts_is_not_used_again(data: bytes) -> None:
    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(data)

    with raw_server(answer) as server:
        assert send_in_turn(server.url, 3) == ["hello"] * 3
        assert [asked.connection for asked in server.requests] == [0, 1, 2]


BROKEN = {
    "within the headers": b"HTTP/1.1 200 OK\r\ncontent-",
    "within the body": reply()[:-5],
    "within a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
    "before the last chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
    "in no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "in a wrong chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n{",
    "with two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "with headers without end": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 600_000,
    "with interim replies without end": b"HTTP/1.1 102 Wait\r\n\r\n" * 30_000,
}


@pytest.mark.req("B-5")
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_reply_that_breaks_off_or_is_wrong_is_a_server_error(data: bytes) -> None:
    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(data)

    with raw_server(answer) as server:
        (failed,) = send_in_turn(server.url, 1)
        assert failed.startswith(f"the connection to {server.url} failed: ")
        assert len(server.requests) == 1


@pytest.mark.req("D-8")
@pytest.mark.parametrize("sent", [b"", reply()[:-5]], ids=["before a reply", "within a reply"])
def test_cancelling_closes_the_connection_at_once(sent: bytes) -> None:
    closed_after: list[float] = []

    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(sent)
        began = time.monotonic()
        assert peer.wait_until_closed()
        closed_after.append(time.monotonic() - began)

    async def cancel(url: str) -> None:
        sending = asyncio.create_task(send(url))
        assert await asyncio.to_thread(server.asked.acquire, timeout=SECONDS)
        await asyncio.sleep(0.05)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        # the loop lives on: it is not its end that closes the connection
        assert await asyncio.to_thread(server.closed.acquire, timeout=SECONDS)

    with raw_server(answer) as server:
        asyncio.run(cancel(server.url))
    assert len(closed_after) == 1


@pytest.mark.req("D-8")
def test_cancelling_a_request_that_is_still_being_sent_stops_it() -> None:
    received: list[int] = []

    def answer(peer: Peer) -> None:
        peer.read_head()
        assert may_read.wait(SECONDS)
        size = 0
        while data := peer.sock.recv(65536):
            size += len(data)
        received.append(size)

    async def cancel(url: str) -> None:
        async with client_of(url, 1) as client:
            sending = asyncio.create_task(client.post(url, content=b"x" * 50_000_000))
            await asyncio.sleep(0.2)
            sending.cancel()
            await asyncio.wait([sending])
        may_read.set()

    may_read = threading.Event()
    with raw_server(answer) as server:
        asyncio.run(cancel(server.url))
        assert server.closed.acquire(timeout=SECONDS)
    assert sum(received) < 30_000_000, "the rest lay in the sockets' buffers only"


def open_files() -> set[str]:
    files = Path("/proc/self/fd")
    return (
        {str(f.readlink()) for f in files.iterdir() if f.is_symlink()} if files.exists() else {""}
    )


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
        lists: list[FreeList] = []
        async with client_of(url, 20, lists) as client:
            for _ in range(40):
                sending = [asyncio.create_task(client.post(url, content=b"x")) for _ in range(50)]
                for task in sending:
                    asyncio.get_running_loop().call_later(chance.random() * 0.05, task.cancel)
                await asyncio.wait(sending)
                failed = {task.exception() for task in sending if not task.cancelled()}
                assert failed <= {None}
            right = await asyncio.gather(*(client.post(url, content=b"x") for _ in range(20)))
            assert {found.content for found in right} == {HELLO}
            return sum(len(one._idle) + one._busy for one in lists)

    before = set(open_files())  # of other tests in this process
    with raw_server(answer) as server:
        assert asyncio.run(cancel(server.url)) <= 40
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


def test_each_provider_sends_its_own_headers_and_key_to_one_server() -> None:
    async def turns(url: str) -> None:
        for organization, key in asked:
            headers = {**PROVIDERS["openai"].headers, "openai-organization": organization}
            info = replace(PROVIDERS["openai"], headers=headers)
            assert (await OpenAI(url, key, info).send(ask())).content == "hello"

    asked = [("a", "one"), ("b", "one"), ("b", "two"), ("a", "one")]
    with raw_server(always(reply())) as server:
        asyncio.run(turns(server.url))
        sent = [
            (one.header("openai-organization"), one.header("authorization"))
            for one in server.requests
        ]
    assert sent == [(organization, f"Bearer {key}") for organization, key in asked]


@pytest.mark.req("B-5")
def test_each_request_on_a_connection_has_its_own_patience() -> None:
    def answer(peer: Peer) -> None:
        for pause in (0, 0, 0.5):
            peer.read()
            time.sleep(pause)
            peer.send(reply())
        peer.read()
        peer.wait_until_closed()

    async def turns(url: str) -> None:
        for patience in (60, 0.2, None):
            assert await send(url, read_timeout=patience) == "hello"
        began = time.monotonic()
        with pytest.raises(ProviderError, match=r"within 0\.2s"):
            await send(url, read_timeout=0.2)
        assert time.monotonic() - began < SECONDS

    with raw_server(answer) as server:
        asyncio.run(turns(server.url))
        assert {asked.connection for asked in server.requests} == {0}


def test_a_long_conversation_arrives_as_it_is_written() -> None:
    async def talk(url: str) -> None:
        for request in requests:
            await OpenAI(url, KEY).send(request)

    roles: tuple[Role, ...] = "user", "assistant"
    talked = [Message(role, f"{n} {'word ' * 200}é") for n in range(99) for role in roles]
    first = replace(ask(), messages=(*talked, Message("user", "Go on")))
    more = Message("assistant", "hello"), Message("user", "And?")
    requests = first, replace(first, messages=(*first.messages, *more))
    with raw_server(always(reply())) as server:
        asyncio.run(talk(server.url))
    sent = [request.body for request in server.requests]
    assert sent == list(map(body, requests))
    assert len(sent[0]) > 100_000


def test_a_server_that_sends_now_and_then_is_not_silent() -> None:
    def answer(peer: Peer) -> None:
        peer.read()
        for byte in reply():
            peer.send(bytes([byte]))
            time.sleep(0.02)

    with raw_server(answer) as server:
        assert asyncio.run(send(server.url, read_timeout=1)) == "hello"


def test_a_long_request_on_a_slow_line_is_not_silence() -> None:
    def answer(peer: Peer) -> None:
        head = peer.read_head()
        missing = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
        missing -= len(peer._read)
        while missing > 0:
            missing -= len(peer.sock.recv(1_000_000))
            time.sleep(0.12)
        peer.send(reply())

    async def post(url: str) -> int:
        async with client_of(url, 1) as client:
            client.timeout = httpx.Timeout(None, read=2)
            return (await client.post(url, content=b"x" * 20_000_000)).status_code

    with raw_server(answer) as server:
        began = time.monotonic()
        assert asyncio.run(post(server.url)) == 200
        assert time.monotonic() - began > 2


def test_the_default_for_silence_is_two_minutes_and_zero_is_no_limit() -> None:
    assert {info.read_timeout for info in PROVIDERS.values()} == {READ_SECONDS} == {120}
    for table, expected in (({}, 120), ({"read_timeout": 0}, None), ({"read_timeout": 5}, 5)):
        info = describe_provider("x", {"protocol": "openai", **table})
        assert info is not None
        assert info.read_timeout == expected


def test_a_server_has_to_wait_for_a_reader_that_does_not_read() -> None:
    sent: list[int] = []

    def answer(peer: Peer) -> None:
        peer.read()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        peer.sock.settimeout(1)
        for _ in range(1000):
            peer.send(b"x" * 100_000)
            sent.append(100_000)

    async def read_slowly(url: str) -> None:
        async with (
            client_of(url, 1) as client,
            client.stream("GET", url) as response,
        ):
            pieces = response.aiter_raw()
            await anext(pieces)
            assert await asyncio.to_thread(server.closed.acquire, timeout=SECONDS)
            await pieces.aclose()  # type: ignore[attr-defined]

    with raw_server(answer) as server:
        asyncio.run(read_slowly(server.url))
    assert sum(sent) < 50_000_000


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


@pytest.mark.req("D-25")
def test_the_oldest_idle_connection_to_any_server_makes_room_for_a_new_one() -> None:
    async def turns(*urls: str) -> None:
        lists: list[FreeList] = []
        clients = {url: client_of(url, 2, lists) for url in urls}
        for url in urls:
            await clients[url].post(url, content=b"x")
        for client in clients.values():
            await client.aclose()

    with (
        raw_server(always(reply())) as one,
        raw_server(always(reply())) as two,
        raw_server(always(reply())) as three,
    ):
        asyncio.run(turns(one.url, two.url, three.url, two.url, one.url, two.url))
        assert [server.connections for server in (one, two, three)] == [2, 1, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="counts sockets with their timers")
def test_a_connection_is_probed_while_the_model_thinks() -> None:
    timers: list[str] = []

    def answer(peer: Peer) -> None:
        peer.read()
        ends = [f":{name[1]:04X}" for name in (peer.sock.getpeername(), peer.sock.getsockname())]
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()]
        timers.extend(row[5] for row in rows if [row[1][-5:], row[2][-5:]] == ends)
        peer.send(reply())

    with raw_server(answer) as server:
        send_in_turn(server.url, 1)
    assert [timer.partition(":")[0] for timer in timers] == ["02"], "a timer for keep-alive"


def test_what_a_server_sets_as_a_cookie_is_not_sent_back() -> None:
    with raw_server(always(reply(HELLO, "set-cookie: a=b; path=/"))) as server:
        send_in_turn(server.url, 2)
        assert [asked.header("cookie") for asked in server.requests] == [None, None]


def test_a_header_cannot_smuggle_in_another() -> None:
    async def post(url: str, headers: dict[str, str]) -> None:
        async with client_of(url, 1) as client:
            await client.post(url, content=b"x", headers=headers)

    with raw_server(always(reply())) as server:
        for headers in ({"x": "a\r\ny: b"}, {"x": "a\ny: b"}, {"x\r\ny": "a"}, {"x": "a\r"}):
            with pytest.raises(httpx.LocalProtocolError):
                asyncio.run(post(server.url, headers))
        assert server.requests == []


def test_loops_in_several_threads_have_connections_of_their_own() -> None:
    def work() -> None:
        found.append(send_in_turn(server.url, 3))

    found: list[list[str]] = []
    with raw_server(always(reply())) as server:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert found == [["hello"] * 3] * 4
        assert server.connections == 4


BEGIN = """
import asyncio, logging
logging.getLogger("asyncio").setLevel(logging.ERROR)  # slow machines are no fault
from axe_nb.messages import Message, Request
from axe_nb.providers.openai import OpenAI, body
provider = OpenAI({url!r}, "k")
request = Request("m", (Message("user", "hi"),))
async def turn():
    print((await provider.send(request)).content)
"""

ENDS = {
    "with the loop": "asyncio.run(turn())",
    "with a loop that is closed properly": """
loop = asyncio.new_event_loop()
loop.run_until_complete(turn())
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
""",
    "with a request under way": """
async def leave():
    task = asyncio.create_task(provider.send(request))
    await asyncio.sleep(0.01)
asyncio.run(leave())
""",
}


@pytest.mark.req("D-25")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_end_of_a_process_is_silent(end: str, scheme: str, own_ca: OwnCA) -> None:
    context = own_ca.server() if scheme == "https" else None
    with raw_server(always(reply()), context) as server:
        script = BEGIN.format(url=server.url) + end
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", script],
            capture_output=True, text=True, timeout=60, check=False,
            env=os.environ | {"SSL_CERT_FILE": str(own_ca.file)},
        )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0


def void(_: object) -> None:
    """Drops what a function returns."""


@pytest.mark.req("D-23")
@pytest.mark.parametrize(
    "more", [b"\r\n", reply(b'{"error": {"message": "not yours"}}')], ids=["a line", "a reply"]
)
def test_what_a_server_sends_after_its_reply_is_not_taken_for_the_next_one(more: bytes) -> None:
    with raw_server(always(reply() + more)) as server:
        assert send_in_turn(server.url, 3) == ["hello"] * 3
        assert [request.connection for request in server.requests] == [0, 1, 2]


@pytest.mark.req("D-8")
def test_a_request_that_is_cancelled_during_the_tls_handshake_closes_its_connection() -> None:
    gone: list[bool] = []

    def answer(peer: Peer) -> None:
        while peer.sock.recv(65536):  # the client's part of the handshake
            pass
        gone.append(True)

    async def cancel(url: str) -> None:
        async with client_of(url, 20) as client:
            sending = asyncio.create_task(client.post(url, content=b"x"))
            await asyncio.sleep(0.2)
            sending.cancel()
            await asyncio.wait({sending})
            for _ in range(100):
                if gone:
                    return
                await asyncio.sleep(0.02)

    gc.disable()
    try:
        with raw_server(answer) as server:
            asyncio.run(cancel(server.url.replace("http:", "https:")))
    finally:
        gc.enable()
    assert gone == [True]
