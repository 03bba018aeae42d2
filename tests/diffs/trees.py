"""A tree of 30 turns with 8 children, and mutations of it of known kinds at known places."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from axe_nb.messages import ToolCall, ToolParameter, ToolResult, ToolSpec, Usage
from axe_nb.messages.exchanges import Exchange
from axe_nb.results import RunResult, Turn
from tests.pictures.samples import FIRST
from tests.views.runs import ask, done
from tests.views.runs import turn as make_turn

WORDS = tuple(
    f"{a}{b}" for a in ("bar", "fen", "lo", "mi", "tur") for b in ("an", "ek", "ish", "on")
)

TURNS, CHILDREN = 30, 8


class Mutation(NamedTuple):
    """A tree, and (kind, place, other place) of what differs from the one that it was made of."""

    tree: RunResult
    change: tuple[str, str | None, str | None]


PATH = {"path": ToolParameter("string", "A path.", True)}

TOOLS = tuple(ToolSpec(name, f"Does {name}.", PATH) for name in ("read_file", "grep", "list_dir"))


def text(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))


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
            results.append(text(chance, 30))
        for child in runs or ():
            calls.append(ask(child.call_id, child.agent, child.task))
            results.append(child.text)
        log.append(make_turn(number, *calls, text=text(chance, 12), results=results))
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


def edit(tree: RunResult, id: str, **fields: Any) -> RunResult:
    """The tree with another run at a place; its caller is told its new answer."""
    if tree.id == id:
        return replace(tree, **fields)
    children, log = [], list(tree.log)
    for child in tree.children:
        new = edit(child, id, **fields)
        if (new.text, new.error) != (child.text, child.error):
            heard = {"content": new.error or new.text, "is_error": bool(new.error)}
            for number, turn in enumerate(log):
                results = [
                    replace(result, **heard) if result.call_id == child.call_id else result
                    for result in turn.results
                ]
                log[number] = replace(turn, results=tuple(results))
        children.append(new)
    return replace(tree, children=tuple(children), log=tuple(log))


def put(items: Sequence[Any], at: int, item: Any) -> tuple[Any, ...]:
    changed = list(items)
    changed[at] = item
    return tuple(changed)


class Mutator:
    def __init__(self, tree: RunResult, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tree = tree
        self.choose(lambda run: True)

    def mutate(self, kind: str) -> Mutation:
        """A tree in which one thing of the kind is different, with other ids of calls."""
        new, change = MUTATIONS[kind](self)
        return Mutation(renumber(new, ids="x"), change)

    def choose(self, is_fit: Callable[[RunResult], Any]) -> RunResult:
        """Another run, which fits, and the positions of its turns with calls."""
        self.run = self.chance.choice([run for run in self.tree.walk() if is_fit(run)])
        self.turns = [n for n, turn in enumerate(self.run.log) if turn.calls]
        return self.run

    def place(self, index: int) -> str:
        return f"{self.run.id}/{index + 1}"

    def tell(self, kind: str, index: int, **fields: Any) -> Mutation:
        """Another run, with the change at a turn; negative = from its end."""
        place = self.place(index % len(self.run.log))
        return Mutation(edit(self.tree, self.run.id, **fields), (kind, place, place))

    def tell_turn(self, kind: str, index: int, **fields: Any) -> Mutation:
        """Another turn, with the change there."""
        log = put(self.run.log, index, replace(self.run.log[index], **fields))
        return self.tell(kind, index, log=log)

    def some_call(self) -> tuple[int, int]:
        """Positions of a turn and of a call in it that is not a child."""
        self.choose(lambda run: len(run.log) > 1)
        index = self.chance.choice(self.turns)
        calls = self.run.log[index].calls
        return index, self.chance.choice([n for n, c in enumerate(calls) if c.name != "call_agent"])


def said(m: Mutator) -> Mutation:
    index, _ = m.some_call()
    return m.tell_turn("said", index, text=m.run.log[index].text.replace(" ", " quite ", 1))


def arguments(m: Mutator) -> Mutation:
    index, at = m.some_call()
    calls = m.run.log[index].calls
    call = replace(calls[at], arguments={"path": "elsewhere.md", "depth": 3})
    return m.tell_turn("arguments", index, calls=put(calls, at, call))


def result(m: Mutator) -> Mutation:
    index, at = m.some_call()
    results = m.run.log[index].results
    other = replace(results[at], content=results[at].content + " and so on")
    return m.tell_turn("result", index, results=put(results, at, other))


NEW = ToolCall("new", "web_search", {"query": "weather tomorrow"})


def more_calls(m: Mutator) -> Mutation:
    index, at = m.some_call()
    turn = m.run.log[index]
    return m.tell_turn(
        "call", index, calls=(*turn.calls[:at], NEW, *turn.calls[at:]),
        results=(*turn.results[:at], ToolResult("new", "rain"), *turn.results[at:]),
    )  # fmt: skip


def more_turns(m: Mutator) -> Mutation:
    index = m.chance.randrange(len(m.run.log))
    turn = Turn(0, "Let me look.", (NEW,), (ToolResult("new", "rain"),), "", Usage())
    log = (*m.run.log[:index], turn, *m.run.log[index:])
    made = m.tell("turn", index, log=log, exchanges=(*m.run.exchanges, m.run.exchanges[-1]))
    return made._replace(change=("turn", None, m.place(index)))


def fewer_turns(m: Mutator) -> Mutation:
    index, _ = m.some_call()
    ids = {call.id for call in m.run.log[index].calls}
    made = m.tell(
        "turn", index, log=m.run.log[:index] + m.run.log[index + 1 :],
        exchanges=m.run.exchanges[:-1],
        children=tuple(c for c in m.run.children if c.call_id not in ids),
    )  # fmt: skip
    return made._replace(change=("turn", m.place(index), None))


def order(m: Mutator) -> Mutation:
    m.choose(lambda run: any(len(turn.calls) > 1 for turn in run.log))
    index = m.chance.choice([n for n in m.turns if len(m.run.log[n].calls) > 1])
    turn = m.run.log[index]
    calls, results = (*turn.calls[1:], turn.calls[0]), (*turn.results[1:], turn.results[0])
    return m.tell_turn("order", index, calls=calls, results=results)


def of_request(kind: str, **fields: Any) -> Callable[[Mutator], Mutation]:
    return lambda m: m.tell(
        kind, 0, exchanges=tuple(replace(one, **fields) for one in m.run.exchanges)
    )


def at_turn(index: int, kind: str, **fields: Any) -> Callable[[Mutator], Mutation]:
    return lambda m: m.tell(kind, index, **fields)


def answer(m: Mutator) -> Mutation:
    m.choose(lambda run: run.id != "0")
    log = put(m.run.log, -1, replace(m.run.log[-1], text="Nothing at all"))
    return m.tell("answer", -1, text="Nothing at all", log=log)


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
    "agent": at_turn(0, "agent", agent="stranger"),
    "model": at_turn(0, "model", model="script/y"),
    "prompt": at_turn(0, "prompt", prompt="Something else"),
    "pictures": at_turn(0, "pictures", pictures=(FIRST,)),
    "answer": answer,
    "data": at_turn(-1, "data", data={"total": 3}),
    "status": at_turn(-1, "status", status="timeout", error="timeout after 2s"),
    "warnings": at_turn(-1, "warnings", warnings=("the token limit cut the reply",)),
}
"""Name → what makes it."""
