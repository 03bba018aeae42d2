"""Execution of some prompts of a map in a worker process: the job sent there, and its functions.

All that goes in and out is bytes, so that every executor carries it alike; no exception of ours
leaves a worker, as some executors lose its message, or die of it. Agents, skills and context files
travel as they were read here, with the functions and rule files that are models, the functions that
are tools, and the settings. Keys do not: a worker uses those of its own environment and
`config.toml`. Source: D-53.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from axe_nb.agents.agent import Agent
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import Context
from axe_nb.agents.user_config import Config
from axe_nb.conversion.jsonable import jsonable
from axe_nb.engine.make_provider import provider_for
from axe_nb.errors import AxeError, ConfigError, words
from axe_nb.exploring.map_batch import Asking, Batch, MapSession, Task
from axe_nb.exploring.map_driver import Driver, Prompts, Runs
from axe_nb.exploring.map_progress import Progress, Tally
from axe_nb.providers.prices import Prices
from axe_nb.providers.secrets import list_keys
from axe_nb.results import RunResult
from axe_nb.scripting.lookup import ScriptFunction, Scripts
from axe_nb.scripting.rules import Script
from axe_nb.secrets import SECRET_HEADERS, is_secret_name
from axe_nb.session.drive import NoLine
from axe_nb.session.overrides import Overrides
from axe_nb.session.portal import run_and_wait
from axe_nb.session.snapshot import Key, Snapshot
from axe_nb.tools.tool import Tool

KEPT = 8
"""Number of most recently used maps whose common part a worker keeps."""

_batches: OrderedDict[str, Batch] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Job:
    """Some prompts of a map, which run at once in one worker."""

    digest: str
    parcel: bytes | None
    """The common part: a pickled `Parcel`; None = the worker has it."""
    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a job; one of the fields is set."""

    results: Sequence[RunResult | None] = ()
    """Results in the order of the tasks; None = the run did not begin."""
    is_missing: bool = False
    """True if the worker needs the common part."""
    problem: str = ""
    """The reason that none of its runs could begin."""
    hint: str = ""


def check_worker(job: bytes) -> bytes:
    """Checks that a worker can run a map; the reply contains the problem, if any."""
    return _answer(job, lambda batch, tasks: Reply())


def run_job(job: bytes) -> bytes:
    return _answer(job, _run)


def _answer(packed: bytes, work: Callable[[Batch, Sequence[Task]], Reply]) -> bytes:
    try:
        job: Job = pickle.loads(packed)
        batch = _find_batch(job)
        reply = Reply(is_missing=True) if batch is None else work(batch, job.tasks)
    except AxeError as error:
        reply = Reply(problem=error.message, hint=error.hint)
    except Exception as error:  # a function or type that cannot be imported here
        why = f"{type(error).__name__}: {words(error)}"
        hint = "define it in a module that the workers can import"
        reply = Reply(problem=f"the job cannot be loaded there: {why}", hint=hint)
    for dumps in (pickle.dumps, dump_by_value):  # the latter for types of a notebook
        with suppress(Exception):
            return dumps(reply)
    results = [one and replace(one, data=jsonable(one.data)) for one in reply.results]
    return pickle.dumps(replace(reply, results=results))


def dump_by_value(thing: Any) -> bytes:
    """Pickles an object; what a notebook defines is included by value, where possible."""
    import cloudpickle

    try:
        dumped: bytes = cloudpickle.dumps(thing)
    except Exception:  # of whatever its functions refer to
        dumped = pickle.dumps(thing)
    return dumped


def _find_batch(job: Job) -> Batch | None:
    """The map of a job, ready to run; None = its common part is not here."""
    with _lock:
        batch = _batches.get(job.digest)
        if batch is None:
            if job.parcel is None:
                return None
            parcel: Parcel = pickle.loads(job.parcel)
            if parcel.version != _find_version():
                raise ConfigError(
                    f"it has axe_nb {_find_version()}, not {parcel.version}",
                    hint="install the same version everywhere",
                )
            batch = parcel.make_batch()
            run_and_wait(batch.prepare())
            _batches[job.digest] = batch
            while len(_batches) > KEPT:
                _batches.popitem(last=False)
        _batches.move_to_end(job.digest)
        return batch


def _run(batch: Batch, tasks: Sequence[Task]) -> Reply:
    own = replace(batch, tally=Tally("worker"), results={})
    driver = Driver(own, Prompts(list(tasks)), Runs(own, len(tasks)), Progress(own.tally, NoLine()))
    with closing(driver.iterate()) as ended:
        found = {one.index: one.result for one in ended}
    return Reply(results=[found.get(position) for position in range(len(tasks))])


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """All that the runs of a map have in common."""

    askings: tuple[tuple[str | Agent | None, Overrides], ...]
    """Agents, with the options of their runs."""
    defined: Mapping[str, Agent]
    """The agents of the session that the tree can reach."""
    read: tuple[Mapping[str, Agent | ConfigError], Mapping[Key, Context | ConfigError]]
    """Agents and texts that were read from files."""
    config: Config
    lacks: Mapping[str, tuple[str, ...]]
    """Provider → secret settings that a worker needs of its own: `base_url`, names of headers."""
    tools: tuple[Tool, ...]
    """The session's tools that the agents use."""
    scripts: Mapping[str, ScriptFunction | Script]
    version: str

    def make_batch(self) -> Batch:
        """Returns the map as a worker runs it, in a session of its own."""
        config = self._merge(Config.load())
        askings = [Asking(agent, overrides) for agent, overrides in self.askings]
        provider = provider_for(config, sent=self.scripts)
        agents_dir = askings[0].overrides.agents_dir
        snapshot = Snapshot(self.defined, agents_dir, provider, Prices(config))
        snapshot.add_read(*self.read)
        session = MapSession(
            agents=dict(self.defined), handed=self.tools, keeps_history=False,
            settings=(config, snapshot),
        )  # fmt: skip
        return Batch(askings=askings, session=session, tally=Tally(""))

    def _merge(self, own: Config) -> Config:
        """The settings of the parcel, with the keys and secret headers of this machine."""
        providers: dict[str, Mapping[str, Any]] = dict(own.providers)
        for name, table in self.config.providers.items():
            mine = own.providers.get(name, {})
            headers = {**mine.get("headers", {}), **table.get("headers", {})}
            providers[name] = {**mine, **table, **({"headers": headers} if headers else {})}
        config = replace(self.config, providers=providers, key_commands=own.key_commands)
        for name, settings in self.lacks.items():
            mine = own.providers.get(name, {})
            has = {*mine, *(header.lower() for header in mine.get("headers", {}))}
            if config.key_source(name):
                has.add("key_command")
            for setting in settings:
                if setting not in has:
                    raise ConfigError(
                        f"{setting} of provider {name} is secret and is not set there",
                        hint=f"set it under [providers.{name}] in the worker's config.toml",
                    )
        return config


def _find_version() -> str:
    return str(vars(sys.modules["axe_nb"])["__version__"])


def make_parcel(batch: Batch) -> Parcel:
    """Returns the parcel of a map whose configuration was checked."""
    assert batch.session.settings is not None
    config, snapshot = batch.session.settings
    roots = [asking.plan.agent for asking in batch.askings if asking.plan]
    agents = [*roots, *_list_below(roots, snapshot)]
    names = {name for agent in agents for name in agent.tools}
    needed = {name for agent in agents for name in agent.sub_agents}
    needed |= {asking.agent for asking in batch.askings if isinstance(asking.agent, str)}
    known = batch.session.tools
    providers, lacks = _clean(config)
    return Parcel(
        askings=tuple((asking.agent, asking.overrides) for asking in batch.askings),
        defined={name: agent for name, agent in snapshot.defined.items() if name in needed},
        read=snapshot.list_read(),
        config=replace(config, providers=providers, key_commands={}), lacks=lacks,
        tools=tuple(tool for name in sorted(names) if (tool := known.find(name))),
        scripts=dict(_list_scripts(batch, agents, snapshot)), version=_find_version(),
    )  # fmt: skip


def _list_below(roots: Sequence[Agent], snapshot: Snapshot) -> list[Agent]:
    names = [name for root in roots for name in root.sub_agents]
    found = dict[str, Agent | None]()
    while names:
        name = names.pop()
        if name not in found:
            try:
                agent = found[name] = snapshot.load(name)
                names += agent.sub_agents
            except ConfigError:  # reported where it is called, there as here
                found[name] = None
    return [agent for agent in found.values() if agent is not None]


def _list_scripts(
    batch: Batch, agents: list[Agent], snapshot: Snapshot
) -> Iterator[tuple[str, ScriptFunction | Script]]:
    models = [agent.model for agent in agents]
    for asking in batch.askings:
        models += filter(None, (asking.overrides.model, asking.overrides.model_all))
    for model in models:
        provider, name = parse_model(model)
        if provider != "script":
            continue
        scripts: Scripts = snapshot.provider_for(provider, name).scripts  # type: ignore[attr-defined]
        if found := scripts.find(name):
            yield name, found


def _clean(config: Config) -> tuple[dict[str, dict[str, Any]], dict[str, tuple[str, ...]]]:
    """Returns the providers' tables without secrets, and the names of the removed settings."""
    tables, lacks = {}, {}
    for name in config.known:
        table = dict(config.providers.get(name, {}))
        table.pop("api_key", None)
        left_out = ["key_command"] if table.pop("key_command", None) else []
        if headers := table.get("headers"):
            secret = {h for h in headers if h.lower() in SECRET_HEADERS or is_secret_name(h)}
            table["headers"] = {h: value for h, value in headers.items() if h not in secret}
            left_out += [header.lower() for header in sorted(secret)]
        try:
            url = config.base_url(name) if config.provider(name).has_server else ""
            parts = urlsplit(url)
            is_secret = "@" in parts.netloc or bool(list_keys(parts.query))
        except (ConfigError, ValueError):
            url, is_secret = "", False
        table.pop("base_url", None)
        if is_secret:
            left_out.append("base_url")
        elif (url and url != config.provider(name).base_url) or (url and name in config.providers):
            table["base_url"] = url
        if table:
            tables[name] = table
        if left_out:
            lacks[name] = tuple(left_out)
    return tables, lacks
