"""What every process of a coordinator would make anew, made before it is forked (tests/world/fork_server.py):
statements as text, patterns, the schema.

`warm()` has a cluster begun, members joined, their heads published, reports taken. Nothing of it is left
but what was compiled for it: a quarter of the processor's time of an `init`, and of a coordinator's.
"""

import tempfile
from pathlib import Path

from coordinator.database.database import Database
from coordinator.declared import value_shapes
from coordinator.setup import initialise
from coordinator.setup.cluster_request import ClusterRequest
from tests.coordinator import compiled, migrated
from tests.coordinator.candidates import NOW
from tests.coordinator.guarded import GuardedFleet
from tests.memory import memory_folder


def warm() -> None:
    migrated.share()
    migrated.warm()
    compiled.share()
    value_shapes.shipped_shapes()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        _begin(Path(name))
        _publish(Database(migrated.at(Path(name) / "published.db")))


def _begin(folder: Path) -> None:
    url, state = f"sqlite:///{folder}/begun.db", folder / "state"
    given = ClusterRequest("prod", "coord-1", "https://localhost:7443", url, state, folder / "roots")
    initialise.initialise(given, actor="root", now=NOW)


def _publish(database: Database) -> None:
    fleet = GuardedFleet.founded(database, "node-a", "node-b")
    fleet.press.change("{kind: Route, id: front, spec: {organization: acme, service: web}}")
    fleet.go_on()
    database.close()
