"""Renders an answer's Markdown as HTML without scripts, images, or links that hide their host."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from itertools import accumulate, groupby
from operator import itemgetter
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.linkify import linkify
from markdown_it.token import Token

from axe_nb.text import INVISIBLE, REPLACEMENT, clean
from axe_nb.views.appearance import CODE, TEXT, direction, is_mixed

HOST = re.compile(
    r"[a-z][a-z0-9+.-]*://([^\s/?#]+)|((?:[\w-]+\.)+(?:[^\W\d_]{2,}|xn--[\w-]+|\d+))", re.IGNORECASE
)
"""Matches a URL or a host name in a link's text."""

LONGEST = 1000
"""Maximum length of link text that is searched for host names; the search takes quadratic time."""

MATH = re.compile(
    r"""\$\$(?=\S).{1,2000}?(?<=\S)\$\$ | \\\(.{1,2000}?\\\) | \\\[.{1,2000}?\\\]
    | \$(?=\S)(?!\d[^$]*\s)(?=[^$]{0,200}[\\^_])[^$\n`]{1,200}(?<=\S)\$(?!\d)""",
    re.DOTALL | re.VERBOSE,
)
"""Matches a TeX formula. Between single dollar signs, it must contain a backslash, `^` or `_`."""

COMMANDS = """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi
    varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi
    Pi Sigma Upsilon Phi Psi Omega infty partial nabla ell hbar Re Im aleph prime angle emptyset
    frac dfrac tfrac binom sqrt sum prod int iint oint lim limsup liminf sup inf max min arg det dim
    ker gcd log ln exp sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh Pr mod bmod pmod
    times div cdot pm mp ast star circ bullet oplus otimes cup cap setminus wedge vee land lor neg
    lnot in notin ni subset supset subseteq supseteq forall exists nexists leq le geq ge neq ne
    approx equiv sim simeq cong propto ll gg mid parallel perp to gets rightarrow leftarrow mapsto
    Rightarrow Leftarrow leftrightarrow Leftrightarrow implies iff ldots cdots vdots ddots dots quad
    hat bar vec dot ddot tilde widehat widetilde overline underline overbrace underbrace left right
    big Big bigg Bigg bigl bigr langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert
    text textbf textit mathrm mathbf mathbb mathcal mathit mathsf operatorname boldsymbol begin end
    limits displaystyle
"""
"""TeX commands that a typeset formula may contain. A formula with any other command stays text,
because other commands can create links, define macros for the whole page, or draw over content."""

TYPESET = frozenset(COMMANDS.split())

UNSAFE = re.compile(
    r"""\\\\\s*\*?\s*\[ | \\(?:begin|end)\s*
    (?!\s|\{(?:[pbBvV]?matrix|cases|aligned|gathered|align\*)\})""",
    re.VERBOSE,
)
"""Matches the spacing argument of a line break, and environments other than matrices, cases and
aligned lines. A formula with a match stays text."""

OPENS_OR_CLOSES = re.compile(r"\\[{}]|(\{|\\(?:left|begin)\b)|(\}|\\(?:right|end)\b)")

DEEPEST = 12
"""Maximum nesting depth of a typeset formula; about 90 nested fractions crash a browser tab."""

LANGUAGES = frozenset(
    {
        "bash", "c", "cpp", "css", "diff", "go", "html", "ini", "java", "javascript", "js", "json",
        "julia", "py", "pycon", "python", "python3", "r", "rb", "ruby", "rs", "rust", "sh", "shell",
        "sql", "toml", "ts", "typescript", "xml", "yaml", "yml",
    }
)  # fmt: skip
"""Languages whose fenced code is coloured; each was tested with hostile code."""

LONGEST_CODE, MOST_LINES = 5000, 400
"""Maximum length, in characters and in lines, of coloured code; some lexers take quadratic time."""


def render(text: str) -> str:
    """Renders Markdown as HTML, or as plain text if the HTML would be far longer than the text."""
    return "".join(render_blocks(text))


def render_blocks(text: str) -> list[str]:
    """Renders each top-level element of a Markdown text, such as a paragraph or a list, as HTML."""
    parser = _make_parser()
    env = {"mixed": is_mixed(text)}
    tokens = parser.parse(text, env)
    blocks, begin = list[str](), 0
    for end, token in enumerate(tokens, 1):
        if token.level or token.nesting == 1:
            continue
        # cleaned again, as entities such as `&shy;` have become characters
        blocks.append(clean(parser.renderer.render(tokens[begin:end], parser.options, env)))
        begin = end
    # a table of empty cells has 90 characters of HTML for each character of text
    if sum(map(len, blocks)) > 4000 + 18 * len(text):
        return [f"<pre style=white-space:pre-wrap>{escape(text, quote=False)}</pre>\n"]
    return blocks


def _make_parser() -> MarkdownIt:
    def link(state: StateInline, silent: bool) -> bool:
        # the library's rule would search the whole line for a scheme at each `://`
        return state.pending[-5:].lower().endswith(("http", "https")) and linkify(state, silent)

    options = {
        "html": False, "breaks": True, "linkify": True, "maxNesting": 20,
        "highlight": format_code,
    }  # fmt: skip
    parser = MarkdownIt("commonmark", options)
    parser.enable(["table", "strikethrough", "linkify"]).disable("image")
    assert parser.linkify is not None
    # only complete addresses become links, not `main.py` or `e.g.this`
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    parser.block.ruler.at("table", _make_table, {"alt": ["paragraph", "reference"]})
    schemes = ("http://", "https://", "mailto:")  # other links stay plain text
    parser.validateLink = lambda url: url.strip().lower().startswith(schemes)  # type: ignore[method-assign]
    parser.inline.ruler.at("linkify", link)
    parser.inline.ruler.before("escape", "math", _find_math)
    typeset = "<span class='mathjax_process tex2jax_process'>{}</span>".format
    parser.add_render_rule("math", lambda _, tokens, at, *__: typeset(escape(tokens[at].content)))
    parser.core.ruler.push("adapt", _adapt_tokens)
    return parser


def _find_math(state: StateInline, silent: bool) -> bool:
    found = MATH.match(state.src, state.pos) if state.src[state.pos] in "$\\" else None
    if found is None or UNSAFE.search(found[0]):
        return False
    is_known = TYPESET.issuperset(re.findall(r"\\([A-Za-z]+)", found[0]))
    depths = (bool(one[1]) - bool(one[2]) for one in OPENS_OR_CLOSES.finditer(found[0]))
    cells = found[0].count("&") * found[0].count(r"\\")  # every row gets those of the longest
    if not is_known or max(accumulate(depths), default=0) > DEEPEST or cells > 1000:
        return False
    if not silent:
        state.push("math", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _make_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parses a table, or makes it a code block if over 2,000 cells are missing from its rows.

    The table is parsed by markdown-it's own rule, which adds an empty cell for each missing one.
    """
    if silent or not table(state, start, end, True):
        return table(state, start, end, silent)
    line, missing, columns = start + 2, 0, _count_pipes(state, start + 1)
    while line < end and not state.isEmpty(line):
        missing += max(0, columns - _count_pipes(state, line))
        line += 1
    if missing <= 2000:  # each empty cell takes 15 µs
        return table(state, start, end, silent)
    token = state.push("fence", "code", 0)
    token.content = state.getLines(start, line, state.blkIndent, False)
    token.map = [start, line]
    state.line = line
    return True


def _count_pipes(state: StateBlock, line: int) -> int:
    return state.src.count("|", state.bMarks[line], state.eMarks[line])


def _adapt_tokens(state: StateCore) -> None:
    """Post-processes Markdown tokens: link safety, code blocks, cell alignment, text direction."""
    for token in state.tokens:
        if token.children:
            token.children = list(_with_hosts(token.children))
        if token.type == "code_block":  # code that is indented, not fenced
            token.type, token.tag, token.info = "fence", "code", ""
        if token.type in ("th_open", "td_open"):
            token.attrs["style"] = f"{token.attrs.get('style', 'text-align:left')};padding:.5em"
        if token.type == "heading_open":  # marimo resets headings, lists and cells
            token.attrs["style"] = "font-weight:var(--jp-content-heading-font-weight,bold)"
        if token.type in ("bullet_list_open", "ordered_list_open"):
            token.attrs["style"] = "list-style:revert;padding-left:2em"
        if token.nesting == 1 and state.env.get("mixed"):
            token.attrSet("dir", "auto")


def _with_hosts(tokens: list[Token]) -> Iterator[Token]:
    """Adds `rel` to all links, and the real host after a link whose text may show another host."""
    target, shown, has_formula = "", "", False
    for token in tokens:
        yield token
        if token.type == "link_open":
            token.attrs.pop("title", None)  # it could show another address
            token.attrSet("rel", "noopener noreferrer")
            target, shown, has_formula = str(token.attrs.get("href", "")), "", False
            with suppress(ValueError):
                parts = urlsplit(target)
                target = (parts.hostname or parts.path.rpartition("@")[2]).lower()
        elif token.type == "link_close":
            seen = INVISIBLE.sub("", shown[: LONGEST + 1]).replace(REPLACEMENT, "")
            plain = unicodedata.normalize("NFKC", seen).replace("\u3002", ".").lower()
            named = {re.sub(r":\d*$", "", match[1] or match[2]) for match in HOST.finditer(plain)}
            if has_formula or len(shown) > LONGEST or named - {target, f"www.{target}"}:
                yield Token("text", "", 0, content=f" ({target})")
        else:
            shown += token.content
            has_formula = has_formula or token.type == "math"


def format_code(code: str, language: str = "", _attributes: str = "") -> str:
    """Formats code as HTML, coloured if the language is supported and the code is not too long."""
    code = clean(code).removesuffix("\n")
    plain = escape(code, quote=False)
    inner = plain
    is_short = len(code) <= LONGEST_CODE and code.count("\n") < MOST_LINES
    if language.lower() in LANGUAGES and is_short:
        coloured = "".join(_paint(code, language.lower()))
        if len(coloured) <= 8 * len(code):
            inner = coloured
    return f"<pre{direction(code)} style='{TEXT}'>{inner}</pre>\n"


def _paint(code: str, language: str) -> Iterator[str]:
    from pygments.lexers import get_lexer_by_name

    name = "yaml" if language == "yml" else language  # `yml` is an alias only since Pygments 2.21
    lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    left, last = len(code), ""  # lexers need a newline at the end, which is not shown
    spans = list[tuple[str, str]]()
    for kind, text in lexer.get_tokens(code + "\n"):
        if not text.isspace():  # whitespace keeps the style before it, which saves spans
            parts = str(kind).split(".")[1:]
            names = [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
            last = next((f"color:{CODE[name]}" for name in names if name in CODE), "")
        spans.append((last, text[:left]))
        left = max(0, left - len(text))
    for style, run in groupby(spans, key=itemgetter(0)):
        shown = escape("".join(text for _, text in run), quote=False)
        yield f"<span style={style}>{shown}</span>" if style else shown
