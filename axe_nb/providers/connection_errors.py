"""Errors of connections to models' servers, each with its cause, its place and the next step."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

from axe_nb.errors import ProviderError
from axe_nb.providers.protocol import Server
from axe_nb.providers.reply_errors import masked_line
from axe_nb.providers.secrets import without_login
from axe_nb.text import format_seconds

CONNECT_SECONDS = 10.0
"""Connect timeout; the time for an answer is limited by the run."""

NO_TLS = "the server responded, but not over TLS"

TLS_FAULTS = {
    "CERTIFICATE_REQUIRED": "it requires a client certificate",
    "HANDSHAKE_FAILURE": "it refused the TLS handshake: it may require a client certificate, or "
    "ciphers that are not offered",
    "PROTOCOL_VERSION": "it accepts no TLS version that is offered",
    "legacy sigalg": "it accepts no TLS version that is offered",  # OpenSSL 3.0; it has no reason
    "UNSUPPORTED_PROTOCOL": "it offers no TLS version that is accepted here",
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": NO_TLS,
    "UNKNOWN_PROTOCOL": NO_TLS,
}
"""Part of OpenSSL's reason → the fault; another try fails likewise."""


def make_connection_error(server: Server, error: Exception) -> ProviderError:
    """Describes why no complete reply arrived, with the next step."""
    import httpx

    from axe_nb.providers.transport import SetupError, find_proxy

    where, table = without_login(server.base_url), f"[providers.{server.info.name}] in config.toml"
    if isinstance(error, (SetupError, httpx.InvalidURL)):
        return ProviderError(
            "server",
            f"cannot set up a connection to {where}: {masked_line(str(error))}",
            hint="check base_url, and HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE in the environment",
            retryable=False,
        )
    with suppress(httpx.InvalidURL, httpx.TransportError, KeyError, ValueError):
        if proxy := find_proxy(httpx.URL(server.base_url)):
            where += f" through the proxy {proxy.url.scheme}://{proxy.url.netloc.decode()}"
    if isinstance(error, httpx.ReadTimeout):
        silence = format_seconds(server.info.read_timeout or 0)
        message = f"no data from {where} within {silence}s"
        return ProviderError("timeout", message, hint=f"raise read_timeout under {table}")
    causes = list(_list_causes(error))
    # httpx-aiohttp calls each failure to connect a timeout; the context of a real one holds other
    # errors too, such as OpenSSL's that it waits for data
    fault = next((cause for cause in causes if isinstance(cause, OSError)), TimeoutError())
    if isinstance(error, httpx.TimeoutException) and isinstance(fault, TimeoutError):
        message = f"no connection to {where} within {format_seconds(CONNECT_SECONDS)}s"
        return ProviderError("timeout", message, hint=f"check {server.info.url_setting}")
    message, hint = _describe(server, error, causes, where)
    is_final = any(map(_is_final, causes))
    return ProviderError("server", message, hint=hint, retryable=False if is_final else None)


def _describe(
    server: Server, error: Exception, causes: list[BaseException], where: str
) -> tuple[str, str]:
    """Returns the message of a failed connection, and the next step."""
    import httpx

    def is_due_to(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    base_url, check = without_login(server.base_url), f"check {server.info.url_setting}"
    table = f"under [providers.{server.info.name}] in config.toml"
    if any(getattr(cause, "errno", 0) in (errno.EMFILE, errno.ENFILE) for cause in causes):
        limits = "lower max_in_flight under [limits] of the agent"
        return f"too many open files: no connection to {where}", f"raise `ulimit -n`, or {limits}"
    reason = _find_reason(causes)
    is_unreachable = isinstance(error, httpx.ConnectError) and not is_due_to(ssl.SSLError)
    if isinstance(error, httpx.ProxyError) or (is_unreachable and where != base_url):
        told = f"it returned {reason}" if _find_status(error) else reason
        variables = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in the environment"
        return f"no connection to {where}: {told}", f"check {variables}"
    if is_due_to(ConnectionRefusedError):
        question = f"is {server.info.software} running? (expected at {base_url})"
        return f"connection refused: {question}", f"start it, or {check}"
    if is_due_to(socket.gaierror, UnicodeError):
        return f"no such host: {base_url}", f"{check}, and your network connection"
    if is_due_to(ssl.SSLCertVerificationError):
        faults = (getattr(cause, "verify_message", "") for cause in causes)
        why = masked_line(next(filter(None, faults), "")) or reason
        trust = f"set SSL_CERT_FILE in the environment, or ca_file {table}, to the certificates"
        message = f"no secure connection to {where}: its certificate is not trusted ({why})"
        return message, f"{check}, or {trust} to trust"
    is_tls = isinstance(error, httpx.ConnectError) and server.base_url.lower().startswith("https:")
    fault = next(filter(None, map(_find_tls_fault, causes)), "")
    if fault == NO_TLS:
        check += ": it may need http://"
    elif "client certificate" in fault and not server.info.certificates[1]:
        check = f"set client_cert {table}, or {check}"
    elif not fault and is_tls and is_due_to(ConnectionResetError, ssl.SSLEOFError):
        fault = "the connection was closed during the TLS handshake"
        check = f"try again, or {check}"
    if fault or is_due_to(ssl.SSLError):
        return f"no secure connection to {where}: {fault or reason}", check
    again = "try again, or allow more retries with --retries"
    return f"the connection to {where} failed: {reason}", again


def _find_reason(causes: list[BaseException]) -> str:
    import h11
    import httpx

    said = next(filter(None, map(str, causes)), "")
    if not said:
        is_lost = isinstance(causes[0], httpx.NetworkError)
        return "the connection was lost" if is_lost else type(causes[0]).__name__
    if "disconnected without sending" in said:
        return "the server closed the connection without a reply"
    if "without sending complete message body" in said:
        return "the server closed the connection in the middle of the body"
    if any(isinstance(cause, h11.RemoteProtocolError) for cause in causes):
        return "the reply is not valid HTTP"
    return masked_line(said)


def _find_status(error: BaseException) -> int:
    """Returns the status with which a proxy refuses a tunnel; 0 for other errors."""
    import httpx

    status = str(error)[:3]
    return int(status) if isinstance(error, httpx.ProxyError) and status.isdecimal() else 0


def _find_tls_fault(cause: BaseException) -> str:
    reason = str(getattr(cause, "reason", "") or cause)
    return next((fault for part, fault in TLS_FAULTS.items() if part in reason), "")


def _is_final(cause: BaseException) -> bool:
    import httpx

    if isinstance(cause, socket.gaierror):
        return cause.errno != socket.EAI_AGAIN
    if isinstance(cause, ssl.SSLError) and _find_tls_fault(cause):
        return True
    if 400 <= _find_status(cause) < 500:
        return _find_status(cause) not in (408, 429)
    kinds = (ssl.SSLCertVerificationError, UnicodeError, httpx.LocalProtocolError)
    return isinstance(cause, (*kinds, AssertionError))  # the last: a mock has no answer


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields the error and its causes, those of several addresses of a host among them."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _list_causes(one)
        error = error.__cause__ or error.__context__
