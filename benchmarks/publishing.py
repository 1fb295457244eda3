"""What it costs the coordinator to make and publish a change of all nodes, against a bare prototype of the same rows.

    .venv/bin/python -m benchmarks.publishing                               # SQLite, 1,000 nodes
    .venv/bin/python -m benchmarks.publishing --database PostgreSQL --nodes 5000 --rounds 1 --profile

Each node has one role, one organization, one service, and eight scopes. Measured is the processor time of this process
for each of them: a server has its own. The prototype knows all that there is to know: it writes the same JSON with the
writer in C, signs it with the same key, and puts the same rows into the same tables of a second database, by one
statement a table. It asks for nothing, and checks nothing.
"""

import argparse
import cProfile
import hashlib
import json
import pstats
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.changes import end, state, touch
from benchmarks.coordinator import with_members
from benchmarks.figures import note
from coordinator.base import interpreter
from coordinator.base.settings import CoordinatorSettings
from coordinator.changes.states import Step
from coordinator.database.database import Database
from coordinator.publishing import backlog, heads, publisher
from snapshot.identifiers import format_time
from snapshot.signature import pae
from tests.coordinator import histories, postgresql
from tests.coordinator.founding import Founded
from tests.coordinator.publishing import Press

MOST_FLOORS = 4.0
POLICY = "kind: DegradedModePolicy\nid: standard\nspec: {{allow: [continue_services], max_duration_s: {seconds}}}"
_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass
class Floor:
    """The prototype. `listings`: what each node has, in memory."""

    database: Database
    founded: Founded
    listings: dict[str, dict[str, object]]
    generation: int = 1
    head_ids: dict[str, str] = field(default_factory=dict)

    def own(self) -> None:
        """A document for each node, and its head."""
        self._publish({node_id: self._document(node_id) for node_id in self.listings})

    def shared(self) -> None:
        """One for all, and a head for each."""
        made = self._document("*")
        self._publish(dict.fromkeys(self.listings, made))

    def heads(self) -> None:
        self._publish({})

    def _document(self, subject: str) -> tuple[object, ...]:
        section = _JSON.encode({"service": {"settings": {"workers": self.generation}}}).encode()
        digest = hashlib.sha256(section).hexdigest()
        content = _JSON.encode({"service": {"sha256": digest, "size": len(section)}}).encode()
        row = self._signed(subject, "snapshot", "service_assignment/web", content, len(section))
        return row, (row[0], 0, f"sections/{digest}"), (f"sections/{digest}", section)

    def _signed(self, subject: str, kind: str, scope: str, content: bytes, length: int) -> tuple[object, ...]:
        id_, now, key = secrets.token_hex(16), int(self.founded.now), self.founded.config
        content_hash = "sha256:" + hashlib.sha256(content).hexdigest()
        envelope = _JSON.encode(
            {
                "schema_version": 1, "kind": kind, "snapshot_id": id_, "cluster_id": "prod",
                "subject_node_id": subject, "scope_type": "service_assignment", "scope_ids": ["web"],
                "roles": ["egress_service"], "organization_ids": ["acme"], "config_version": self.generation,
                "authority_epoch": 1, "issued_at": format_time(now), "valid_from": format_time(now),
                "refresh_after": format_time(now), "expires_at": format_time(now), "min_trust_bundle_version": 1,
                "signer_key_id": key.key_id, "signature_algorithm": key.algorithm, "cosigner_key_ids": [],
                "content_hash": content_hash, "content_length": length,
            }
        ).encode()  # fmt: skip
        signed = _JSON.encode([[key.key_id, key.sign(pae(kind, envelope)).hex()]])
        return (
            id_, kind, subject, scope, 1, self.generation, None, content_hash, now, now, self.founded.now,
            envelope, signed, content,
        )  # fmt: skip

    def _publish(self, made: dict[str, tuple[object, ...]]) -> None:
        self.generation += 1
        rows, published, announced = [], [], []
        for node_id, listing in self.listings.items():
            if node_id in made:
                row, _, _ = made[node_id]
                listing["service_assignment/web"] = {
                    "authority_epoch": 1, "config_version": row[5], "content_hash": row[7], "snapshot_id": row[0]
                }  # fmt: skip
                published.append((node_id, row[3], 1, self.generation, row[7], row[0], self.founded.now, False))
            revocations = {"version": 0, "key_ids": [], "node_ids": []}
            said = {"generation": self.generation, "poll_after_s": 15, "revocations": revocations, "scopes": listing}
            head = self._signed(node_id, "head", "head", _JSON.encode(said).encode(), 0)
            rows.append(head)
            announced.append((node_id, 1, self.generation, head[0], head[8], head[9], _JSON.encode(listing), "{}"))
        new = list({parts[0][0]: parts for parts in made.values()}.values())
        self._write([*rows, *(parts[0] for parts in new)], new, published, announced)

    def _write(self, rows: Sequence[tuple], new: Sequence[tuple], published: Sequence, announced: Sequence) -> None:
        connection = self.database.engine.raw_connection()
        cursor = connection.cursor()
        if self.database.is_sqlite:
            cursor.execute("BEGIN IMMEDIATE")
        replaced = [(id_,) for id_ in self.head_ids.values()]
        self._run(cursor, "DELETE FROM documents WHERE snapshot_id = ?", replaced)
        self._run(cursor, "DELETE FROM heads WHERE node_id = ?", [(node_id,) for node_id in self.listings])
        names = (
            "snapshot_id, kind, subject, scope, authority_epoch, config_version, base_config_version, content_hash,"
            " issued_at, expires_at, published_at, envelope, signatures, manifest"
        )
        self._insert(cursor, "documents", names, rows)
        self._insert(cursor, "document_sections", "snapshot_id, position, object_key", [parts[1] for parts in new])
        self._insert(cursor, "objects", "key, value", [parts[2] for parts in new])
        names = "node_id, scope, authority_epoch, config_version, content_hash, snapshot_id, published_at, is_candidate"
        self._insert(cursor, "published", names, published)
        names = "node_id, authority_epoch, generation, snapshot_id, refresh_after, expires_at, listing, candidates"
        self._insert(cursor, "heads", names, announced)
        raised = [(self.generation, node_id) for node_id in self.listings]
        self._run(cursor, "UPDATE nodes SET generation = ? WHERE node_id = ?", raised)
        connection.commit()
        connection.close()
        self.head_ids = {row[0]: row[3] for row in announced}

    def _insert(self, cursor: object, table: str, names: str, rows: Sequence[tuple]) -> None:
        marks = ", ".join("?" * len(names.split(",")))
        self._run(cursor, f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING", rows)  # noqa: S608

    def _run(self, cursor: object, statement: str, rows: Sequence[tuple]) -> None:
        if rows:
            cursor.executemany(statement if self.database.is_sqlite else statement.replace("?", "%s"), rows)


@dataclass
class Bench:
    press: Press
    floor: Floor
    nodes: int
    profile: cProfile.Profile | None = None
    found: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def measure(self, what: str, prototype: Callable[[], None]) -> None:
        """What is due, and the prototype of it at once after that."""
        begun = time.process_time()
        with self._profiled():
            made = publish_due(self.press)
        between = time.process_time()
        assert made == self.nodes, (what, made)
        prototype()
        spent, least = between - begun, time.process_time() - between
        self.found.setdefault(what, []).append((spent / made * 1e3, least / made * 1e3))

    @contextmanager
    def _profiled(self) -> Iterator[None]:
        if self.profile is not None:
            self.profile.enable()
        yield
        if self.profile is not None:
            self.profile.disable()

    def say(self) -> None:
        for what, pairs in self.found.items():
            ours, floor = zip(*pairs, strict=True)
            note(f"publishing/{what}", "ms", ours, floor=floor)
            spent, least = (sorted(values)[len(values) // 2] for values in zip(*pairs, strict=True))
            print(
                f"  {what}: {spent:.3f} ms of the processor a node, the prototype {least:.3f},"
                f" {spent / least:.1f} times as much [<= {MOST_FLOORS:.0f}]"
            )


def publish_due(press: Press) -> int:
    """As the publisher does it, until nothing is due; heads."""
    made = 0
    while due := backlog.due(press.database, press.now):
        while due:
            chunk = due[: publisher.BATCH]
            batch = backlog.prepare(press.database, press.kept, press.keys, CoordinatorSettings(), chunk, press.now)
            due = due[len(batch.node_ids) :]
            publications = [draft.publication for draft in batch.drafts]
            assert heads.publish(press.database, publications, actor="benchmark", now=press.now) == {}
            for draft in batch.drafts:
                assert not draft.failed, draft.failed
                press.kept.note_published(draft)
            made += len(publications)
    return made


def run(bench: Bench, rounds: int) -> None:
    press, floor, count = bench.press, bench.floor, bench.nodes
    for number in range(rounds):
        press.apply(state(count, 10 + number, 5))
        bench.measure("a document of each node's own changes", floor.own)
        press.apply(POLICY.format(seconds=3600 + number))
        bench.measure("a document that all share changes", floor.shared)
        touch(press, count)
        bench.measure("heads anew", floor.heads)
        press.now += CoordinatorSettings().head_refresh_s + 1
        bench.measure("heads renewed", floor.heads)
        change = press.change(state(count, 50 + number, 5)).record.change_id
        touch(press, count)
        publish_due(press)
        press.move(change, Step.OFFERED)
        bench.measure("a change is offered", floor.own)
        press.move(change, Step.RELEASED)
        bench.measure("a change is released", floor.heads)
        end(press, change)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=1_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--database", choices=["SQLite", "PostgreSQL"], default="SQLite")
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    interpreter.set_up()  # as the daemon is
    with tempfile.TemporaryDirectory() as directory, databases(Path(directory), chosen.database) as urls:
        bench = prepared(Path(directory), urls, chosen.nodes)
        bench.profile = cProfile.Profile(time.process_time) if chosen.profile else None
        run(bench, chosen.rounds)
        print(f"{chosen.nodes} nodes, {chosen.database}:")
        bench.say()
        if bench.profile is not None:
            pstats.Stats(bench.profile, stream=sys.stdout).sort_stats("tottime").print_stats(60)


@contextmanager
def databases(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    if name == "SQLite":
        yield f"sqlite:///{folder}/state.db", f"sqlite:///{folder}/floor.db"
        return
    with postgresql.server(folder, durable=True) as url:
        yield url.format("postgres"), url.format("template1")


def prepared(folder: Path, urls: tuple[str, str], count: int) -> Bench:
    """All published for the first time, and the same number of nodes in the prototype's database."""
    founded = []
    for name, url in zip(("state", "floor"), urls, strict=True):
        (folder / name).mkdir()
        founded.append(Founded(folder / name, url))
        with_members(Database(url), count, founded[-1].now)
    press = Press(Database(urls[0]), bundles=founded[0].bundles, now=founded[0].now)
    histories.begin(press.database, now=founded[0].now)
    press.apply(state(count, 1, 5))
    publish_due(press)
    listing = {scope: vars(entry) for scope, entry in press.listing("n0").items()}
    listings = {f"n{number}": dict(listing) for number in range(count)}
    floor = Floor(Database(urls[1]), founded[1], listings)
    floor.own()
    return Bench(press, floor, count)


if __name__ == "__main__":
    main()
