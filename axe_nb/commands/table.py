"""Every command, a row each: `%%axe`, `%%axe_agent`, what `%axe` does, what `axe-nb` does.

What a row does is the entry of its name in `ACTIONS` of the face: `nb/line_magic.py`, `cli.py`.
Source: product.md "Notebook" and "Command line"; B-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from axe_nb.commands.options import AGENT, AGENTS_DIR, BARE_PROMPT, OPTIONS, Face, Option

PROGRAMS: Mapping[Face, str] = {"cell": "%%", "line": "%axe ", "command": "axe-nb "}
"""Face → how a usage line begins there."""

NAME = Option((), "agent", "name of the agent", "NAME", offers="agents")
NEW_NAME = Option((), "agent", "name of the new agent", "NAME")
ANY_NAME = Option((), "agent", "name of an agent", "NAME", required=False, offers="agents")


@dataclass(frozen=True, slots=True)
class Command:
    """One command, in every face that has it."""

    name: str
    help: str
    words: Mapping[Face, str]
    """Face → what is typed there after its program."""
    options: tuple[Option, ...] = ()
    """Those of every face; an option says itself where it can be given."""

    def program(self, face: Face) -> str:
        """As its usage line begins: `%axe show`, `axe-nb agents show`."""
        return f"{PROGRAMS[face]}{self.words[face]}"

    def options_of(self, face: Face) -> tuple[Option, ...]:
        """Its options and arguments in one face."""
        return tuple(option for option in self.options if face in option.faces)

    def use(self, face: Face) -> str:
        """The program and its arguments, without options: `%axe reset [NAME]`."""
        arguments = [option.usage for option in self.options_of(face) if not option.flags]
        return " ".join([self.program(face), *arguments])


RUN = Command(
    "run", "run an agent", {"cell": "axe", "line": "run", "command": "run"},
    (AGENT, BARE_PROMPT, *OPTIONS),
)  # fmt: skip

AGENT_CELL = Command(
    "agent", "make an agent of the TOML in the cell", {"cell": "axe_agent"},
    (
        NAME,
        Option(("--save",), "save", "write the file, and show what changes"),
        Option(
            ("--dir",), "dir", "folder of the file (default: where it lies, else axe/agents)", "D",
            offers="files",
        ),
    ),
)  # fmt: skip

COMMANDS: tuple[Command, ...] = (
    AGENT_CELL,
    Command(
        "list", "the agents that can be found", {"line": "list", "command": "agents list"},
        (AGENTS_DIR,),
    ),
    Command(
        "show", "what an agent says, what it may do, whom it may call", {"line": "show"},
        (NAME, AGENTS_DIR),
    ),
    Command("show", "what an agent's file says", {"command": "agents show"}, (NAME, AGENTS_DIR)),
    Command(
        "init", "write a commented first file", {"line": "init", "command": "agents init"},
        (NEW_NAME, AGENTS_DIR),
    ),
    Command("edit", "put an agent's TOML in a new cell", {"line": "edit"}, (NAME, AGENTS_DIR)),
    Command("edit", "open the file in $EDITOR", {"command": "agents edit"}, (NAME, AGENTS_DIR)),
    Command("tools", "all tools, or those of an agent", {"line": "tools"}, (ANY_NAME, AGENTS_DIR)),
    RUN,
    Command(
        "usage", "tokens of this notebook so far, by agent and model", {"line": "usage"},
    ),
    Command("config path", "where the global config.toml is", {"command": "config path"}),
    Command("config init", "write a commented first config.toml", {"command": "config init"}),
    Command(
        "doctor", "what is in the way here, and the next step",
        {"line": "doctor", "command": "doctor"}, (AGENTS_DIR,),
    ),
    Command(
        "reset", "forget conversations, so that --continue begins anew", {"line": "reset"},
        (
            ANY_NAME,
            Option(
                ("--agents",), "agents",
                "forget agents that cells defined too: their files count again",
            ),
        ),
    ),
    Command("demo", "a lead and three sub-agents; no key, no network", {"command": "demo"}),
    Command("version", "the version", {"command": "version"}),
    Command("help", "this page", {"line": "help"}),
)  # fmt: skip
"""Every command, in the order of the help."""


def commands_of(face: Face) -> Mapping[str, Command]:
    """What is typed after the program → the command."""
    return {command.words[face]: command for command in COMMANDS if face in command.words}
