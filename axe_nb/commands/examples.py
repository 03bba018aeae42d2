"""The prose of help pages: what commands are for, at length, and examples."""

from __future__ import annotations

from collections.abc import Mapping

from axe_nb.messages.model_table import suggest_model, suggest_small

ABOUT: Mapping[str, tuple[str, ...]] = {
    "%%axe": (
        "Run an agent; the cell's body is the prompt. Returns the RunResult.",
        "{{ expr }} in the body is replaced by the value of a Python expression. All other text is "
        "left as it is: single braces, dollar signs, JSON, TeX, code. \\{{ is a literal {{, and "
        "--raw turns interpolation off. Without AGENT, the prompt goes directly to the model given "
        "with -m. "
        "On the option line, IPython's own {x} and $x work. `%config AxeMagics` sets defaults for "
        "all cells.",
    ),
    "%%axe_agent": (
        "Define an agent from the TOML in the cell, and show its tools, permissions and "
        "sub-agents.",
        "From then on it is available in this session, also as a sub-agent of others. With --save, "
        "the TOML, comments included, is also written to the agent's file, and the changes are "
        "shown. `name` may be omitted.",
    ),
    "%%axe_grid": (
        "Run every combination of agents, models and parameters on every input. Returns the Grid.",
        "The body is a template of the prompt: {{ name }} is a column of the inputs, or else a "
        "variable. The table shows the share of runs that passed, with its confidence interval; "
        "each square opens its runs.",
    ),
    "%axe": (
        "List, show, run and check agents, and look into finished runs.",
        "%axe help COMMAND describes one command. Cells have pages of their own: %%axe?, "
        "%%axe_agent? and %%axe_grid?",
    ),
    "axe-nb": (
        "Run LLM agents that delegate to other agents.",
        "axe-nb COMMAND --help describes one command. Without a key, begin with demo or start.",
    ),
    "axe-nb run": (
        "Run an agent. The answer goes to stdout, everything else to stderr.",
        "Exit code: 0 completed, 1 the agent failed or reached a limit, 2 invalid configuration "
        "(nothing was sent), 3 the model's server failed or the time limit was reached, 130 "
        "interrupted.",
    ),
    "axe-nb agents": ("List, show, create and edit agents.",),
    "axe-nb config": ("Show where the settings are, and create the file.",),
    "axe-nb check": (
        "Run notebooks without a key or network, and list the cells that differ.",
        "A cell differs if it fails, if its output is not the saved one, or if its saved answer "
        "no longer belongs to the agents, prompts and cassettes on disk. The exit code is then 1.",
    ),
    "axe-nb freeze": (
        "Record a notebook's exchanges with models, and verify that it is its own test.",
        "The exchanges go to a cassette beside the notebook. Two more runs, without network, must "
        "give the same outputs; if not, the notebook is left unchanged and the exit code is 1.",
    ),
}
"""Beginning of a usage line → the paragraphs below it; others have the sentence of the table."""

EXAMPLES: Mapping[str, str] = {
    "%%axe": """\
%%axe critic -o review
What is missing in {{ draft }}?

%%axe critic -c
Which of these matters most?

%%axe -m ollama/llama3.2 --param temperature=0
Name three rivers of France.""",
    "%%axe_agent": f"""\
%%axe_agent critic
model = "{suggest_model("anthropic")}"
system_prompt = "You find what is missing."

%%axe_agent reader --save
model = "ollama/llama3.2"
tools = ["file_ops_readonly"]""",
    "%%axe_grid": f"""\
%%axe_grid brief,thorough --inputs texts
Summarise: {{{{ input }}}}

%%axe_grid critic --models {suggest_model("openai")},{suggest_small()} --inputs cases.csv
What is missing in {{{{ text }}}}?

%%axe_grid critic --inputs cases.csv --budget 0.50 --dry-run
What is missing in {{{{ text }}}}?""",
    "%axe": """\
%axe init critic
%axe run critic "What is missing?"
%axe help request""",
    "%axe list": """\
%axe list
%axe list --agents-dir ../other/agents""",
    "%axe show": """\
%axe show critic
%axe show $name""",
    "%axe init": """\
%axe init critic
%axe init critic --agents-dir ~/.config/axe/agents""",
    "%axe edit": "%axe edit critic",
    "%axe tools": """\
%axe tools
%axe tools critic""",
    "%axe run": """\
%axe run critic "What is missing?" -o review
%axe run critic -p {draft}
%axe run critic "What is missing?" --dry-run""",
    "%axe env": """\
%axe env
%axe env .env""",
    "%axe usage": "%axe usage",
    "%axe budget": """\
%axe budget 0.40
%axe budget""",
    "%axe expect": """\
%axe expect depth <= 2; no write_file
%axe expect review: text ~ /missing/
%axe expect turns <= 6; tokens < 5000; cost < 0.02""",
    "%axe history": """\
%axe history
%axe history critic
%axe history --delete 17""",
    "%axe cassette": """\
%axe cassette lesson.axe
%axe cassette lesson.axe --mode record
%axe cassette --status""",
    "%axe request": """\
%axe request
%axe request review@0.2/3
%axe request 0/1 --protocol openai""",
    "%axe diff": """\
%axe diff first second
%axe diff first@0.2 second@0.2
%axe diff first 0""",
    "%axe time": """\
%axe time
%axe time review@0.2""",
    "%axe undo": """\
%axe undo
%axe undo review
%axe undo 17""",
    "%axe doctor": """\
%axe doctor
%axe doctor --agents-dir {folder}""",
    "%axe trust": """\
%axe trust
%axe trust ../other""",
    "%axe reset": """\
%axe reset
%axe reset critic
%axe reset --agents""",
    "%axe help": """\
%axe help
%axe help request""",
    "axe-nb": """\
axe-nb start
axe-nb run greeter "My name is Ada."
git diff | axe-nb run critic -p "What did I miss?\"""",
    "axe-nb run": """\
axe-nb run critic "What is missing?"
git diff | axe-nb run critic -p "What did I miss?"
axe-nb run -m ollama/llama3.2 -p "Say hello.\"""",
    "axe-nb agents": """\
axe-nb agents init critic
axe-nb agents list
axe-nb agents show critic""",
    "axe-nb agents list": """\
axe-nb agents list
axe-nb agents list --agents-dir ../other/agents""",
    "axe-nb agents show": "axe-nb agents show critic",
    "axe-nb agents init": """\
axe-nb agents init critic
axe-nb agents init critic --agents-dir ~/.config/axe/agents""",
    "axe-nb agents edit": """\
axe-nb agents edit critic
EDITOR="code --wait" axe-nb agents edit critic""",
    "axe-nb trust": """\
axe-nb trust
axe-nb trust ../other
AXE_NB_TRUST=1 axe-nb check notebooks""",
    "axe-nb history": """\
axe-nb history
axe-nb history critic""",
    "axe-nb check": """\
axe-nb check lesson.ipynb
axe-nb check "notebooks/0*.ipynb" --timeout 60""",
    "axe-nb freeze": """\
axe-nb freeze lesson.ipynb
axe-nb freeze notebooks""",
    "axe-nb lesson": """\
axe-nb lesson lesson.ipynb
axe-nb lesson lesson.ipynb --to handout
axe-nb lesson lesson.ipynb --check submissions --csv marks.csv""",
    "axe-nb config": """\
axe-nb config path
axe-nb config init""",
    "axe-nb config path": """\
axe-nb config path
cat "$(axe-nb config path)\"""",
    "axe-nb config init": """\
axe-nb config init
XDG_CONFIG_HOME=$PWD/try axe-nb config init""",
    "axe-nb doctor": """\
axe-nb doctor
axe-nb doctor --agents-dir ../other/agents""",
    "axe-nb demo": "axe-nb demo",
    "axe-nb start": """\
axe-nb start
axe-nb start survey --no-open""",
    "axe-nb version": "axe-nb version",
}
"""Beginning of a usage line → the examples of its page; those of cells have blank lines between."""
