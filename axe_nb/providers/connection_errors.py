"""Errors of connections to models' servers, each with its cause, its place and the next step.

Source: B-4, B-5, D-23.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

from axe_nb.errors import ProviderError
from axe_nb.providers.protocol import Server
from axe_nb.providers.reply_errors import Headers, masked_line
from axe_nb.providers.secrets import Secrets
from axe_nb.text import format_seconds

CONNECT_SECONDS = 10.0
"""Connect timeout; the time for an answer is limited by the run."""

NO_FILES = (errno.EMFILE, errno.ENFILE)
"""Error numbers of a process, or a machine, that may open no more files."""

AT_PROXY = "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in the environment"

PROXY_LOGIN = 407
"""The status of a proxy that wants a login."""

NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")
"""OpenSSL's reasons where the other side does not speak TLS."""

TLS_FAULTS = {
    "CERTIFICATE_REQUIRED": "it requires a client certificate",
    "HANDSHAKE_FAILURE": "it refused the TLS handshake: it may require a client certificate, or "
    "ciphers that are not offered",
    "PROTOCOL_VERSION": "it accepts no TLS version that is offered",
    "legacy sigalg": "it accepts no TLS version that is offered",  # OpenSSL 3.0; it has no reason
    "UNSUPPORTED_PROTOCOL": "it offers no TLS version that is accepted here",
}
"""Part of OpenSSL's reason → the fault; another try fails likewise."""

CUT_HANDSHAKE = "the connection was closed during the TLS handshake"

WORDS = {
    "disconnected without sending": "the server closed the connection without a reply",
    "without sending complete message body": "the server closed the connection in the middle of "
    "the body",
}
"""Part of a message of httpx's → the same for people who do not read code."""


def make_connection_error(server: Server, error: Exception) -> ProviderError:
    """Describes why no complete reply arrived, with the next step."""
    import httpx

    from axe_nb.providers.transport import SetupError

    if isinstance(error, (SetupError, httpx.InvalidURL)):
        place, why = without_login(server.base_url), masked_line(str(error))
        return ProviderError(
            "server",
            f"cannot set up a connection to {place}: {why}",
            hint="check base_url, and HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE in the environment",
            retryable=False,
        )
    made = _describe(server, error)
    if any(map(_is_final, _list_causes(error))):
        made.retryable = False
    return made


def name_proxy(error: ProviderError, server: Server, headers: Headers) -> ProviderError:
    """Returns the error of a reply, with the proxy that may have answered in the server's place.

    Only one for plain http can, and it does not answer in JSON.
    """
    is_plain = server.base_url.lower().startswith("http:")
    proxy = _find_proxy(server.base_url) if is_plain and error.status is not None else ""
    if not proxy or "json" in headers.get("content-type", "").lower():
        return error
    through = f"{error.detail} (through the proxy {proxy})"
    if error.status == PROXY_LOGIN:
        where = without_login(server.base_url)
        through = f"no connection to {where} through the proxy {proxy}: it returned {error.detail}"
    return ProviderError(
        error.category,
        through,
        hint=AT_PROXY,
        status=error.status,
        retry_after=error.retry_after,
        retryable=error.retryable,
    )


def without_login(base_url: str) -> str:
    """Returns the base URL without user name and password."""
    scheme, _, rest = base_url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _describe(server: Server, error: Exception) -> ProviderError:
    import httpx

    proxy = _find_proxy(server.base_url)
    where = without_login(server.base_url) + (f" through the proxy {proxy}" if proxy else "")
    table = f"[providers.{server.info.name}] in config.toml"
    at_base_url = f"check {server.info.url_setting}"
    if isinstance(error, httpx.ReadTimeout):
        silence = format_seconds(server.info.read_timeout or 0)
        message = f"no data from {where} within {silence}s"
        return ProviderError("timeout", message, hint=f"raise read_timeout under {table}")
    # httpx-aiohttp calls each failure to connect a timeout; the context of a real one holds other
    # errors too, such as OpenSSL's that it waits for data
    faults = (cause for cause in _list_causes(error) if isinstance(cause, OSError))
    is_late = isinstance(next(faults, TimeoutError()), TimeoutError)
    if isinstance(error, httpx.TimeoutException) and is_late:
        message = f"no connection to {where} within {format_seconds(CONNECT_SECONDS)}s"
        return ProviderError("timeout", message, hint=at_base_url)
    message, hint = _describe_failure(server, error, where, at_base_url)
    return ProviderError("server", message, hint=hint)


def _describe_failure(
    server: Server, error: Exception, where: str, at_base_url: str
) -> tuple[str, str]:
    import httpx

    reason = _find_reason(server, error)
    base_url = without_login(server.base_url)
    if any(getattr(cause, "errno", 0) in NO_FILES for cause in _list_causes(error)):
        limits = "lower max_in_flight under [limits] of the agent"
        return f"too many open files: no connection to {where}", f"raise `ulimit -n`, or {limits}"
    is_unreachable = isinstance(error, httpx.ConnectError) and not _is_due_to(error, ssl.SSLError)
    if isinstance(error, httpx.ProxyError) or (is_unreachable and where != base_url):
        told = f"it returned {reason}" if _find_status(error) else reason
        return f"no connection to {where}: {told}", AT_PROXY
    if _is_due_to(error, ConnectionRefusedError):
        question = f"is {server.info.software} running? (expected at {base_url})"
        return f"connection refused: {question}", f"start it, or {at_base_url}"
    if _is_due_to(error, socket.gaierror, UnicodeError):
        return f"no such host: {base_url}", f"{at_base_url}, and your network connection"
    if _is_due_to(error, ssl.SSLCertVerificationError):
        ca_file = f"ca_file under [providers.{server.info.name}] in config.toml"
        trust = f"set SSL_CERT_FILE in the environment, or {ca_file}, to the certificates to trust"
        why = f"its certificate is not trusted ({_find_fault(error) or reason})"
        return f"no secure connection to {where}: {why}", f"{at_base_url}, or {trust}"
    if fault := _find_tls_fault(error):
        asks = "client certificate" in fault and not server.info.certificates[1]
        own = f"set client_cert under [providers.{server.info.name}] in config.toml, or "
        return f"no secure connection to {where}: {fault}", (own if asks else "") + at_base_url
    if _is_cut_handshake(server, error):
        return f"no secure connection to {where}: {CUT_HANDSHAKE}", f"try again, or {at_base_url}"
    if _is_due_to(error, ssl.SSLError):
        speaks = not any(getattr(cause, "reason", "") in NO_TLS for cause in _list_causes(error))
        why = reason if speaks else "the server responded, but not over TLS"
        return f"no secure connection to {where}: {why}", f"{at_base_url}: it may need http://"
    again = "try again, or allow more retries with --retries"
    return f"the connection to {where} failed: {reason}", again


def _find_reason(server: Server, error: Exception) -> str:
    import h11
    import httpx

    said = next(filter(None, map(str, _list_causes(error))), "")
    if not said:
        is_lost = isinstance(error, httpx.NetworkError)
        return "the connection was lost" if is_lost else type(error).__name__
    for part, words in WORDS.items():
        if part in said:
            return words
    if _is_due_to(error, h11.RemoteProtocolError):
        return "the reply is not valid HTTP"
    return masked_line(said, Secrets.of(server))


def _find_status(error: BaseException) -> int:
    """Returns the status with which a proxy refuses a tunnel; 0 for other errors."""
    import httpx

    status = str(error)[:3]
    return int(status) if isinstance(error, httpx.ProxyError) and status.isdecimal() else 0


def _find_fault(error: Exception) -> str:
    """Returns the fault of a certificate, in OpenSSL's words; empty if it is not known."""
    causes = (getattr(cause, "verify_message", "") for cause in _list_causes(error))
    return masked_line(next(filter(None, causes), ""))


def _find_tls_fault(error: BaseException) -> str:
    """Returns the fault that OpenSSL's reason stands for; empty if it is another."""
    reasons = [getattr(cause, "reason", "") or cause for cause in _list_causes(error)]
    return next(
        (fault for part, fault in TLS_FAULTS.items() if any(part in str(one) for one in reasons)),
        "",
    )


def _is_cut_handshake(server: Server, error: Exception) -> bool:
    import httpx

    is_tls = server.base_url.lower().startswith("https:") and isinstance(error, httpx.ConnectError)
    return is_tls and _is_due_to(error, ConnectionResetError, ssl.SSLEOFError)


def _is_final(cause: BaseException) -> bool:
    import httpx

    if isinstance(cause, socket.gaierror):
        return cause.errno != socket.EAI_AGAIN
    if isinstance(cause, ssl.SSLError) and (cause.reason in NO_TLS or _find_tls_fault(cause)):
        return True
    if 400 <= _find_status(cause) < 500:
        return _find_status(cause) not in (408, 429)
    kinds = (ssl.SSLCertVerificationError, UnicodeError, httpx.LocalProtocolError)
    return isinstance(cause, (*kinds, AssertionError))  # the last: a mock has no answer


def _find_proxy(base_url: str) -> str:
    """Returns the proxy on the way to a server, without its login; empty if there is none."""
    import httpx

    from axe_nb.providers.transport import find_proxy

    try:
        proxy = find_proxy(httpx.URL(base_url))
    except (httpx.InvalidURL, httpx.TransportError, KeyError, ValueError):
        return ""
    return f"{proxy.url.scheme}://{proxy.url.netloc.decode()}" if proxy else ""


def _is_due_to(error: Exception, *kinds: type[BaseException]) -> bool:
    return any(isinstance(cause, kinds) for cause in _list_causes(error))


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields the error and its causes, those of several addresses of a host among them."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _list_causes(one)
        error = error.__cause__ or error.__context__
