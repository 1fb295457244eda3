"""The floors of the house and its invariants, phrased as absences: see ARCHITECTURE.md."""

import json
import subprocess
import sys
import tomllib
from collections import Counter

import pytest

from tests import floors
from tests.citations import ROOT
from tests.source import PACKAGES, Module, modules

FOLDERS = ("coordinator/database/migrations",)
"""Alembic keeps its scripts in a folder of their own."""

MOST_FILES = {"snapshot": 36, "wire": 40, "holdfast.ctl": 46, "holdfast.node": 29}
"""Of one piece: the document core, the wire, and one module for each command of operators and of nodes."""

SIGNS = {"wire/certificate.py": "makes the node's own certificate and the proof that it holds the key"}
CLOCK_FILES = ("agent/base/clock.py", "coordinator/base/clock.py", "wire/logs.py")  # the last one dates lines alone


def without(paths, *packages):
    return [module for module in modules(*packages) if module.path not in paths]


def built(path):
    """Whether a part stands already; a floor holds of itself while it does not."""
    return (ROOT / path).exists()


def test_imports_go_downwards_only():
    assert floors.imports_upwards(modules()) == []


def test_no_import_cycles():
    assert floors.cycles(modules()) == []


def test_the_rooms_stand_in_their_order():
    """With the imports as the table allows, there is no circle of rooms."""
    assert floors.rows_out_of_order(floors.ROOMS) == []


def test_no_room_may_import_what_it_does_not():
    assert floors.idle_rights(modules()) == []


def test_each_folder_is_a_room():
    folders = {path.parent.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    rooms = {str(folder).replace("/", ".") for folder in folders if str(folder) not in FOLDERS}
    assert rooms == set(floors.ROOMS)


def test_a_room_is_small():
    """About twenty files; the schema's history only grows, and is not counted."""
    history = "coordinator.database.migrations."
    sizes = Counter(floors.room_of(module.name) for module in modules() if not module.name.startswith(history))
    assert {room: size for room, size in sizes.items() if size > MOST_FILES.get(room, 26)} == {}


def test_snapshot_is_pure():
    core = modules("snapshot")
    assert floors.imports_of(core, *floors.WORLD) == []
    assert floors.uses_of(core, *floors.EFFECTS, *floors.CLOCKS) == []
    assert floors.asynchronous(core) == []


def test_the_store_is_synchronous_and_alone_knows_lmdb():
    """No transaction crosses an await where nothing can await."""
    assert floors.asynchronous(modules("store")) == []
    assert floors.imports_of(modules("store"), "trio") == []
    others = modules(*(package for package in PACKAGES if package != "store"))
    assert floors.imports_of(others, "lmdb") == []


def test_only_the_coordinator_signs_documents():
    """rules X2: what the agent's process loads holds no signing code; a proof of possession is no document."""
    assert floors.signings(without(SIGNS, "snapshot", "wire", "store", "agent")) == []
    assert floors.imports_of(modules("snapshot", "wire", "store", "agent"), "coordinator") == []


def test_a_node_verifies_by_one_library_and_our_own_signatures_alone_go_by_another():
    """rules S69: whatever comes from outside is judged as its node judges it, in the coordinator as well."""
    known = ["coordinator/keys/own_signatures.py"]
    assert floors.imports_of(without(known, *PACKAGES), "nacl") == []
    review = "coordinator/publishing/review.py"
    users = floors.imports_of(modules(*PACKAGES), "coordinator.keys.own_signatures")
    assert [user.partition(":")[0] for user in users] == [review]


@pytest.mark.parametrize("path", SIGNS)
def test_no_exemption_from_signing_is_idle(path):
    if built(path):
        assert floors.signings([module for module in modules("wire") if module.path == path])


def test_only_verify_makes_a_verified():
    assert floors.constructions(without(["snapshot/verify.py"]), "Verified") == []


def test_one_file_of_each_daemon_reads_a_clock():
    daemons = without(CLOCK_FILES, "snapshot", "wire", "store", "agent", "coordinator")
    assert floors.uses_of(daemons, *floors.CLOCKS) == []


def test_daemons_load_no_command_line_library():
    daemons = modules("snapshot", "wire", "store", "agent", "coordinator")
    assert floors.imports_of(daemons, "click", "rich") == []


def test_the_agent_needs_no_database_library():
    """Also what it loads of ours: they are not among its package's dependencies."""
    agent = modules("snapshot", "wire", "store", "agent")
    assert floors.imports_of(agent, "sqlalchemy", "psycopg", "alembic", "jwt", "yaml") == []


def test_long_lived_tasks_start_in_run_alone():
    elsewhere = without(["agent/run.py"], "agent")
    assert floors.tasks_outside_their_function(elsewhere) == [], (
        "agent/run.py starts them" if built("agent/run.py") else "agent/run.py, not built yet, will start them"
    )


def test_the_client_is_standard_library_only():
    for path in ("holdfast/__init__.py", "holdfast/client.py"):
        found = [module for module in modules("holdfast") if module.path == path]
        assert [fault for one in found for fault in floors.imports_beyond_standard_library(one)] == []


def entries():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].values()
    return sorted(entry.split(":")[0] for entry in scripts if entry.startswith("holdfast."))


@pytest.mark.parametrize("entry", entries())
def test_commands_load_the_daemons_lazily(entry):
    """Either package carries holdfast/, and neither the other's daemon."""
    at_start = [one for module in floors.loaded_at_start(entry, modules("holdfast")) for one in module.imports]
    daemons = ("store", "agent", "coordinator")
    assert [one.name for one in at_start if not one.lazy and one.name.split(".")[0] in daemons] == []


def loads(statement):
    """The modules that a new interpreter loads for it."""
    program = (
        "import sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "import json; print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


def test_importing_the_client_loads_only_the_standard_library():
    if built("holdfast/client.py"):
        loaded = loads("import holdfast.client")
        assert "holdfast.client" in loaded
        assert [name for name in loaded if name.split(".")[0] not in {*sys.stdlib_module_names, "holdfast"}] == []


def test_importing_the_verifier_loads_no_event_loop():
    if built("snapshot/verify.py"):
        loaded = loads("import snapshot.verify")
        assert "snapshot.verify" in loaded
        assert {"trio", "asyncio", "anyio", "lmdb"}.isdisjoint(loaded)


def module(path, source):
    return Module(path, source)


CLEAN = "from datetime import datetime\nfrom snapshot.verify import Verified\n\ndef parse(text: str) -> datetime: ...\n"

FAULTS = [
    (floors.imports_upwards, "snapshot/a.py", "from wire import messages"),
    (floors.imports_upwards, "agent/a.py", "def f():\n    import coordinator.keys.signer"),
    (floors.imports_upwards, "coordinator/api/a.py", "from agent.run import main"),
    (floors.imports_upwards, "wire/a.py", "from store import snapshots"),
    (floors.imports_upwards, "agent/state/a.py", "from agent.update import update"),
    (floors.imports_upwards, "store/base/a.py", "from store.store import Store"),
    (floors.imports_upwards, "coordinator/declared/a.py", "from coordinator.database import catalog"),
    (lambda m: floors.imports_of(m, "os"), "snapshot/a.py", "from os.path import join"),
    (lambda m: floors.uses_of(m, *floors.EFFECTS), "snapshot/a.py", "read = open"),
    (lambda m: floors.uses_of(m, *floors.CLOCKS), "agent/a.py", "from time import time as now\nx = now()"),
    (lambda m: floors.uses_of(m, *floors.CLOCKS), "agent/a.py", "import datetime as d\nd.datetime.now(d.UTC)"),
    (lambda m: floors.uses_of(m, *floors.CLOCKS), "agent/a.py", "import time\ndef f(clock=time.time): ..."),
    (lambda m: floors.constructions(m, "Verified"), "store/a.py", "from snapshot import verify\nverify.Verified(1)"),
    (lambda m: floors.constructions(m, "Verified"), "store/a.py", "object.__new__(Verified)"),
    (lambda m: floors.constructions(m, "Verified"), "store/a.py", "Verified.__new__(Verified)"),
    (floors.signings, "agent/a.py", "key.sign(data)"),
    (floors.signings, "agent/a.py", "from cryptography.x.ed25519 import Ed25519PrivateKey"),
    (floors.signings, "agent/a.py", "from cryptography.x import ed25519\ned25519.Ed25519PrivateKey.generate()"),
    (floors.asynchronous, "store/a.py", "async def f(): ..."),
    (floors.tasks_outside_their_function, "agent/a.py", "async def f(nursery):\n    nursery.start_soon(g)"),
    (floors.tasks_outside_their_function, "agent/a.py", "async def f(self):\n    await self._nursery.start(g)"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "path", "source"), FAULTS, ids=range(len(FAULTS)))
def test_each_check_finds_its_fault(check, path, source):
    assert check([module(path, source)])
    assert check([module(path, CLEAN)]) == []


def test_a_nursery_of_ones_own_is_free_to_use():
    source = "import trio\nasync def f():\n    async with trio.open_nursery() as own:\n        own.start_soon(g)"
    assert floors.tasks_outside_their_function([module("agent/a.py", source)]) == []


def test_cycles_and_start_up_are_followed_through_modules():
    ring = [
        module("wire/a.py", "from wire import b"),
        module("wire/b.py", "def f():\n    from wire.a import x"),
        module("wire/c.py", "from . import a"),
    ]
    assert floors.cycles(ring) == ["wire.a", "wire.b"]
    assert [one.name for one in floors.loaded_at_start("wire.c", ring)] == ["wire.a", "wire.b", "wire.c"]
    assert [one.name for one in floors.loaded_at_start("wire.b", ring)] == ["wire.b"]
