"""What is typed into a cell is what reaches a model's server, brace for brace (D-40)."""

from __future__ import annotations

from pathlib import Path

import pytest

from axe_nb.scripting.server import script_server
from tests.nb.kernels import Kernels, text, write_agents

UNCHANGED = {
    "json object": '{"name": "Ada", "tags": ["a", "b"], "nested": {"deep": {"er": {}}}}',
    "react style": "<div style={{ color: 'red', margin: 0 }}>{children}</div>",
    "tex dollars": "Let $x$ be in $$\\{x : x > 0\\}$$ and cost $5.",
    "regex quantifier": r"^\d{3}-\d{2,4}$ and [0-9]{{3}} and (?P<y>\d{4})",
    "python f-string": "f'{x!r} {{ a literal }} {y:.2f}'.replace('{{', '{')",
    "python doctest": ">>> f({'a': 1})\n{'a': 1}\n>>> for x in 'ab':\n...     print({x})\n",
    "ipython session": "In [1]: {1: {2}}\nOut[1]: {1: {2}}\n\nIn [2]: x",
    "python indented doctest": "Look:\n    >>> {'a': {}}\n    {'a': {}}",
    "jinja literal": "{{ 'text' }} {{ 1 }} {{ [1, 2] }} {{ {'a': 1} }}",
    "handlebars block": "{{#each items}}<li>{{/each}} {{#if a}}x{{^}}y{{/if}}",
    "go template": "{{ .Values.image.tag }} {{ .Name }} {{ $x := 1 }} {{ with .A }}",
    "helm pipe": "{{- if not .Values.x }}\n{{ toYaml .Values.y | nindent 8 }}\n",
    "shell heredoc": "cat <<'EOF'\n${not} $(expanded) {{ neither this }}\nEOF",
    "docker format": "docker ps --format '{{.Names}}\\t{{.Status}}'",
    "mermaid": "graph TD\n  A{choice} -->|yes| B{{hexagon here}}",
    "anki cloze": "The capital is {{c1::Bergen}}, {{c2::Norway::country}}.",
    "unbalanced": "}} {{ { } }{ {{{ }}}}} {",
    "empty pairs": "{{}} {{ }} {} { }",
    "only one side": "{{ open\n\nand more\n",
    "question marks": "what? ?help help?? !ls",
    "backslashes": "\\n \\t \\\\ \\{ \\} \\$ \\x41 \\",
    "indented": "    four spaces\n\ttab\n  two\n",
    "blank lines around": "\n\ntext {x}\n\n\n",
    "unicode": "“quotes” – ñ ß 漢字 🙂 {𝕏} \u2028 \u00a0|",
    "windows path": "C:\\Users\\{user}\\new\\table",
    "comment like nbval": "# NBVAL is a tool\ntext",
}
"""Name → prompt that reaches the model as it is."""

UNKNOWN = (
    "Dear {{ customer.name }},",
    "a\n{{ title | upper }}",
    "a\n\nb {{{ body }}}",
    r"\frac{{numerator}}{2}",
    "<A b={{ c: shade }} d={{ shade }} />",
    "# NBVAL_SKIP\n\n{{ nobody }}",
    "{{ missing_one(\n 1) }}",
)
"""Prompts with a valid expression whose name nobody has defined: unchanged with --raw."""


@pytest.mark.req("D-40")
def test_prompts_full_of_braces_reach_the_server_unchanged(
    project: Path, kernel_python: Path, kernels: Kernels
) -> None:
    write_agents(project, {"echo": '[[rule]]\ntext = "heard"\n'}, "openai")
    with script_server("openai") as server:
        cells = kernels.at(kernel_python, project)  # with the address of the server
        assert cells.run("%load_ext axe_nb") == []
        changed = {}
        for name, prompt in UNCHANGED.items():
            before = len(server.requests)
            said = cells.run(f"%%axe echo -q\n{prompt}")
            assert len(server.requests) == before + 1, f"{name}: {text(said)}"
            reached = server.requests[-1]["messages"][-1]["content"]
            if reached != prompt.rstrip("\n"):  # blank lines at the end say nothing
                changed[name] = reached
        assert changed == {}
        for prompt in UNKNOWN:
            cells.run(f"%%axe echo -q --raw\n{prompt}")
            reached = server.requests[-1]["messages"][-1]["content"]
            assert reached == prompt.removeprefix("# NBVAL_SKIP\n")
