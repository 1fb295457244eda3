"""Heartbeats a second: parsed, merged, committed in batches; on SQLite and on a real PostgreSQL.

    .venv/bin/python -m benchmarks.coordinator_heartbeats [--nodes 5000] [--batch 64 256 512]

Each heartbeat is as a node with nine scopes sends it (about 5 KB). Prints reports a second of one process, the share of
that time which is parsing, and how a batch compares with a commit for each report.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import insert

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.reports import heartbeat_form, heartbeats
from snapshot.identifiers import SCOPE_TYPES
from tests.coordinator import postgresql
from tests.coordinator.reports import body, mark

NOW = 1_800_000_000.0
SCOPES = (*(each for each in SCOPE_TYPES if each != "trust_bundle"), "route_policy/berlin")


@contextmanager
def databases(directory: Path) -> Iterator[dict[str, Database]]:
    opened = {"SQLite": Database(f"sqlite:///{directory}/state.db")}
    with postgresql.server(directory, durable=True) as url:
        opened["PostgreSQL"] = Database(url.format("postgres"))
        try:
            yield opened
        finally:
            for each in opened.values():
                each.close()


def members(database: Database, count: int) -> None:
    database.migrate()
    rows = [
        {
            "node_id": f"n{number}", "kind": "data", "site_id": "default", "certificate": b"x",
            "certificate_sha256": f"{number}", "incarnation": "i", "first_seen": 0.0, "generation": 1,
        }
        for number in range(count)
    ]  # fmt: skip
    lines = [
        {
            "node_id": f"n{number}", "scope": scope, "authority_epoch": 1, "config_version": 7 + number % 3,
            "content_hash": str(mark(1)["content_hash"]), "snapshot_id": f"{scope}-{number}", "published_at": NOW,
        }
        for number in range(count)
        for scope in SCOPES
    ]  # fmt: skip
    with database.change(actor="benchmark", now=NOW) as transaction:
        transaction.run(insert(schema.nodes), rows)
        transaction.run(insert(schema.published), lines)
        transaction.audit("benchmark", "members")


def reports(count: int) -> list[bytes]:
    return [body(f"n{number}", dict.fromkeys(SCOPES, 7 + number % 3)) for number in range(count)]


def run(database: Database, bodies: list[bytes], batch: int) -> tuple[float, float]:
    """Reports a second, and the share of the time spent parsing."""
    parsing = 0.0
    begin = time.perf_counter()
    for start in range(0, len(bodies), batch):
        before = time.perf_counter()
        parsed = [heartbeat_form.parse(each) for each in bodies[start : start + batch]]
        parsing += time.perf_counter() - before
        heartbeats.record(database, parsed, now=NOW + start)
    elapsed = time.perf_counter() - begin
    return len(bodies) / elapsed, parsing / elapsed


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=5_000)
    options.add_argument("--batch", type=int, nargs="+", default=[64, 256, 512])
    chosen = options.parse_args()
    bodies = reports(chosen.nodes)
    print(f"{chosen.nodes} nodes, {len(bodies[0])} bytes a report")
    with tempfile.TemporaryDirectory() as directory, databases(Path(directory)) as opened:
        for name, database in opened.items():
            members(database, chosen.nodes)
            run(database, bodies, 512)  # first reports insert, all later ones replace
            single, _ = run(database, bodies[:300], 1)
            print(f"{name}: a commit each, {single:.0f}/s")
            for batch in chosen.batch:
                rate, parsing = run(database, bodies, batch)
                print(f"{name}: batches of {batch}, {rate:.0f}/s, {rate / single:.1f} times; parsing {parsing:.0%}")


if __name__ == "__main__":
    main()
