"""What a Config costs that many nodes share: signatures, bytes of the database, and processor time a node.

    .venv/bin/python -m benchmarks.coordinator_shared                        # PostgreSQL, 1,000 nodes, 10 MiB
    .venv/bin/python -m benchmarks.coordinator_shared --nodes 250 --profile

Of three moments: the Config is declared, a part of it changes, all of it is renewed. The processor time is that of this
process, which is the coordinator; the server's is its own. The same is done for a quarter of the nodes first: what a
node costs may not grow with their number.
"""

import argparse
import cProfile
import pstats
import secrets
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import func, select, text

from benchmarks.coordinator import publish_all, with_members
from coordinator.database import schema, uploads
from coordinator.database.database import Database
from coordinator.declared import contents, resources, value_shapes
from coordinator.declared.contents import UploadedFile
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import declarations, file_contents, proposals
from coordinator.publishing.backlog import Backlog
from tests.coordinator import postgresql
from tests.coordinator.founding import Founded

MIB = 1 << 20
MOST_MS = 2.0
DAY = 86_400
CONFIG = "{kind: Config, id: geo, spec: {to: {labels: {zone: a}}, files: {db.bin: {file: db.bin}}}}"


def state(nodes: int) -> str:
    """Nodes of one kind, each with its own bootstrap and runtime, and what all of them are told."""
    parts = ["kind: Cluster\nid: prod\nspec: {coordinators: ['https://localhost:7443']}"]
    parts += [
        f"{{kind: Node, id: n{number}, spec: {{roles: [egress_service], labels: {{zone: a}}}}}}"
        for number in range(nodes)
    ]
    parts += ["kind: DegradedModePolicy\nid: standard\nspec: {allow: [continue_services]}"]
    return "\n---\n".join(parts)


@dataclass
class Bench:
    database: Database
    keys: tuple[SigningKey, ...]
    now: float
    nodes: int
    kept: Backlog = field(default_factory=Backlog)

    def declare(self, data: bytes) -> None:
        parts = contents.split(data)
        uploads.add_all(self.database, parts, now=self.now)
        uploaded = {"db.bin": UploadedFile(len(data), tuple(map(contents.digest, parts)))}
        declared = resources.read({"geo.yaml": CONFIG})
        settled = file_contents.settle(self.database, declared, uploaded, value_shapes.shipped_shapes())
        proposal = proposals.propose(self.database, settled.declared)
        declarations.carry_out(self.database, proposal, actor="benchmark", now=self.now)

    def publish(self, what: str) -> float:
        """Milliseconds of the processor a node."""
        size, signed = self._size(), self._signed()
        begun, begun_at = time.process_time(), time.perf_counter()
        heads, _ = publish_all(self.database, self.kept, self.keys, self.now)
        spent, elapsed = time.process_time() - begun, time.perf_counter() - begun_at
        found = self._signed()
        new = {kind: found[kind] - signed.get(kind, 0) for kind in sorted(found) if found[kind] != signed.get(kind, 0)}
        shown = ", ".join(f"{count} {kind}" for kind, count in new.items()) or "none"
        grown = (self._size() - size) / MIB
        print(f"  {what}: {heads} heads in {elapsed:.1f} s; kept anew of the Config: {shown}; {grown:+.1f} MiB")
        print(f"  {what}: {spent / heads * 1e3:.2f} ms of the processor a node [<= {MOST_MS}]")
        return spent / heads * 1e3

    def _signed(self) -> dict[str, int]:
        table = schema.documents
        counted = (
            select(table.c.kind, func.count().label("number"))
            .where(table.c.scope == "config/geo")
            .group_by(table.c.kind)
        )
        with self.database.read() as transaction:
            return {row.kind: row.number for row in transaction.rows(counted)}

    def _size(self) -> int:
        with self.database.read() as transaction:
            return transaction.number(text("SELECT pg_database_size(current_database())"))


def run(folder: Path, url: str, nodes: int, size: int) -> dict[str, float]:
    founded = Founded(folder, url)
    bench = Bench(Database(url), (founded.config,), founded.now, nodes)
    with_members(bench.database, nodes, bench.now)
    declarations.apply(bench.database, {"state.yaml": state(nodes)}, actor="benchmark", now=bench.now)
    print(f"{nodes} nodes, a Config of {size / MIB:.0f} MiB:")
    found = {"first": bench.publish("all that they hold beside it, for the first time")}
    data = bytearray(secrets.token_bytes(size).replace(b"@", b"\0"))
    before = bench._size()
    bench.declare(bytes(data))
    print(f"  uploaded and declared: {(bench._size() - before) / MIB:+.1f} MiB")
    found["declared"] = bench.publish("the Config")
    data[size // 2] ^= 1
    bench.now += 60
    bench.declare(bytes(data))
    found["changed"] = bench.publish("one byte of it")
    bench.now += DAY
    found["renewed"] = bench.publish("renewed with all else")
    bench.database.close()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=1_000)
    options.add_argument("--mib", type=int, default=10)
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory, postgresql.server(Path(directory), durable=True) as url:
        folders = [Path(directory) / name for name in ("few", "many")]
        for folder in folders:
            folder.mkdir()
        if chosen.profile:
            run(folders[1], url.format("postgres"), chosen.nodes, chosen.mib * MIB)
            return
        few = run(folders[0], url.format("template1"), chosen.nodes // 4, chosen.mib * MIB)
        many = run(folders[1], url.format("postgres"), chosen.nodes, chosen.mib * MIB)
        for what, spent in many.items():
            print(f"{what}: one of {chosen.nodes} nodes costs {spent / few[what]:.2f} of one of a quarter [<= 1.3]")


if __name__ == "__main__":
    if "--profile" in sys.argv:
        profile = cProfile.Profile()
        profile.runcall(main)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    else:
        main()
