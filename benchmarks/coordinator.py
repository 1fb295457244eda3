"""What compiling, signing and publishing cost, and what a coordinator holds and answers.

    .venv/bin/python -m benchmarks.coordinator                      # all
    .venv/bin/python -m benchmarks.coordinator compile --nodes 1000

Joins, polls and heartbeats, over real TLS: benchmarks.coordinator_daemon. Prints ratios within one run.
"""

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import insert

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import cluster_state, schema
from coordinator.database.database import Database
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import backlog, declarations, heads
from coordinator.publishing.backlog import Backlog
from tests.coordinator import postgresql
from tests.coordinator.founding import Founded

BATCH = 64
ORGANIZATIONS = 20


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, str]]:
    with postgresql.server(folder, durable=True) as url:
        yield {"SQLite": f"sqlite:///{folder}/state.db", "PostgreSQL": url.format("postgres")}


def state(nodes: int, services: int = 10) -> str:
    """Every node in the core and at the egress of one of twenty organizations, with so many services of each: eight
    scopes each, with the trust bundle, and one more for each service.
    """
    parts = ["kind: Cluster\nid: prod\nspec: {coordinators: ['https://localhost:7443']}"]
    parts += [f"kind: Organization\nid: org{number}" for number in range(ORGANIZATIONS)]
    for number in range(nodes):
        organization = f"org{number % ORGANIZATIONS}"
        parts.append(
            f"kind: Node\nid: n{number}\nspec: {{roles: [core_mesh, egress_service], organizations: [{organization}],"
            f" addresses: ['10.0.0.1:7000'], labels: {{zone: a}}}}"
        )
    for number in range(ORGANIZATIONS * services):
        organization = f"org{number % ORGANIZATIONS}"
        parts.append(
            f"kind: Service\nid: s{number}\nspec: {{organization: {organization}, runs_on: {{labels: {{zone: a}}}},"
            " endpoints: [{name: http, protocol: http, host: localhost, port: 8080}]}"
        )
        parts.append(
            f"kind: Route\nid: r{number}\nspec: {{organization: {organization}, service: s{number},"
            f" match: {{hosts: [www{number}.example]}}}}"
        )
    parts += ["kind: DegradedModePolicy\nid: standard\nspec: {allow: [continue_services]}"]
    parts += ["kind: StorageEndpoint\nid: store\nspec: {url: 'https://store.example:8443'}"]
    return "\n---\n".join(parts)


def member_row(number: int) -> dict[str, object]:
    return {
        "node_id": f"n{number}", "kind": "data", "site_id": "default", "certificate": f"der{number}".encode(),
        "certificate_sha256": f"{number}", "incarnation": "i", "first_seen": 0.0, "generation": 1,
    }  # fmt: skip


def with_members(database: Database, count: int, now: float) -> None:
    rows = [member_row(number) for number in range(count)]
    with database.change(actor="benchmark", now=now) as transaction:
        transaction.run(insert(schema.nodes), rows)
        transaction.audit("benchmark", "members")
        cluster_state.raise_revision(transaction)


def publish_all(database: Database, kept: Backlog, keys: tuple[SigningKey, ...], now: float) -> tuple[int, int]:
    """Heads and documents published until nothing is due."""
    made = documents = 0
    while due := backlog.due(database, now):
        for start in range(0, len(due), BATCH):
            batch = backlog.prepare(database, kept, keys, CoordinatorSettings(), due[start : start + BATCH], now)
            publications = [each.publication for each in batch.drafts]
            assert heads.publish(database, publications, actor="benchmark", now=now) == {}
            for each in batch.drafts:
                assert not each.failed, each.failed
                kept.note_published(each)
            made += len(publications)
            documents += sum(len(each.documents) for each in publications)
    return made, documents


def timed(database: Database, kept: Backlog, keys: tuple[SigningKey, ...], now: float) -> tuple[float, int, int]:
    begun = time.perf_counter()
    made, documents = publish_all(database, kept, keys, now)
    return time.perf_counter() - begun, made, documents


def changed(database: Database, text: str, now: float) -> float:
    begun = time.perf_counter()
    declarations.apply(database, {"change.yaml": text}, actor="benchmark", now=now)
    return time.perf_counter() - begun


def compile_benchmark(name: str, url: str, folder: Path, nodes: int) -> None:
    founded = Founded(folder, url)
    now, keys = founded.now, (founded.config,)
    database = Database(url)
    with_members(database, nodes, now)
    changed(database, state(nodes), now)
    kept = Backlog()
    first, made, documents = timed(database, kept, keys, now)
    print(
        f"{name}: first compile of {made} nodes, {documents} documents: {first:.1f} s,"
        f" {first / made * 1e3:.1f} ms a node"
    )
    one = []
    for number in range(9):
        text = (
            f"kind: Service\nid: only\nspec: {{organization: org3, runs_on: {{nodes: [n3]}}, settings: {{n: {number}}},"
            " endpoints: [{name: http, protocol: http, host: localhost, port: 8080}]}"
        )
        applied = changed(database, text, now)
        published, made, _ = timed(database, kept, keys, now)
        assert made == 1
        one.append((published, applied))
    one.sort()
    published, applied = one[len(one) // 2]
    print(
        f"{name}: a change that touches one node: applied in {applied * 1e3:.0f} ms, published in"
        f" {published * 1e3:.0f} ms, {first / published:.0f} times less than the first compile"
    )
    applied = changed(database, "kind: DegradedModePolicy\nid: standard\nspec: {allow: [preserve_routes]}", now)
    everybody, made, documents = timed(database, kept, keys, now)
    print(
        f"{name}: a change that touches all: applied in {applied * 1e3:.0f} ms, {made} nodes and {documents} documents"
        f" in {everybody:.1f} s, {everybody / first:.2f} of the first compile"
    )
    database.close()


def signing_benchmark() -> None:
    key = SigningKey.generate()
    begun = time.perf_counter()
    for _ in range(5_000):
        key.sign(b"x" * 1_024)
    elapsed = time.perf_counter() - begun
    print(f"Ed25519: {5_000 / elapsed:.0f} signatures/s of 1 KiB on one core")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("what", nargs="?", default="all", choices=["all", "compile", "signatures"])
    options.add_argument("--nodes", type=int, default=1_000)
    options.add_argument("--profile", action="store_true")
    options.add_argument("--database", choices=["SQLite", "PostgreSQL"])
    chosen = options.parse_args()
    if chosen.what in ("all", "signatures"):
        signing_benchmark()
    if chosen.what in ("all", "compile"):
        with tempfile.TemporaryDirectory() as directory, databases(Path(directory)) as urls:
            for name, url in urls.items():
                if chosen.database in (None, name):
                    folder = Path(directory) / name
                    folder.mkdir()
                    compile_benchmark(name, url, folder, chosen.nodes)


if __name__ == "__main__":
    if "--profile" in sys.argv:
        profile = cProfile.Profile()
        profile.runcall(main)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    else:
        main()
