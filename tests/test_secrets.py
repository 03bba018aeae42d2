"""The filter for secrets: what it removes, in which forms, and what it leaves alone."""

from __future__ import annotations

import base64
import json
import re
import string
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb import ProviderError, RunResult
from axe_nb.agents.data_files import format_data
from axe_nb.messages import Message, ToolCall, ToolResult
from axe_nb.results import Turn
from axe_nb.secrets import MASK, ORDINARY, SECRET_HEADERS, SHAPES, find_filter, redact

OFTEN = settings(
    max_examples=40, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip

SECRET = 'p+a/s"s\\w0rd é%-5ecre7'

PLAIN = "5ecre7-5ecre7-5ecre7"

SECRETS = st.text(
    string.ascii_letters + string.digits + "+/=\"\\%&' é\n", min_size=8, max_size=40
).filter(lambda text: is_secret(text.strip()))
"""Long enough, not a path and not an ordinary word."""


def is_secret(text: str) -> bool:
    is_word = text.lower() in ORDINARY or text.startswith("/")
    return len(set(text)) > 3 and len(text) > 7 and not is_word


@pytest.mark.req("D-60")
@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "GITHUB_TOKEN", "CLIENT_SECRET", "DB_PASSWORD", "MYSQL_PWD", "SMTP_PASS",
        "GOOGLE_CREDENTIALS", "NPM_CONFIG__AUTH", "githubtoken", "SSH_PASSPHRASE", "JIRA_PAT",
        "SESSION_COOKIE", "PROXY_AUTHORIZATION", "AWS_SECRET_ACCESS_KEY", "PGPASSWD",
    ],
)  # fmt: skip
def test_values_of_variables_that_sound_secret_are_removed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert redact(f"it is {PLAIN}.") == f"it is {PLAIN}."
    monkeypatch.setenv(name, PLAIN)
    assert redact(f"it is {PLAIN}.") == "it is ***."
    assert repr(ProviderError("auth", PLAIN)) == "ProviderError('auth: ***')"
    monkeypatch.delenv(name)
    assert redact(f"it is {PLAIN}.") == f"it is {PLAIN}."


@pytest.mark.parametrize(
    "name", ["PATH", "GIT_AUTHOR_NAME", "HOME", "LANG", "COMPASS", "PATTERN", "OPENAI_BASE_URL"]
)
def test_values_of_other_variables_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, PLAIN)
    assert redact(PLAIN) == PLAIN


@pytest.mark.parametrize(
    "value", ["true", "none", "1234567", "", "password", "Required", "lm-studio", "-" * 20, "*" * 9]
)
def test_short_and_ordinary_values_stay(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", value)
    text = f"a {value} b password Required ---------------------------"
    assert redact(text) == text


@pytest.mark.parametrize("value", [f" {PLAIN}\n", f"Bearer {PLAIN}", f"token  {PLAIN} "])
def test_blanks_and_the_scheme_of_a_header_are_not_part_of_a_secret(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_AUTH", value)
    encoded = base64.b64encode(PLAIN.encode()).decode()
    assert redact(f"({PLAIN}) [{encoded.strip('=')}]").startswith("(***) [***")
    assert redact("The bearer token is here") == "The bearer token is here"


def forms(secret: str) -> dict[str, str]:
    data = secret.encode()
    return {
        "plain": secret,
        "in one line": " ".join(secret.split()),
        "JSON": json.dumps({"a": secret}),
        "JSON in UTF-8": json.dumps(secret, ensure_ascii=False),
        "JSON in JSON": json.dumps(json.dumps({"a": secret})),
        "JSON with escaped slashes": json.dumps(secret).replace("/", "\\/"),
        "repr": repr({"a": secret}),
        "repr of bytes": repr(data),
        "URL": f"https://x.y/?a={quote(secret)}",
        "strict URL": f"https://x.y/?a={quote(secret, safe='')}&b",
        "form": urlencode({"a": secret}),
        "form, lower case": re.sub("%..", lambda code: code[0].lower(), quote_plus(secret)),
        "base64": base64.b64encode(data).decode(),
        "base64 of a login": base64.b64encode(b"user:" + data).decode(),
        "base64 within": base64.b64encode(b"ab" + data + b"xyz").decode(),
        "base64 for URLs": base64.urlsafe_b64encode(b"a" + data).decode(),
    }


@pytest.mark.req("D-60")
@pytest.mark.parametrize("secret", [SECRET, PLAIN, "-----BEGIN X-----\nA1b2+/\n-----END X-----"])
@pytest.mark.parametrize("form", forms(""))
def test_every_form_of_a_secret_is_removed(
    form: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = forms(secret)[form]
    monkeypatch.setenv("THE_KEY", secret)
    masked = redact(f"before {written} after")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    middle = masked[7:-6]
    assert MASK in middle
    assert secret not in middle
    assert len(middle) <= len(written) - len(secret) + 10


KEYS = [
    "sk-|proj-abcdefgh12345678abcd", "sk-|ant-api03-abcdefgh12345678abcd",
    "AIza|SyA1234567890abcdefghijklmnopqrstuv", "AKIA|IOSFODNN7EXAMPLE", "ASIA|IOSFODNN7EXAMPLE",
    "ghp_|abcdefghijklmnopqrstuvwxyz0123456789", "gho_|abcdefghijklmnopqrstuvwxyz0123456789",
    "ghs_|abcdefghijklmnopqrstuvwxyz0123456789", "github_pat_|abcdefghijklmnopqrstuvwxyz",
    "glpat-|abcdefghijklmnopqrstuvwxyz", "gsk_|abcdefghijklmnopqrstuvwxyz",
    "hf_|abcdefghijklmnopqrstuvwxyz", "xoxb-|1234567890-abcdef",
    "xai-|abcdefghijklmnopqrst0123456789",
    "eyJ|hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "npm_|abcdefghijklmnopqrstuvwxyz0123456789", "npm_|abcdefghijklmnopqrstuvwxyzABCDEFGHIJ",
    "pypi-|AgEIcHlwaS5vcmcCJDAxMjM0NTY3", "sk_live_|abcdefghijklmnop01234567",
    "pplx-|abcdefghijklmnopqrstuvwxyz0123456789", "r8_|abcdefghijklmnopqrstuvwxyz0123456789",
    "nvapi-|abcdefghijklmnopqrstuvwxyz0123456789",
    "SG.|abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvw", "ya29.|a0abcdefghijklmnopqrstuvwxyz",
    "ya29.|c.b0abcdefghijklmnopqrstuvwxyz", "ya29.|a0abcdefg-hijklmn.opqrstuvwxyz",
    "dop_v1_|0123456789abcdef0123456789abcdef", "whsec_|abcdefghijklmnopqrstuvwxyz012345",
    "https://hooks.slack.com/services/|T00000000/B00000000/abcdefghijklmnop",
    "https://discord.com/api/webhooks/123456789012345678/|abcdefghijklmnopqrstuvwx",
    "https://a.webhook.office.com/webhookb2/1@2/IncomingWebhook/|0123456789abcdef01234567/b-c",
]  # fmt: skip
"""Well-known keys, each in two parts, as scanners take the whole for a key: the first one stays."""


@pytest.mark.req("D-60")
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        *((key.replace("|", ""), f"{key.partition('|')[0]}***") for key in KEYS),
        ("key sk-proj-abcdefgh12345678abcd!", "key sk-***!"),
        ("id-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVm", "id-eyJ***"),
        ("Cookie: session=abcdef; id=12\nAccept: */*", "Cookie: ***\nAccept: */*"),
        ("set-cookie: sid=abcdefgh; Path=/", "set-cookie: ***"),
        ("X-Auth-Token: abcdefgh12", "X-Auth-Token: ***"),
        ('{"password": "hunter2", "user": "me"}', '{"password": "***", "user": "me"}'),
        (r'{"password": "it\'s \"hunter2\"", "b": 1}', '{"password": "***", "b": 1}'),
        (r'"{\"password\": \"hunter2\", \"b\": 1}"', r'"{\"password\": \"***\", \"b\": 1}"'),
        ('{"PASSWORD": "hunter2"}', '{"PASSWORD": "***"}'),
        ("COOKIE: a=hunter2", "COOKIE: ***"),
        ("Authorization: Bearer abcdefgh1234567890", "Authorization: Bearer ***"),
        ("AUTHORIZATION: Bearer ABCDEFGH1234567890", "AUTHORIZATION: Bearer ***"),
        ("'authorization': 'Basic dXNlcjpwYXNz'", "'authorization': 'Basic ***'"),
        ('{\\"x-api-key\\": \\"abcdefgh12\\"}', '{\\"x-api-key\\": \\"***\\"}'),
        ("curl -H 'X-Api-Key: abcdefgh12'", "curl -H 'X-Api-Key: ***'"),
        ("postgres://user:hunter2@db.example/x", "postgres://user:***@db.example/x"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabcdefghijklmnop\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_well_known_keys_headers_and_logins_are_removed(text: str, masked: str) -> None:
    assert redact(text) == masked
    assert redact(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "a task-oriented sk-learn risk-averse desk",
        "sk-container-id-1", "sk-toggleable__label-arrow",
        "the bearer of good news arrived yesterday", "authorization is required",
        "Cookies: nice, and a cookie: the best", "password: see the manual", "npm_config_registry",
        "def password(self): return 'password'", "SG.x and ya29.", "r8_short", "pypi-mirror-of-x",
        "https://hooks.slack.com/ and /api/webhooks/ are documented",
        "http://localhost:8000/v1 and a@b.c", "https://x.y/?q=a:b@c", "the API-key: none",
    ],
)  # fmt: skip
def test_ordinary_texts_stay(text: str) -> None:
    assert redact(text) == text


@pytest.mark.req("D-60")
@pytest.mark.parametrize(
    "before", ["\n", "a\n", "a\t", "a\x01", "a\x1f", "\u2028", '"', "(", "a\r\n"]
)
@pytest.mark.parametrize("key", [key.replace("|", "") for key in KEYS if "://" not in key])
def test_a_key_is_found_in_json_where_a_line_begins_with_it(key: str, before: str) -> None:
    text = f"{before}{key}"
    for written in (text, json.dumps(text), json.dumps(text, ensure_ascii=False)):
        assert key[-12:] not in redact(written)
        assert key[-12:] not in redact(json.dumps({"in JSON": written}))
    assert redact(f"word{key}") == f"word{key}"


@pytest.mark.parametrize("name", sorted(SECRET_HEADERS))
def test_values_of_headers_are_removed_however_short(name: str) -> None:
    for key in (name, name.title(), name.upper().replace("-", "_")):
        assert find_filter().json({"x": {key: ["short"]}}) == {"x": {key: ["***"]}}


def test_keys_and_headers_of_nested_data_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", PLAIN)
    monkeypatch.setenv("B_KEY", f"other-{PLAIN}")
    data = {
        "headers": {"Authorization": "short", "x-api-key": ["a", 1], "accept": "b"},
        PLAIN: 1, f"other-{PLAIN}": 2, "list": [{"deep": f"x{PLAIN}"}, (PLAIN, None, 1.5)],
    }  # fmt: skip
    before = json.dumps(data)
    masked = find_filter().json(data)
    assert masked == {
        "headers": {"Authorization": "***", "x-api-key": ["***", 1], "accept": "b"},
        "***": 1, "*** 2": 2, "list": [{"deep": "x***"}, ["***", None, 1.5]],
    }  # fmt: skip
    assert find_filter().json(masked) == masked
    assert json.dumps(data) == before


@OFTEN
@given(st.lists(SECRETS, min_size=1, max_size=3), st.data())
def test_a_second_time_changes_nothing(secrets: list[str], data: st.DataObject) -> None:
    halves = [half for secret in secrets for half in (secret[:4], secret[4:])]
    others = ["***", "sk-", "a1" * 12, "Bearer ", "authorization: ", "https://u:", "@h", " ", "\n"]
    pieces = st.sampled_from([*secrets, *halves, *others])
    text = "".join(data.draw(st.lists(pieces, max_size=12)))
    with pytest.MonkeyPatch.context() as patch:
        for number, secret in enumerate(secrets):
            patch.setenv(f"KEY_{number}", secret)
        once = redact(text)
        assert redact(once) == once == redact(text)
        assert [secret for secret in secrets if secret in once] == []
        nested = find_filter().json({text: [text, {"a": text}]})
        assert find_filter().json(nested) == nested


def a_result(secret: str, other: str) -> RunResult:
    """A result with secrets wherever a text can be."""
    data = {"a": [secret, {secret: other}], f"x{other}y": 1, "authorization": "short"}
    calls = (ToolCall(secret, other, data, raw=json.dumps(data)),)
    results = (ToolResult(secret, f"is {other}", note=secret, edited=data),)
    return RunResult(
        status="error", text=f"{secret}\n{other}", agent=secret, model=other, error=secret,
        messages=(
            Message("user", f"prompt {secret}"), Message("assistant", other, calls, echo=data),
            Message("tool", tool_results=results),
        ),
        log=(Turn(1, secret, calls, results, other, axe_nb.Usage()),),
        metadata={secret: other}, warnings=(quote(secret),), prompt=base64.b64encode(
            secret.encode()
        ).decode(), files_read=(other,),
        cause=ProviderError("auth", f"bad {secret}", hint=other, partial_text=secret),
    )  # fmt: skip


@pytest.mark.req("D-60")
@OFTEN
@given(secret=SECRETS, other=SECRETS)
def test_no_secret_reaches_a_saved_file(secret: str, other: str, tmp_path: Path) -> None:
    result, empty = (
        replace(one, children=(one,)) for one in (a_result(secret, other), a_result("", ""))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THE_KEY", secret)
        patch.setenv("OTHER_TOKEN", other)
        result.save(tmp_path / "r.axe")
        saved = (tmp_path / "r.axe").read_text("utf-8")
    words = format_data(empty.to_dict(full=True))  # `assistant`, `tool_calls` and the like stay
    for one in (secret, other):
        if one not in words:
            assert [form for form, text in forms(one).items() if text in saved] == []
    loaded = axe_nb.load(tmp_path / "r.axe")
    assert (loaded.status, len(loaded.children), len(loaded.messages)) == ("error", 1, 3)


@pytest.mark.req("D-60")
@pytest.mark.parametrize(
    "mark",
    ["…", "\n… 9 characters hidden …\n", "\n... (truncated: the first 9 of 99 bytes)", "... more"],
)
@pytest.mark.parametrize("kept", [8, 12, 19])
def test_what_a_cut_has_left_of_a_secret_is_removed(
    kept: int, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "q7Zt0-bV4mX9-wLk2Rs8"
    monkeypatch.setenv("THE_KEY", secret)
    assert redact(f"it is {secret[:kept]}{mark}") == f"it is ***{mark}"
    whole = f"it is {secret[:kept]} and more"
    assert redact(whole) == whole, "which is not cut"
    if "…" in mark:
        assert redact(f"{mark}{secret[-kept:]} it is") == f"{mark}*** it is"


def test_a_hostile_text_costs_no_more_than_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "aaaaaaab12")
    parts = ("sk-", "a1" * 50, "://a:", "://", "-----BEGIN PRIVATE KEY-----", "authorization: ")
    parts += ("Bearer ", "eyJaaaaaaaa.", "aaaaaaab1", "x-api-key: \\\\\\", "@", "/" * 9)
    parts += ("eyJ-", "-eyJ", "eyJ--------", "eyJ" + "a" * 50 + "-", ".eyJaaaaaaaa-")
    for part in parts:
        text = part * (200_000 // len(part))
        assert timed(lambda text=text: redact(text)) < 2, part


@pytest.mark.parametrize("mark", SHAPES)
def test_no_shape_of_a_key_is_searched_from_every_place_to_the_end(mark: str) -> None:
    for filling in ("-", "a", "1", ".", "a1.", "--", "a-", "aaaaaaaaaaaaaaaa ", "-----", "=", "/"):
        for repeated in (mark + filling, mark + filling * 12):
            text = repeated * (100_000 // len(repeated))
            # a search to the end takes 20 s
            assert timed(lambda text=text: redact(text)) < 2, repeated


def timed(act: Callable[[], Any]) -> float:
    """Seconds of CPU, which do not depend on what else runs."""
    start = time.thread_time()
    act()
    return time.thread_time() - start
