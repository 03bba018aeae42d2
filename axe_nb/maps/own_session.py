"""The session of a map: its runs are counted, but neither remembered nor continued.

Source: product.md "Exploring"; D-53, D-59.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

from axe_nb.agents.config import Config
from axe_nb.limits import InFlight, UsageMeter
from axe_nb.make_provider import Needed
from axe_nb.recording.traces import find_context
from axe_nb.session.runs import RunHandle, RunRequest
from axe_nb.session.session import Session, session
from axe_nb.session.snapshot import Snapshot

OWN = ("agents", "conversations", "last", "meter", "in_flight")
"""Fields that a map does not share with the session that it belongs to."""


@dataclass
class MapSession(Session):
    """A session whose runs read the agents and settings once, when the map begins."""

    is_dry: bool = False
    """True if nothing will be sent."""
    _settings: tuple[Config, Snapshot] | None = None

    @property
    def settings(self) -> tuple[Config, Snapshot]:
        """The settings and agents, once a run was planned."""
        assert self._settings is not None
        return self._settings

    def start(self, request: RunRequest, on_claim: Callable[[], None] | None = None) -> RunHandle:
        """Creates the handle of a run.

        Args:
            request: the run.
            on_claim: called when the run has its records in the cassette; None = no one waits.
        """
        make_plan = partial(self.plan, traced_in=find_context(), on_claim=on_claim)
        return RunHandle(request, make_plan, self.remember)

    def _read_settings(self, agents_dir: str | None, needs: Needed) -> tuple[Config, Snapshot]:
        if self._settings is None:
            self._settings = super()._read_settings(agents_dir, needs)
            return self._settings
        config, snapshot = self._settings
        return config, snapshot.share()


def open_session(meter: UsageMeter | None, *, is_dry: bool = False) -> MapSession:
    """Returns a session for a map: the agents as they are now; usage, budget and tools shared.

    Args:
        meter: counts all runs of the map, within its caps; None = it has no budget.
        is_dry: True if nothing will be sent.
    """
    most = meter.limits.max_in_flight if meter else 0
    in_flight = InFlight.of(most) if most else None
    session.open_cassette()  # which the environment may name, for both
    shared = {
        one.name: getattr(session, one.name)
        for one in fields(Session)
        if one.init and one.name not in OWN
    }
    return MapSession(
        agents=dict(session.agents), meter=meter, in_flight=in_flight, is_dry=is_dry, **shared
    )  # fmt: skip
