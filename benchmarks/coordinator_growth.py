"""What an operator and a node that joins wait for, as the fleet grows: processor time, and how it grows.

    .venv/bin/python -m benchmarks.coordinator_growth [--nodes 500 1000 2000 4000] [--now]

For each size a fleet of members is declared at once, then every node is declared otherwise, then one after the other
one alone: each by the steps that an apply takes (read, worked out, judged, carried out, answered). Then nodes are
allowed and join, by what stands in the database. Beside each stands a floor in the same run: for the whole fleet its
resources as JSON, written and read once; for one node a change that writes one row. What changes leave behind goes in
a thread of the daemon's, between the callers (coordinator/base/releasing.py): here after each step, in none of them,
and added up. By steps it would say nothing: a state goes some changes later, and most steps let go of little.
The exponent fits the curve: 0 is flat, 1 is linear, 2 is quadratic.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sqlalchemy import insert

from benchmarks.coordinator import member_row, state, with_members
from benchmarks.coordinator_first_apply import exponent
from benchmarks.figures import note
from coordinator.api.admin_api import _answer
from coordinator.base import interpreter, releasing
from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import records
from coordinator.changes.change_start import StartedChange
from coordinator.changes.records import ChangeRequest
from coordinator.changes.states import ChangeState
from coordinator.database import catalog, schema
from coordinator.database.database import Database
from coordinator.declared import resources
from coordinator.membership import admission
from coordinator.publishing import declarations, plan_check, proposals
from tests.coordinator.founding import Founded
from wire.operators.operator_answers import AllowlistEntry

TIMES = 30
LEFT_BEHIND = "what all of these leave behind, let go of by a thread"
Curves = dict[str, dict[int, list[float]]]
ONE = (
    "kind: Node\nid: n5\nspec: {{roles: [core_mesh, egress_service], organizations: [org5],"
    " addresses: ['10.9.0.{number}:7000'], labels: {{zone: a}}}}"
)


def used(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


class Fleet:
    def __init__(self, folder: Path, size: int, ask: ChangeRequest | None) -> None:
        founded = Founded(folder, f"sqlite:///{folder}/state.db")
        self.database, self.now, self.size, self.ask = Database(founded.url), founded.now, size, ask
        with_members(self.database, size, self.now)

    def apply(self, text: str) -> None:
        """As the API does it; one that is refused is applied again, and allowed."""
        declared, ask = resources.read({"fleet.yaml": text}), self.ask
        proposal = proposals.propose(self.database, declared)
        judged = plan_check.judge(self.database, proposal, ask)
        if ask is not None and judged.verdict is not None and judged.verdict.refusals:
            ask = replace(ask, allow=judged.plan_hash)
            judged = plan_check.judge(self.database, proposal, ask)
        plan = declarations.carry_out(self.database, judged, actor="benchmark", now=self.now, ask=ask)
        _answer(self.database, plan, "applied", "", CoordinatorSettings(), ())
        self.end(plan.change)

    def end(self, change: StartedChange | None) -> None:
        """So that the next one follows none."""
        if change is None or not change.held:
            return
        with self.database.change(actor="benchmark", now=self.now) as transaction:
            record = records.get(transaction, change.record.change_id)
            records.save(transaction, replace(record, state=ChangeState.DONE, settled_at=self.now, waits_for=None))
            records.let_go(transaction, records.get(transaction, record.change_id), ())
            transaction.audit("benchmark", "end")

    def allow(self, node_id: str) -> None:
        admission.declared_entry(self.database, node_id)
        admission.allow(self.database, AllowlistEntry(node_id), actor="benchmark", now=self.now)

    def join(self, number: int) -> None:
        """What is written of one more member, and whom it touches; what it proves costs the same in every fleet."""
        with self.database.change(actor="benchmark", now=self.now) as transaction:
            before = catalog.load(transaction)
            transaction.run(insert(schema.nodes), [member_row(number)])
            catalog.raise_touched(transaction, before, catalog.with_member(transaction, before, f"n{number}"))
            transaction.audit("join", f"n{number}")

    def write_one(self) -> None:
        with self.database.change(actor="benchmark", now=self.now) as transaction:
            transaction.audit("benchmark", "floor")


def measured(fleet: Fleet) -> Iterator[tuple[str, float]]:
    first = state(fleet.size + TIMES)  # the last ones have not joined yet
    other = first.replace("10.0.0.1:7000", "10.0.0.2:7000")
    read = resources.read({"fleet.yaml": first})
    specs = [entry.resource.spec() for entry in read.values()]
    yield "floor: all of it as JSON", used(lambda: json.loads(json.dumps(specs)))
    yield "the first apply of all", used(lambda: fleet.apply(first))
    yield "all nodes otherwise", used(lambda: fleet.apply(other))
    fleet.apply(ONE.format(number=200))  # what is worked out once for a fleet
    for number in range(TIMES):
        yield "floor: one row", used(fleet.write_one)
        yield "one node otherwise", used(lambda number=number: fleet.apply(ONE.format(number=number)))
        yield "a name allowed", used(lambda number=number: fleet.allow(f"n{fleet.size + number}"))
    for number in range(TIMES):
        yield "a declared node joins", used(lambda number=number: fleet.join(fleet.size + number))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, nargs="+", default=[500, 1_000, 2_000, 4_000])
    options.add_argument("--now", action="store_true", help="without a change: to all at once")
    chosen = options.parse_args()
    interpreter.set_up()  # as the daemon is
    curves: Curves = defaultdict(lambda: defaultdict(list))
    for size in chosen.nodes:
        with tempfile.TemporaryDirectory() as directory:
            fleet = Fleet(Path(directory), size, None if chosen.now else ChangeRequest("measured"))
            left_behind = 0.0
            with releasing.releasing():
                for what, seconds in measured(fleet):
                    curves[what][size].append(seconds)
                    left_behind += used(releasing.release)
            curves[LEFT_BEHIND][size].append(left_behind)
            fleet.database.close()
        print(f"{size} nodes done", file=sys.stderr)
    for what, sizes in curves.items():
        for size, times in sizes.items():
            note(f"growth/{what}", "ms", [each * 1e3 for each in times], size=size)
        shown = ", ".join(f"{size}: {_shown(sorted(times))}" for size, times in sizes.items())
        middle = [(size, sorted(times)[len(times) // 2]) for size, times in sizes.items()]
        print(f"{what}: {shown}; to the power of {exponent(middle) if len(middle) > 1 else 0:.2f}")


def _shown(times: list[float]) -> str:
    """Processor time in milliseconds: the middle, and the worst of a hundred."""
    middle = f"{times[len(times) // 2] * 1e3:.0f} ms"
    return middle if len(times) == 1 else f"{middle} (p99 {times[int(len(times) * 0.99)] * 1e3:.0f})"


if __name__ == "__main__":
    main()
