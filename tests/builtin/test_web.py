"""fetch: what it reaches, what it does not, and what becomes of a page."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme

from axe_nb.builtin import web
from axe_nb.builtin.web import Address, Fetcher, refusal_reason
from axe_nb.tools.tool import ToolError
from tests.calls import context, failure, run
from tests.conftest import not_run

CORPUS = tomllib.loads((Path(__file__).parent / "addresses.toml").read_text("utf-8"))
HERE = Path()
TEXT = {"Content-Type": "text/plain"}
PAGE = (200, TEXT, b"hello")
assert len(set(CORPUS["refused"]["urls"])) >= 80


@dataclass
class Site:
    pages: dict[str, tuple[int, dict[str, str], Any]] = field(default_factory=dict)
    """Path → (status, headers, body or function of the handler)."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(path, Host header) of each request."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fetcher(self, **options: Any) -> Fetcher:
        return Fetcher(allowed=frozenset({f"127.0.0.1:{self.port}"}), **options)

    def fetch(self, path: str, **options: Any) -> str:
        return run(web.tool(self.fetcher(**options)), HERE, url=f"{self.url}{path}")

    def failure(self, path: str, **options: Any) -> str:
        return failure(web.tool(self.fetcher(**options)), HERE, url=f"{self.url}{path}")


@contextmanager
def served(context: ssl.SSLContext | None = None) -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, self.headers["Host"]))
            status, headers, body = site.pages.get(self.path, (404, {}, b"nothing here"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                if callable(body):
                    body(self)
                else:
                    self.wfile.write(body)
            except OSError:  # the client went away
                return

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None: ...

    with Server(("127.0.0.1", 0), Handler) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        site.port = server.server_port
        serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        serving.start()
        try:
            yield site
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with served() as site:
        yield site


def by_table(host: str, port: int) -> Sequence[Address]:
    table: dict[str, list[str]] = CORPUS["names"]
    if host not in table:
        raise OSError(f"{host} was not to be resolved")
    return [ip_address(address) for address in table[host]]


@pytest.mark.req("X-31")
@pytest.mark.parametrize("url", CORPUS["refused"]["urls"])
def test_no_address_but_public_ones_is_connected_to(url: str) -> None:
    text = failure(web.tool(Fetcher(resolve=by_table)), HERE, url=url)
    assert text.startswith(("blocked: ", "invalid URL: "))
    assert "was not to be resolved" not in text


@pytest.mark.parametrize("address", CORPUS["public"]["addresses"])
def test_public_addresses_are_not_refused(address: str) -> None:
    assert refusal_reason(ip_address(address)) == ""


def test_loopback_is_refused_unless_this_address_and_port_are_allowed(site: Site) -> None:
    site.pages["/"] = PAGE
    assert "which is not public (loopback)" in failure(web.tool(Fetcher()), HERE, url=site.url)
    other = Fetcher(allowed=frozenset({f"127.0.0.1:{site.port + 1}"}))
    assert "loopback" in failure(web.tool(other), HERE, url=site.url)
    assert site.asked == []
    assert site.fetch("/") == f"{site.url}/\n\nhello"


@pytest.mark.req("X-31")
def test_a_name_is_resolved_once_and_the_connection_goes_where_it_was_judged(site: Site) -> None:
    site.pages["/"] = PAGE
    answers = [[ip_address("127.0.0.1")], [ip_address("169.254.169.254")]]

    def rebinding(host: str, port: int) -> Sequence[Address]:
        assert (host, port) == ("rebind.example.org", site.port)
        return answers.pop(0)

    url = f"http://rebind.example.org:{site.port}/"
    fetcher = site.fetcher(resolve=rebinding)
    assert run(web.tool(fetcher), HERE, url=url) == f"{url}\n\nhello"
    assert site.asked == [("/", f"rebind.example.org:{site.port}")]
    assert "link-local" in failure(web.tool(fetcher), HERE, url=url)
    assert len(site.asked) == 1


def test_the_next_address_of_a_host_is_tried_where_one_does_not_answer(site: Site) -> None:
    site.pages["/"] = PAGE
    both = [ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    allowed = frozenset({f"{address}:{site.port}" for address in both})
    fetcher = Fetcher(allowed, resolve=lambda host, port: both)
    text = run(web.tool(fetcher), HERE, url=f"http://two.example.org:{site.port}/")
    assert text.endswith("hello")


def test_redirects_are_followed_to_an_end_and_the_last_address_told(site: Site) -> None:
    site.pages["/a"] = (302, {"Location": "/b?x=1"}, b"")
    site.pages["/b?x=1"] = (301, {"Location": f"{site.url}/c"}, b"")
    site.pages["/c"] = PAGE
    assert site.fetch("/a") == f"{site.url}/c\n\nhello"
    site.pages["/"] = (302, {"Location": "/"}, b"")
    assert site.failure("/").endswith("more than 5 redirects. Try another page")
    assert len(site.asked) == 9


@pytest.mark.req("X-31", "X-38")
@pytest.mark.parametrize(
    ("target", "told"),
    [
        (
            "http://169.254.169.254/",
            "blocked: http://169.254.169.254/ resolves to 169.254.169.254, which is not public "
            "(link-local). Only public addresses can be fetched",
        ),
        ("//10.0.0.1/x", "blocked: http://10.0.0.1/x resolves to 10.0.0.1"),
        ("http://0x7f.1/", "is neither a host name nor an address in its usual notation"),
        ("file:///etc/passwd", "only http and https can be fetched"),
        ("http://user@example.org/", "contains a user name or an invalid port"),
        ("http://[::1/", "invalid URL: "),
    ],
)
def test_each_redirect_is_judged(site: Site, target: str, told: str) -> None:
    site.pages["/"] = (302, {"Location": target}, b"")
    assert told in site.failure("/")
    assert len(site.asked) == 1


@pytest.mark.req("D-50")
def test_a_redirect_to_another_host_is_followed_only_if_that_host_is_allowed(site: Site) -> None:
    site.pages["/"] = (302, {"Location": f"http://localhost:{site.port}/secret"}, b"")
    site.pages["/same"] = (302, {"Location": "/page"}, b"")
    site.pages["/page"] = PAGE
    asked: list[str] = []

    def refuse(host: str) -> bool:
        asked.append(host)
        return False

    strict = replace(context(HERE), allows_host=refuse)
    with pytest.raises(ToolError, match=r"redirects to http://localhost:\d+/secret, on another"):
        asyncio.run(web.tool(site.fetcher()).fn(strict, {"url": f"{site.url}/"}))
    assert asked == ["localhost"]
    assert [path for path, _ in site.asked] == ["/"], "nothing was sent there"
    asyncio.run(web.tool(site.fetcher()).fn(strict, {"url": f"{site.url}/same"}))
    assert site.asked[-1][0] == "/page"


@pytest.mark.req("X-31", "X-38")
def test_a_server_that_is_not_there_or_talks_nonsense_is_an_error(site: Site) -> None:
    def nonsense(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.shutdown(2)

    site.pages["/"] = (200, {"Content-Length": "100"}, nonsense)
    text = site.failure("/")
    assert f"{site.url}/: connection failed: " in text
    with served() as other:
        pass
    text = other.failure("/")
    assert "connection failed: " in text
    assert text.endswith("Check the URL, or try another page")
    text = failure(web.tool(Fetcher(resolve=by_table)), HERE, url="http://nowhere.example.org/")
    assert "cannot resolve nowhere.example.org: " in text


@pytest.mark.req("X-31")
def test_a_slow_page_is_given_up(site: Site) -> None:
    release = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        while not release.wait(0.02):
            handler.wfile.write(b"x")

    site.pages["/"] = (200, TEXT, drip)
    started = time.monotonic()
    try:
        text = site.failure("/", seconds=0.3)
    finally:
        release.set()
    assert text == f"{site.url}/: no response after 0.3s. Try again later, or try another page"
    assert time.monotonic() - started < 50


@pytest.mark.req("X-31")
def test_a_page_too_large_is_refused_while_it_is_read(site: Site) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        for _ in range(1000):
            handler.wfile.write(b"x" * 65536)

    site.pages["/endless"] = (200, TEXT, endless)
    site.pages["/limit"] = (200, {**TEXT, "Content-Encoding": ""}, b"x" * 2_097_152)
    assert site.failure("/endless") == (
        f"{site.url}/endless is too large: more than 2097152 bytes. Try a smaller page"
    )
    assert "(truncated: the first 65536 of " in site.fetch("/limit")


PACKED = {**TEXT, "Content-Encoding": "gzip"}
NO_TEXT = "and only text can be fetched. Try another page"
BAD = {
    "not found": (404, {}, b"", "HTTP 404 Not Found for {url}. Check the URL, try again later, or"),
    "broken": (500, {}, b"", "HTTP 500 Internal Server Error for {url}. Check the URL, try again"),
    "a bomb": (200, PACKED, gzip.compress(b"x" * 50_000_000), "{url} is too large"),
    "corrupt": (200, PACKED, gzip.compress(b"hello")[5:], "{url} cannot be read: "),
    "nested": (200, {**TEXT, "Content-Encoding": "gzip, gzip"}, b"", "{url} cannot be read: unsup"),
    "binary": (200, TEXT, b"\x7fELF\0\0\0", "{url} is not text"),
    **{
        kind: (200, {"Content-Type": kind}, b"text, they say", f"{{url}} is {kind}, {NO_TEXT}")
        for kind in ("image/png", "application/octet-stream", "application/pdf", "video/x")
    },
}
"""Status, headers and body of a page → the error that it becomes."""


@pytest.mark.req("X-31", "X-38")
@pytest.mark.parametrize("case", BAD)
def test_a_page_that_cannot_be_read_is_an_error(site: Site, case: str) -> None:
    status, headers, body, told = BAD[case]
    site.pages["/x"] = (status, headers, body)
    assert site.failure("/x").startswith(told.replace("{url}", f"{site.url}/x"))


@pytest.mark.req("X-31", "X-38")
def test_too_many_fetches_a_minute_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pages["/"] = PAGE
    tool = web.tool(site.fetcher(per_minute=2))
    for _ in range(2):
        run(tool, HERE, url=site.url)
    text = failure(tool, HERE, url=site.url)
    assert text.startswith("rate limit: 2 fetches per minute reached. Wait 60s, or continue")
    assert len(site.asked) == 2
    later = time.monotonic() + 60
    monkeypatch.setattr(web.time, "monotonic", lambda: later)
    run(tool, HERE, url=site.url)
    assert len(site.asked) == 3


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", b'{"a": "\xc3\xa9"}', '{"a": "é"}'),
        ("application/ld+json", b"{}", "{}"),
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "café"),
        ('text/html; charset="windows-1252"', b"<p>\x80</p>", "€"),
        ("text/plain; charset=punycode", "für".encode(), "für"),
        ("text/plain; charset=no-such", "für".encode(), "für"),
        ("text/plain; charset=utf-16", "für".encode("utf-16"), "für"),
        ("text/plain", b"\xef\xbb\xbfmarked \xff", "marked \ufffd"),
        ("text/html", b"", "(empty page)"),
    ],
)
def test_text_is_decoded(site: Site, kind: str, body: bytes, text: str) -> None:
    site.pages["/"] = (200, {"Content-Type": kind}, body)
    assert site.fetch("/") == f"{site.url}/\n\n{text}"


def test_html_becomes_readable(site: Site) -> None:
    html = """<!DOCTYPE html><html><head><title> The
      title </title><style>p {color: red}</style><script>alert('no')</script></head>
      <body><h1>Heading</h1><p>Some <b>bold</b> text, a <a href="/next">link</a> and a
      <a href="javascript:alert(1)">trap</a>.<ul><li>one<li>two</ul></body></html>"""
    site.pages["/"] = (200, {"Content-Type": "text/html; charset=utf-8"}, html.encode())
    text = site.fetch("/")
    assert text.startswith(
        f"{site.url}/\n\nThe title\n\n# Heading\n\nSome **bold** text, a [link](/next)"
    )
    assert "- one\n- two" in text
    assert not [word for word in ("alert", "color", "<p>") if word in text]


@pytest.mark.parametrize("part", ["<div>", "<b><i>", "<table>", "<!--", "<", "<a ", "<svg><p>"])
def test_hostile_html_is_read_or_given_up_in_time(site: Site, part: str) -> None:
    site.pages["/"] = (200, {"Content-Type": "text/html"}, (part * 20_000).encode() + b"end")
    assert isinstance(site.fetch("/"), str)


@pytest.mark.req("D-8")
def test_cancelling_closes_the_connection(site: Site) -> None:
    here, closed = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.flush()
        here.set()
        handler.connection.settimeout(20)
        if handler.connection.recv(1) == b"":
            closed.set()

    site.pages["/"] = (200, TEXT, hold)

    async def cancelled() -> None:
        task = asyncio.create_task(site.fetcher().fetch(context(HERE), f"{site.url}/"))
        await asyncio.to_thread(here.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert closed.wait(10)


def test_settings_of_the_person_are_not_used(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password sk-secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    seen: list[str | None] = []
    site.pages["/"] = (200, TEXT, lambda h: seen.append(h.headers["Authorization"]))
    site.fetch("/")
    assert seen == [None]


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("good.example.org").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return context


def test_a_certificate_is_checked_for_the_name_not_the_address(certified: ssl.SSLContext) -> None:
    with served(certified) as site:
        site.pages["/"] = PAGE
        fetcher = site.fetcher(resolve=lambda host, port: [ip_address("127.0.0.1")])
        good, bad = (f"https://{host}.example.org:{site.port}/" for host in ("good", "bad"))
        assert run(web.tool(fetcher), HERE, url=good) == f"{good}\n\nhello"
        text = failure(web.tool(fetcher), HERE, url=bad)
        assert "connection failed: " in text
        assert "bad.example.org" in text
        assert len(site.asked) == 1


ON_A_MACHINE_OF_ITS_OWN = """
import fcntl, http.server, socket, struct, threading
from axe_nb import Agent, call, run, script

def set_up(name, address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any:
        place = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(any, 0x8916, place)
        fcntl.ioctl(any, 0x8914, struct.pack("16sH14x", name, 1))

set_up(b"lo", "127.0.0.1")
set_up(b"lo:1", "ADDRESS")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a secret of this machine")

server = http.server.HTTPServer(("ADDRESS", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://ADDRESS:{server.server_port}/"

@script("lead")
def lead(request):
    return call("fetch", url=url) if request.turn == 1 else request.results[0].content

print(run(Agent("a", "script/lead", tools=["fetch"], allowed_hosts=["*"]), "go").text)
"""


@pytest.mark.req("X-31")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a network namespace")
def test_a_public_address_of_the_machine_itself_is_refused() -> None:
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        not_run("this system has no network namespaces")
    code = ON_A_MACHINE_OF_ITS_OWN.replace("ADDRESS", "20.30.40.50")
    words = [*alone, sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "which is not public (an address of this machine)" in done.stdout, done
    assert "secret" not in done.stdout
