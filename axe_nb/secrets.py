"""Removes secrets from everything that is saved or displayed.

Secrets are the values of environment variables with names like `…_KEY` or `…_TOKEN`, keys passed to
a server, authorization headers, and anything that looks like a well-known kind of key. Source:
D-60.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "***"

SHORTEST = 8
"""Minimum length of a secret, or of what is left of a truncated secret.

Shorter texts are not removed, as they may be ordinary words."""

SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWO?R?D|PASSPHRASE|CREDENTIAL|AUTHORIZATION|COOKIE"
    r"|(?:^|[_-])(?:AUTH|PASS|PWD|PAT|BEARER)(?=$|[_-])",
    re.IGNORECASE,
)
"""Matches the names of variables with secret values, but not `AUTHOR` or `PATH`."""

ORDINARY = frozenset({
    "anonymous", "changeme", "disabled", "dummy-key", "enabled", "lm-studio", "no-key-needed",
    "not-needed", "optional", "password", "placeholder", "required", "undefined", "your-api-key",
})  # fmt: skip
"""Placeholders and ordinary words that are never removed as secrets."""

SECRET_HEADERS = frozenset({
    "api-key", "apikey", "authorization", "cookie", "password", "proxy-authorization", "set-cookie",
    "x-api-key", "x-auth-token", "x-goog-api-key",
})  # fmt: skip
"""Headers whose values are always secret; names are lower-case and hyphenated."""


def _begin(mark: str, before: str = r"\w") -> str:
    """Returns a pattern that, placed after a key's prefix, rejects a prefix in mid-word."""
    return rf"(?:(?<!{before}{mark})|(?<=\\[bfnrt]{mark})|(?<=\\u[0-9A-Fa-f]{{4}}{mark}))"


_KEYS: Mapping[str, tuple[str, ...]] = {
    r"[\w-]{30,}": ("AIza",),
    r"[A-Z0-9]{16}\b": ("AKIA", "ASIA"),
    r"[\w-]{20,}": (
        "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "gsk_", "hf_", "r8_",
        "nvapi-",
    ),
    r"[\w.-]{20,}": ("ya29.",),
    r"(?=[\w-]{0,200}\d)[\w-]{20,}": ("xai-", "pypi-", "pplx-"),
    r"[0-9A-Za-z]{16,}": ("sk_live_", "sk_test_", "rk_live_", "dop_v1_", "npm_", "whsec_"),
    r"[\w-]{16,}\.[\w-]{16,}": ("SG.",),
    r"(?=[\w-]{8})\w*+(?:-(?!eyJ)\w*+)*+\.eyJ[\w-]{8,}\.[\w-]{8,}": ("eyJ",),
}  # fmt: skip
"""Prefixes of well-known keys, keyed by the pattern for the rest of the key."""

_HEADER = r"""\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?"""
_VALUE = r"""[^\s"'\\,;<>{}*]{8,}"""

SHAPES: Mapping[str, tuple[str, str]] = {
    "sk-": (_begin("sk-", r"[\w-]") + r"(?=[\w-]{0,200}\d)", r"[\w-]{20,}"),
    **{mark: (_begin(mark), secret) for secret, marks in _KEYS.items() for mark in marks},
    "hooks.slack.com/": (r"[a-z]{1,20}/", r"[\w/]{20,}"),
    "/api/webhooks/": (r"\d{1,30}/", r"[\w-]{20,}"),
    "/IncomingWebhook/": ("", r"[\w/-]{20,}"),
    "xox": (_begin("xox") + "[a-z]-", r"[\w-]{10,}"),
    "PRIVATE KEY-----": ("", r"[^-]{16,}(?=-----END )"),
    "earer ": (r"(?=[\w.~+/-]{0,400}\d)", r"[\w.~+/-]{16,}=*"),
    **dict.fromkeys(
        ("uthorization", "UTHORIZATION"), (rf"{_HEADER}(?:[A-Z][A-Za-z0-9-]{{2,20}} )?", _VALUE)
    ),
    **dict.fromkeys(
        ("pi-key", "pi-Key", "PI-Key", "uth-Token", "uth-token", "UTH-TOKEN"), (_HEADER, _VALUE)
    ),
    **dict.fromkeys(
        ("ookie", "OOKIE"),
        (r"""\\{0,3}["']?\s{0,4}:\s{0,4}\\{0,3}["']?""", r"""[\w.-]{1,60}=[^\r\n"'\\*]{4,}"""),
    ),
    **dict.fromkeys(
        ("assword", "ASSWORD"),
        (
            r"""\\{0,3}["']\s{0,4}:\s{0,4}\\{0,3}["']""",
            r"""(?:(?<!\\["'])(?:(?<=")(?:[^"\\\r\n*]|\\.){4,}|(?<=')(?:[^'\\\r\n*]|\\.){4,})"""
            r"""|[^\r\n"'\\*]{4,})""",
        ),
    ),
    "://": (r"[^\s/:@?#\"'\\]{0,100}:", r"[^\s/@\"'\\*]{1,200}(?=@)"),
}
"""Maps fixed texts at the start of well-known keys, logins and headers to two patterns: one for the
text to keep after the start, and one for the secret, which never matches `***`. Fixed texts can be
found quickly. No pattern scans the same long text from many positions, as a model could otherwise
write a text that takes very long to scan."""

_END, _START = r"(?=\n?(?:…|\.\.\.))", r"(?:(?<=…)|(?<=…\n))"
"""Patterns for an ellipsis where text was cut off: `_END` at its end, `_START` at its start."""

_passed: set[str] = set()


def remember(secret: str) -> None:
    """Registers a secret that is not in an environment variable, such as a key from a file."""
    if _is_secret(secret):
        _passed.add(secret)


def redact(text: str) -> str:
    return find_filter().text(text)


def find_filter() -> Filter:
    # the mapping inside `os.environ`, as decoding each variable would be 50 times as slow
    variables = getattr(os.environ, "_data", os.environ)
    return _make_filter(frozenset(variables.items()), frozenset(_passed))


def is_secret_name(name: str) -> bool:
    return SECRET_NAME.search(name) is not None


@lru_cache(maxsize=16)
def _make_filter(variables: frozenset[tuple[Any, Any]], passed: frozenset[str]) -> Filter:
    named = {os.fsdecode(value) for name, value in variables if is_secret_name(os.fsdecode(name))}
    known = named | passed
    bare = {re.sub(r"(?i)\A\s*(?:bearer|basic|token)\s+", "", one) for one in known}
    secrets = {one.strip() for one in known | bare}
    forms = {form for secret in secrets if _is_secret(secret) for form in _list_forms(secret)}
    return Filter(tuple(sorted(forms, key=lambda form: (-len(form), form))))


@dataclass(frozen=True, slots=True)
class Filter:
    """Removes known secrets and anything that looks like a secret. Filtering is idempotent."""

    forms: tuple[str, ...] = field(repr=False)
    """The known secrets in all their encoded forms, longest first."""

    def text(self, text: str) -> str:
        while True:  # a mask may complete another secret
            before = text
            # far faster than one pattern of all forms, most of which never occur
            if found := [form for form in self.forms if form in text]:
                text = re.sub("|".join(map(re.escape, found)), MASK, text)
            if "…" in text or "..." in text:
                for form in self.forms:
                    begin, end = form[:SHORTEST], form[-SHORTEST:]
                    if len(form) >= 2 * SHORTEST and (begin in text or end in text):
                        text = _mask_rest(form, text)
            for mark, (kept, secret) in SHAPES.items():
                if mark in text:
                    text = re.sub(rf"({re.escape(mark)}{kept}){secret}", rf"\1{MASK}", text)
            if text == before:
                return text

    def json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        masked: dict[str, Any] = {}
        for key, item in value.items():
            name = self.text(key)
            others = (f"{name} {number}" for number in count(2))
            name = name if name not in masked else next(n for n in others if n not in masked)
            is_header = key.lower().replace("_", "-") in SECRET_HEADERS
            masked[name] = self._mask_header(item) if is_header else self.json(item)
        return masked

    def _mask_header(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._mask_header(item) for item in value]
        return MASK if isinstance(value, str) and value else self.json(value)


def _mask_rest(form: str, text: str) -> str:
    most = len(form) - SHORTEST
    begun = rf"{re.escape(form[:SHORTEST])}[^\s…]{{0,{most}}}?{_END}"
    ended = rf"{_START}[^\s…]{{0,{most}}}?{re.escape(form[-SHORTEST:])}"
    text = re.sub(begun, lambda one: MASK if form.startswith(one[0]) else one[0], text)
    return re.sub(ended, lambda one: MASK if form.endswith(one[0]) else one[0], text)


def _is_secret(value: str) -> bool:
    """True unless a value is too short or too ordinary to be removed everywhere."""
    return (
        len(value) >= SHORTEST
        and len(set(value)) > 3  # not a placeholder or a line, such as `xxxxxxxx` or `--------`
        and value.lower() not in ORDINARY
        and not (os.path.isabs(value) and os.path.exists(value))  # noqa: PTH110, PTH117 - or raises
    )


def _list_forms(secret: str) -> Iterator[str]:
    """Yields a secret's forms: plain, in one line, JSON (twice, too), `repr`, in URLs, base64."""
    encoded = secret.encode("utf-8", "surrogateescape")
    yield repr(secret)[1:-1]
    yield repr(encoded)[2:-1]
    plain = {secret, " ".join(secret.split())}  # errors and rows of tables are one line
    for before in range(3):  # the fixed part of the base64 text, for each alignment in the data
        after = -(before + len(encoded)) % 3
        whole = b64encode(b"\0" * before + encoded + b"\0" * after).decode()
        part = whole[(0, 2, 3)[before] : len(whole) - (0, 2, 3)[after]]
        plain |= {part, part.replace("+", "-").replace("/", "_")}
    plain = {form for form in plain if len(form) >= SHORTEST}
    once = {written for form in plain for written in _list_json(form)}
    yield from plain | once
    yield from (twice for form in once for twice in _list_json(form))
    for in_url in (quote(encoded), quote(encoded, safe=""), quote_plus(encoded)):
        yield in_url
        yield re.sub("%..", lambda code: code[0].lower(), in_url)


def _list_json(text: str) -> Iterator[str]:
    for ascii_only in (False, True):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield written
        yield written.replace("/", r"\/")
