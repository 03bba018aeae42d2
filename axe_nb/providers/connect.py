"""New connections: to one of a server's addresses, through a proxy, over TLS.

Imported on first use, as httpx is.
Source: D-70; issue 10 "Connections".
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

import httpx

from axe_nb.providers.http1 import Reply, format_head
from axe_nb.providers.routes import PORTS, Route
from axe_nb.providers.tcp import Connection

NEXT_ADDRESS_SECONDS = 0.25
"""Delay before the next address of a host is tried beside the one before it (RFC 8305)."""

LATE_SECONDS = 0.01
"""Delay of a timer from which the loop counts as blocked by a long cell."""


class ProxyRefusal(httpx.ProxyError):
    """The proxy refuses a request for good."""


def make_proxy_error(reply: Reply) -> httpx.ProxyError:
    """Makes the error for a reply that is the proxy's own, not the server's."""
    error = httpx.ProxyError
    if 400 <= reply.status < 500 and reply.status not in (408, 429):
        error = ProxyRefusal
    return error(f"it returned {reply.status} {reply.reason.decode('ascii', 'replace')}")


async def connect(route: Route, seconds: float | None) -> Connection:
    """Returns a new connection, ready for requests.

    Args:
        route: the way to the server.
        seconds: time limit; None = none.

    Raises:
        httpx.TransportError: there is no connection; the proxy's errors are `httpx.ProxyError`.
    """
    timer: asyncio.TimerHandle | None = None
    try:
        async with asyncio.timeout(None) as limit:
            if seconds is not None:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(seconds, _expire, limit, loop.time() + seconds)
            connection = await _connect_to_first_hop(route)
            try:
                if route.proxy is not None and route.context is not None:
                    await _open_tunnel(connection, route, route.context)
            except BaseException:
                connection.abort()
                raise
            return connection
    except TimeoutError as error:
        raise httpx.ConnectTimeout("no connection in time") from error
    except (OSError, UnicodeError) as error:  # the second: a name that cannot be looked up
        raise httpx.ConnectError(str(error)) from error
    finally:
        if timer is not None:
            timer.cancel()


def _expire(limit: asyncio.Timeout, due: float) -> None:
    """Ends the time limit of a connection, extended by the time that the loop was blocked."""
    loop = asyncio.get_running_loop()
    late = loop.time() - due
    if late > LATE_SECONDS:
        loop.call_later(late, _expire, limit, loop.time() + late)
        return
    with suppress(RuntimeError):  # it is over
        limit.reschedule(loop.time())


async def _connect_to_first_hop(route: Route) -> Connection:
    """Connects to the server or, if there is one, to its proxy."""
    if route.proxy is None:
        return await _connect_to(route.host, route.port, route.context)
    url = route.proxy.url
    host, port = url.raw_host.decode(), url.port or PORTS[url.scheme]
    try:
        return await _connect_to(host, port, route.proxy_context)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as error:
        raise httpx.ProxyError(str(error)) from error


async def _connect_to(host: str, port: int, context: ssl.SSLContext | None) -> Connection:
    """Connects to the address of a host that accepts a connection first.

    Each is tried a moment after the one before it, or once that has failed. Python's own "happy
    eyeballs" would lose sockets when cancelled.
    """
    waiting = await _find_addresses(host, port)
    if len(waiting) == 1:
        return await _connect_to_address(waiting[0], host, port, context)
    tasks: list[asyncio.Task[Connection]] = []
    winner: asyncio.Task[Connection] | None = None
    try:
        while winner is None:
            if waiting:
                attempt = _connect_to_address(waiting.pop(0), host, port, context)
                tasks.append(asyncio.create_task(attempt))
            elif all(task.done() for task in tasks):
                raise _select_error(tasks)
            pending = [task for task in tasks if not task.done()]
            delay = NEXT_ADDRESS_SECONDS if waiting else None
            await asyncio.wait(pending, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            winner = next((t for t in tasks if t.done() and t.exception() is None), None)
        await _drop(task for task in tasks if task is not winner)
        return winner.result()
    except BaseException:
        await _drop(tasks)
        raise


async def _connect_to_address(
    address: str, host: str, port: int, context: ssl.SSLContext | None
) -> Connection:
    loop = asyncio.get_running_loop()
    name = host if context else None
    _, connection = await loop.create_connection(
        Connection, address, port, ssl=context, server_hostname=name
    )
    return connection


def _select_error(tasks: Iterable[asyncio.Task[Connection]]) -> BaseException:
    """Returns the error that says most: any that an address refuses the connection."""
    errors = [error for task in tasks if (error := task.exception()) is not None]
    return min(errors, key=lambda error: not isinstance(error, ConnectionRefusedError))


async def _drop(tasks: Iterable[asyncio.Task[Connection]]) -> None:
    """Ends attempts to connect, including those that have just succeeded."""
    losers = list(tasks)
    for task in losers:
        task.add_done_callback(_abort_result)
        task.cancel()
    if losers:
        await asyncio.wait(losers)


def _abort_result(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().abort()


@lru_cache(maxsize=64)
def _read_address(host: str) -> str:
    """Returns the address that a host is written as; empty if it is a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


async def _find_addresses(host: str, port: int) -> list[str]:
    """Returns the addresses of a host, which may be one itself."""
    if address := _read_address(host):
        return [address]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _open_tunnel(connection: Connection, route: Route, context: ssl.SSLContext) -> None:
    """Has the proxy connect to the server, and starts TLS with the server."""
    address = route.address.encode()
    headers = [(b"host", address), *route.proxy_login]
    try:
        connection.send(format_head(b"CONNECT %b HTTP/1.1" % address, headers))
        reply = await connection.read_head(None)
    except httpx.TransportError as error:
        raise httpx.ProxyError(str(error)) from error
    if not 200 <= reply.status < 300:
        raise make_proxy_error(reply)
    await connection.start_tls(context, route.host)
