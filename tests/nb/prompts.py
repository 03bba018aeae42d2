"""Prompts full of braces, dollar signs and backslashes, as people paste them into cells.

Each is a whole prompt. `UNCHANGED` reach the model as they are; each of `UNKNOWN` holds a valid
`{{ expression }}` whose name nobody has defined, which is an error that names it (D-40).
"""

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
"""Name → prompt."""

UNKNOWN = {
    "jinja name": ("Dear {{ customer.name }},", "customer", 2),
    "jinja filter": ("a\n{{ title | upper }}", "title", 3),
    "mustache html": ("a\n\nb {{{ body }}}", "body", 4),
    "latex with a name": (r"\frac{{numerator}}{2}", "numerator", 2),
    "react value": ("<A b={{ c: shade }} d={{ shade }} />", "shade", 2),
    "below nbval": ("# NBVAL_SKIP\n\n{{ nobody }}", "nobody", 4),
    "over two lines": ("{{ missing_one(\n 1) }}", "missing_one", 2),
}
"""Name → (prompt, unknown name, line in the editor)."""
