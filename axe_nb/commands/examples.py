"""The prose of help pages: what commands are for, at length, and examples.

Every page has three examples, fewer only if its command takes nothing.

Source: issue "Teaching and documentation".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from axe_nb.model_table import suggest_model, suggest_small

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
    "%axe": ("List, show, run and check agents, and look into finished runs.",),
    "axe-nb": ("Run LLM agents that delegate to other agents.",),
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


class Example(NamedTuple):
    """One example of a help page."""

    about: str
    """Its purpose, as an imperative."""
    code: str
    """The line of a shell, or the cell with its body."""


OF_CELLS: Mapping[str, tuple[Example, ...]] = {
    "%%axe": (
        Example(
            "Ask an agent, and keep the RunResult in a variable",
            "%%axe critic -o review\nWhat is missing in {{ draft }}?",
        ),
        Example("Continue its conversation", "%%axe critic -c\nWhich of these matters most?"),
        Example(
            "Ask a model without an agent",
            "%%axe -m ollama/llama3.2 --param temperature=0\nName three rivers of France.",
        ),
    ),
    "%%axe_agent": (
        Example(
            "Define an agent for this session",
            f'%%axe_agent critic\nmodel = "{suggest_model("anthropic")}"\n'
            'system_prompt = "You find what is missing."',
        ),
        Example(
            "Write its file too, axe/agents/reader.toml",
            '%%axe_agent reader --save\nmodel = "ollama/llama3.2"\ntools = ["file_ops_readonly"]',
        ),
        Example(
            "Define an agent that delegates to these two",
            f'%%axe_agent lead\nmodel = "{suggest_model("anthropic")}"\n'
            'sub_agents = ["critic", "reader"]',
        ),
    ),
    "%%axe_grid": (
        Example(
            "Compare two agents on the texts of a list",
            "%%axe_grid brief,thorough --inputs texts\nSummarise: {{ input }}",
        ),
        Example(
            "Compare two models on the rows of a file, three runs each",
            f"%%axe_grid critic --models {suggest_model('openai')},{suggest_small()} "
            "--inputs cases.csv --repeats 3\nWhat is missing in {{ text }}?",
        ),
        Example(
            "Show how many requests a grid would make, without sending any",
            "%%axe_grid critic --inputs cases.csv --budget 0.50 --dry-run\n"
            "What is missing in {{ text }}?",
        ),
    ),
}
"""Cell magic → its examples."""

OF_LINES: Mapping[str, tuple[Example, ...]] = {
    "%axe": (
        Example("Write the file of a first agent", "%axe init critic"),
        Example("Run it on one line", '%axe run critic "What is missing?"'),
        Example("Describe one of these commands", "%axe help request"),
    ),
    "%axe list": (
        Example("List the agents available here", "%axe list"),
        Example("List those of another project first", "%axe list --agents-dir ../other/agents"),
        Example("The same, with the folder in a variable", "%axe list --agents-dir {folder}"),
    ),
    "%axe show": (
        Example("Show an agent", "%axe show critic"),
        Example("Show the agent that a variable names", "%axe show $name"),
        Example("Show one of another project", "%axe show critic --agents-dir ../other/agents"),
    ),
    "%axe init": (
        Example("Write axe/agents/critic.toml", "%axe init critic"),
        Example(
            "Write it for all your projects", "%axe init critic --agents-dir ~/.config/axe/agents"
        ),
        Example("Write it to the folder in a variable", "%axe init critic --agents-dir {folder}"),
    ),
    "%axe edit": (
        Example("Edit an agent in a new cell", "%axe edit critic"),
        Example("Edit the agent that a variable names", "%axe edit $name"),
        Example("Edit one of another project", "%axe edit critic --agents-dir ../other/agents"),
    ),
    "%axe tools": (
        Example("List all tools", "%axe tools"),
        Example("List those of an agent, with what each may do", "%axe tools critic"),
        Example("List those of the agent that a variable names", "%axe tools $name"),
    ),
    "%axe run": (
        Example("Ask an agent", '%axe run critic "What is missing?" -o review'),
        Example("Send the text in a variable", "%axe run critic -p {draft}"),
        Example("Show what would be sent", '%axe run critic "What is missing?" --dry-run'),
    ),
    "%axe env": (
        Example("Show which keys are set", "%axe env"),
        Example("Set the keys of a file", "%axe env .env"),
        Example("Set those of a file outside the project", "%axe env ~/keys/work.env"),
    ),
    "%axe usage": (Example("Show what this notebook has used", "%axe usage"),),
    "%axe budget": (
        Example("Allow this notebook 40 cents", "%axe budget 0.40"),
        Example("Show what is spent and what is left", "%axe budget"),
        Example("Remove the budget", "%axe budget 0"),
    ),
    "%axe expect": (
        Example("Check the last run", "%axe expect depth <= 2; no write_file"),
        Example("Check the run in the variable review", "%axe expect review: text ~ /missing/"),
        Example("Check what it used", "%axe expect turns <= 6; tokens < 5000; cost < 0.02"),
    ),
    "%axe history": (
        Example("List the latest runs", "%axe history"),
        Example("List those of an agent", "%axe history critic"),
        Example("Delete run 17", "%axe history --delete 17"),
    ),
    "%axe cassette": (
        Example("Record what is missing, replay what is there", "%axe cassette lesson.axe"),
        Example("Record everything again", "%axe cassette lesson.axe --mode record"),
        Example("Show what was replayed and what was not used", "%axe cassette --status"),
    ),
    "%axe request": (
        Example("Show the last request of the last run", "%axe request"),
        Example("Show that of turn 3 of a child of `review`", "%axe request review@0.2/3"),
        Example(
            "Show a request as another protocol would send it",
            "%axe request 0/1 --protocol openai",
        ),
    ),
    "%axe diff": (
        Example("Compare the runs in two variables", "%axe diff first second"),
        Example("Compare a child of each", "%axe diff first@0.2 second@0.2"),
        Example("Compare a run with the last one", "%axe diff first 0"),
    ),
    "%axe time": (
        Example("Show the times of the last run", "%axe time"),
        Example("Show those of the run in a variable", "%axe time review"),
        Example("Show those of one of its children", "%axe time review@0.2"),
    ),
    "%axe undo": (
        Example("Put back what the last run changed", "%axe undo"),
        Example("Put back what the run in a variable changed", "%axe undo review"),
        Example("Put back what run 17 of the history changed", "%axe undo 17"),
    ),
    "%axe doctor": (
        Example("Check settings, keys, servers and agents", "%axe doctor"),
        Example("Check the agents of another folder", "%axe doctor --agents-dir ../other/agents"),
        Example("Check those of the folder in a variable", "%axe doctor --agents-dir {folder}"),
    ),
    "%axe trust": (
        Example("See what is left out, and trust this project", "%axe trust"),
        Example("Trust the project of another folder", "%axe trust ../other"),
        Example("Trust that of the folder in a variable", "%axe trust {folder}"),
    ),
    "%axe reset": (
        Example("Forget all conversations", "%axe reset"),
        Example("Forget that of an agent", "%axe reset critic"),
        Example("Forget the agents defined in cells too", "%axe reset --agents"),
    ),
    "%axe help": (
        Example("List the commands", "%axe help"),
        Example("Describe one", "%axe help request"),
        Example("Describe the one that checks a run", "%axe help expect"),
    ),
}
"""Line of `%axe` → its examples."""

OF_COMMANDS: Mapping[str, tuple[Example, ...]] = {
    "axe-nb": (
        Example("Write a first notebook and agent, and open them; needs no key", "axe-nb start"),
        Example("Ask the agent it wrote", 'axe-nb run greeter "My name is Ada."'),
        Example("Pipe text in", 'git diff | axe-nb run critic -p "What did I miss?"'),
    ),
    "axe-nb run": (
        Example("Ask an agent", 'axe-nb run critic "What is missing?"'),
        Example(
            "Pipe text in; it follows the prompt",
            'git diff | axe-nb run critic -p "What did I miss?"',
        ),
        Example("Ask a model without an agent", 'axe-nb run -m ollama/llama3.2 -p "Say hello."'),
    ),
    "axe-nb agents": (
        Example("Write the file of a first agent", "axe-nb agents init critic"),
        Example("List the agents available here", "axe-nb agents list"),
        Example("Show an agent", "axe-nb agents show critic"),
    ),
    "axe-nb agents list": (
        Example("List the agents available here", "axe-nb agents list"),
        Example("List only some", "axe-nb agents list | grep review"),
        Example(
            "List those of another project first",
            "axe-nb agents list --agents-dir ../other/agents",
        ),
    ),
    "axe-nb agents show": (
        Example("Show an agent", "axe-nb agents show critic"),
        Example("Page through a long one", "axe-nb agents show critic | less"),
        Example(
            "Show one of another project",
            "axe-nb agents show critic --agents-dir ../other/agents",
        ),
    ),
    "axe-nb agents init": (
        Example("Write axe/agents/critic.toml", "axe-nb agents init critic"),
        Example(
            "Write it for all your projects",
            "axe-nb agents init critic --agents-dir ~/.config/axe/agents",
        ),
        Example(
            "Write it and open it", "axe-nb agents init critic && axe-nb agents edit critic"
        ),
    ),
    "axe-nb agents edit": (
        Example("Open an agent in your editor", "axe-nb agents edit critic"),
        Example("Open it in another", 'EDITOR="code --wait" axe-nb agents edit critic'),
        Example(
            "Open one of another project",
            "axe-nb agents edit critic --agents-dir ../other/agents",
        ),
    ),
    "axe-nb trust": (
        Example("See what is left out, and trust this project", "axe-nb trust"),
        Example("Trust the project of another folder", "axe-nb trust ../other"),
        Example("Trust every folder, for CI", "AXE_NB_TRUST=1 axe-nb check notebooks"),
    ),
    "axe-nb check": (
        Example("Check a notebook", "axe-nb check lesson.ipynb"),
        Example("Check all notebooks of a folder", "axe-nb check notebooks"),
        Example("Allow each cell a minute", 'axe-nb check "notebooks/0*.ipynb" --timeout 60'),
    ),
    "axe-nb freeze": (
        Example("Freeze a notebook", "axe-nb freeze lesson.ipynb"),
        Example("Freeze all notebooks of a folder", "axe-nb freeze notebooks"),
        Example("Set no time limit", "axe-nb freeze lesson.ipynb --timeout 0"),
    ),
    "axe-nb lesson": (
        Example("Write student/lesson.ipynb, without solutions", "axe-nb lesson lesson.ipynb"),
        Example("Write it to another folder", "axe-nb lesson lesson.ipynb --to handout"),
        Example(
            "Mark a folder of submissions",
            "axe-nb lesson lesson.ipynb --check submissions --csv marks.csv",
        ),
    ),
    "axe-nb config": (
        Example("Show where the settings are", "axe-nb config path"),
        Example("Write a commented starter file", "axe-nb config init"),
        Example("Show the settings", 'cat "$(axe-nb config path)"'),
    ),
    "axe-nb config path": (
        Example("Show where the settings are", "axe-nb config path"),
        Example("Show the settings", 'cat "$(axe-nb config path)"'),
        Example("Use another folder of settings", "XDG_CONFIG_HOME=$PWD/try axe-nb config path"),
    ),
    "axe-nb config init": (
        Example("Write the file", "axe-nb config init"),
        Example("Write it and open it", 'axe-nb config init && nano "$(axe-nb config path)"'),
        Example("Write it to another folder", "XDG_CONFIG_HOME=$PWD/try axe-nb config init"),
    ),
    "axe-nb doctor": (
        Example("Check settings, keys, servers and agents", "axe-nb doctor"),
        Example("Run an agent only if no problem was found", "axe-nb doctor && axe-nb run critic "
        "Hello"),
        Example("Check the agents of a folder", "axe-nb doctor --agents-dir ../other/agents"),
    ),
    "axe-nb demo": (
        Example("Watch the run", "axe-nb demo"),
        Example("Print only the finished tree", "axe-nb demo 2>/dev/null"),
        Example("Keep it", "axe-nb demo > tree.txt"),
    ),
    "axe-nb start": (
        Example("Write first.ipynb, and open it", "axe-nb start"),
        Example("Give the notebook another name", "axe-nb start survey"),
        Example("Only write the files", "axe-nb start survey --no-open"),
    ),
    "axe-nb version": (
        Example("Print the version", "axe-nb version"),
        Example("The same", "axe-nb --version"),
        Example("The same", "axe-nb -V"),
    ),
}  # fmt: skip
"""Command of `axe-nb`, or the beginning of several → its examples."""

EXAMPLES: Mapping[str, tuple[Example, ...]] = {**OF_CELLS, **OF_LINES, **OF_COMMANDS}
"""Beginning of a usage line → the examples of its help page."""
