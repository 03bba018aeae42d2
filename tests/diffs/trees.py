"""A tree of 30 turns with 8 children, and mutations of it of known kinds at known places."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from axe_nb.messages import ToolCall, ToolParameter, ToolResult, ToolSpec, Usage
from axe_nb.messages.exchanges import Exchange
from axe_nb.results import RunResult, Turn
from tests.pictures.samples import FIRST
from tests.views.runs import ask, done

WORDS = tuple(
    f"{a}{b}" for a in ("bar", "fen", "lo", "mi", "tur") for b in ("an", "ek", "ish", "on")
)

TURNS, CHILDREN = 30, 8

Change: TypeAlias = tuple[str, str | None, str | None]
"""Kind, place, other place."""


class Mutation(NamedTuple):
    """A tree, and what differs in it from the one that it was made of."""

    tree: RunResult
    changes: Sequence[Change]


def text(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))


def tool(name: str) -> ToolSpec:
    return ToolSpec(name, f"Does {name}.", {"path": ToolParameter("string", "A path.", True)})


TOOLS = (tool("read_file"), tool("grep"), tool("list_dir"))


def make_run(
    chance: random.Random, agent: str, task: str, below: Sequence[Sequence[RunResult]]
) -> RunResult:
    """A run with one turn for each entry and a last one; each asks its runs and reads files."""
    log, exchanges = [], []
    for number, runs in enumerate([*below, None], 1):
        calls, results = [], []
        for index in range(chance.choice((1, 1, 2)) if runs is not None else 0):
            path = f"{chance.choice(WORDS)}/{chance.choice(WORDS)}{number}{index}.md"
            calls.append(ToolCall(f"f{number}-{index}", chance.choice(TOOLS).name, {"path": path}))
            results.append(ToolResult(calls[-1].id, text(chance, 30), name=calls[-1].name))
        for child in runs or ():
            calls.append(ask(child.call_id, child.agent, child.task))
            results.append(ToolResult(child.call_id, child.text, name="call_agent"))
        said = text(chance, 12)
        log.append(Turn(number, said, tuple(calls), tuple(results), "", Usage(300, 40)))
        exchanges.append(
            Exchange(
                turn=number, model="x", sent=2 * number - 1, system=f"You are {agent}.",
                tools=TOOLS, params={"temperature": 0.2, "max_tokens": 900},
            )
        )  # fmt: skip
    return done(
        agent=agent, text=log[-1].text, prompt=f"Task: {task}", task=task, log=tuple(log),
        children=tuple(child for runs in below for child in runs), exchanges=tuple(exchanges),
        turns=len(log), usage=Usage(300 * len(log), 40 * len(log)),
    )  # fmt: skip


def make_tree(seed: int = 0) -> RunResult:
    """30 turns in which 8 children are asked, one of which asks two of its own."""
    chance = random.Random(seed)

    def child(number: int, below: Sequence[Sequence[RunResult]]) -> RunResult:
        run = make_run(chance, f"helper{number % 3}", text(chance, 15), below)
        return replace(run, call_id=f"{seed}-{number}-{chance.random()}")

    deep = [child(90, [[]]), child(91, [[], []])]
    children = [child(n, [[], deep, []] if n == 4 else [[]] * (n % 4)) for n in range(CHILDREN)]
    asked: list[list[RunResult]] = [[] for _ in range(TURNS - 1)]
    for number, one in enumerate(children):
        asked[3 + 4 * (number // 2)].append(one)  # two at a time
    return renumber(make_run(chance, "lead", text(chance, 20), asked))


def renumber(run: RunResult, id: str = "0", ids: str = "") -> RunResult:
    """The tree with all places, and ids of calls, as a run of this shape has them (D-59)."""
    number, log, children = 0, [], []
    for count, turn in enumerate(run.log, 1):
        names = {}
        for call in turn.calls:
            number += 1
            names[call.id] = f"{ids}{id}-{number}"
            for child in run.children:
                if child.call_id == call.id:
                    below = renumber(child, f"{id}.{number}", ids)
                    children.append(replace(below, call_id=names[call.id]))
        log.append(
            replace(
                turn, number=count,
                calls=tuple(replace(c, id=names[c.id]) for c in turn.calls),
                results=tuple(replace(r, call_id=names[r.call_id]) for r in turn.results),
            )
        )  # fmt: skip
    exchanges = tuple(replace(e, turn=n) for n, e in enumerate(run.exchanges, 1))
    return replace(run, id=id, log=tuple(log), children=tuple(children), exchanges=exchanges)


def edit(tree: RunResult, id: str, change: Callable[[RunResult], RunResult]) -> RunResult:
    """The tree with another run at a place; its caller is told its new answer."""
    if tree.id == id:
        return change(tree)
    children, log = [], tree.log
    for child in tree.children:
        new = edit(child, id, change)
        if (new.text, new.error) != (child.text, child.error):
            heard = new.error or new.text
            log = tuple(
                replace(
                    turn,
                    results=tuple(
                        replace(r, content=heard, is_error=bool(new.error))
                        if r.call_id == child.call_id
                        else r
                        for r in turn.results
                    ),
                )
                for turn in log
            )
        children.append(new)
    return replace(tree, children=tuple(children), log=log)


def edit_turn(run: RunResult, index: int, **fields: Any) -> RunResult:
    log = list(run.log)
    log[index] = replace(log[index], **fields)
    return replace(run, log=tuple(log))


class Mutator:
    """Changes one thing at a random place."""

    def __init__(self, tree: RunResult, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tree = tree
        self.run = self.chance.choice(list(tree.walk()))
        self.turns = [n for n, turn in enumerate(self.run.log) if turn.calls]

    def mutate(self, kind: str) -> Mutation:
        """A tree in which one thing of the kind is different, with other ids of calls."""
        new, changes = MUTATIONS[kind](self)
        return Mutation(renumber(new, ids="x"), changes)

    def at(self, index: int) -> str:
        return f"{self.run.id}/{index + 1}"

    def needs(self, is_fit: Callable[[RunResult], Any]) -> RunResult:
        """Another run, if the one at hand does not fit."""
        while not is_fit(self.run):
            self.run = self.chance.choice(list(self.tree.walk()))
        self.turns = [n for n, turn in enumerate(self.run.log) if turn.calls]
        return self.run

    def replace_run(self, **fields: Any) -> RunResult:
        return edit(self.tree, self.run.id, lambda run: replace(run, **fields))

    def replace_turn(self, index: int, **fields: Any) -> RunResult:
        return edit(self.tree, self.run.id, lambda run: edit_turn(run, index, **fields))

    def replace_exchanges(self, **fields: Any) -> RunResult:
        return self.replace_run(exchanges=tuple(replace(e, **fields) for e in self.run.exchanges))

    def some_call(self) -> tuple[int, int]:
        """Positions of a turn and of a call in it that is not a child."""
        self.needs(lambda run: len(run.log) > 1)
        index = self.chance.choice(self.turns)
        calls = self.run.log[index].calls
        return index, self.chance.choice([n for n, c in enumerate(calls) if c.name != "call_agent"])


def put(items: Sequence[Any], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


def said(m: Mutator) -> Mutation:
    m.needs(lambda run: len(run.log) > 1)
    index = m.chance.choice(m.turns)
    new = m.replace_turn(index, text=m.run.log[index].text.replace(" ", " quite ", 1))
    return Mutation(new, [("said", m.at(index), m.at(index))])


def arguments(m: Mutator) -> Mutation:
    index, at = m.some_call()
    calls = m.run.log[index].calls
    call = replace(calls[at], arguments={"path": "elsewhere.md", "depth": 3})
    new = m.replace_turn(index, calls=put(calls, at, call))
    return Mutation(new, [("arguments", m.at(index), m.at(index))])


def result(m: Mutator) -> Mutation:
    index, at = m.some_call()
    results = m.run.log[index].results
    other = replace(results[at], content=results[at].content + " and so on")
    new = m.replace_turn(index, results=put(results, at, other))
    return Mutation(new, [("result", m.at(index), m.at(index))])


def more_calls(m: Mutator) -> Mutation:
    index, at = m.some_call()
    turn = m.run.log[index]
    call = ToolCall("new", "web_search", {"query": "weather tomorrow"})
    new = m.replace_turn(
        index, calls=(*turn.calls[:at], call, *turn.calls[at:]),
        results=(*turn.results[:at], ToolResult("new", "rain"), *turn.results[at:]),
    )  # fmt: skip
    return Mutation(new, [("call", m.at(index), m.at(index))])


def more_turns(m: Mutator) -> Mutation:
    index = m.chance.randrange(len(m.run.log))
    call = ToolCall("new", "web_search", {"query": "weather tomorrow"})
    turn = Turn(0, "Let me look.", (call,), (ToolResult("new", "rain"),), "", Usage())
    log = (*m.run.log[:index], turn, *m.run.log[index:])
    exchanges = (*m.run.exchanges, m.run.exchanges[-1])
    return Mutation(m.replace_run(log=log, exchanges=exchanges), [("turn", None, m.at(index))])


def fewer_turns(m: Mutator) -> Mutation:
    m.needs(lambda run: len(run.log) > 1)
    index = m.chance.choice(m.turns)
    ids = {call.id for call in m.run.log[index].calls}
    new = m.replace_run(
        log=m.run.log[:index] + m.run.log[index + 1 :], exchanges=m.run.exchanges[:-1],
        children=tuple(c for c in m.run.children if c.call_id not in ids),
    )  # fmt: skip
    return Mutation(new, [("turn", m.at(index), None)])


def order(m: Mutator) -> Mutation:
    m.needs(lambda run: any(len(turn.calls) > 1 for turn in run.log))
    index = m.chance.choice([n for n in m.turns if len(m.run.log[n].calls) > 1])
    turn = m.run.log[index]
    new = m.replace_turn(
        index, calls=(*turn.calls[1:], turn.calls[0]), results=(*turn.results[1:], turn.results[0])
    )
    return Mutation(new, [("order", m.at(index), m.at(index))])


def of_request(kind: str, **fields: Any) -> Callable[[Mutator], Mutation]:
    return lambda m: Mutation(m.replace_exchanges(**fields), [(kind, m.at(0), m.at(0))])


def of_run(kind: str, **fields: Any) -> Callable[[Mutator], Mutation]:
    def mutate(m: Mutator) -> Mutation:
        return Mutation(m.replace_run(**fields), [(kind, m.at(0), m.at(0))])

    return mutate


def at_end(kind: str, **fields: Any) -> Callable[[Mutator], Mutation]:
    def mutate(m: Mutator) -> Mutation:
        place = m.at(len(m.run.log) - 1)
        return Mutation(m.replace_run(**fields), [(kind, place, place)])

    return mutate


def answer(m: Mutator) -> Mutation:
    m.needs(lambda run: run.id != "0")
    index = len(m.run.log) - 1
    run = edit_turn(replace(m.run, text="Nothing at all"), index, text="Nothing at all")
    new = edit(m.tree, m.run.id, lambda _: run)
    return Mutation(new, [("answer", m.at(index), m.at(index))])


def task(m: Mutator) -> Mutation:
    child = m.needs(lambda run: run.id != "0")
    id, told = child.id.rpartition(".")[0], f"{child.task} and hurry"
    tree = m.replace_run(task=told, prompt=f"Task: {told}")
    parent = next(run for run in tree.walk() if run.id == id)
    [(index, at)] = [
        (n, k)
        for n, turn in enumerate(parent.log)
        for k, call in enumerate(turn.calls)
        if call.id == child.call_id
    ]
    calls = parent.log[index].calls
    call = replace(calls[at], arguments={**calls[at].arguments, "task": told})
    new = edit(tree, id, lambda run: edit_turn(run, index, calls=put(calls, at, call)))
    place = f"{id}/{index + 1}"
    return Mutation(new, [("arguments", place, place)])


MUTATIONS: Mapping[str, Callable[[Mutator], Mutation]] = {
    "said": said,
    "arguments": arguments,
    "result": result,
    "more calls": more_calls,
    "more turns": more_turns,
    "fewer turns": fewer_turns,
    "order": order,
    "system prompt": of_request("system prompt", system="You are someone else."),
    "params": of_request("params", params={"temperature": 0.9, "max_tokens": 900}),
    "tools": of_request("tools", tools=TOOLS[:2]),
    "output": of_request("output", output={"type": "object"}),
    "agent": of_run("agent", agent="stranger"),
    "model": of_run("model", model="script/y"),
    "prompt": of_run("prompt", prompt="Something else"),
    "pictures": of_run("pictures", pictures=(FIRST,)),
    "task": task,
    "answer": answer,
    "data": at_end("data", data={"total": 3}),
    "status": at_end("status", status="timeout", error="timeout after 2s"),
    "warnings": at_end("warnings", warnings=("the token limit cut the reply",)),
}
"""Name → what makes it."""
