"""One running digest for each table whose rows must not go back, kept up with every row that is written (rules H0).

A digest is a sum over all rows of the table: each row, as text, is expanded by SHAKE-256 to 2048 bits, and the sum is
taken modulo 2^2048 (MSet-Add-Hash of Clarke et al., "Incremental Multiset Hash Functions", 2003). A row that comes is
added, a row that goes is taken away: a change costs what it changes, not what the table holds, and the order in which
rows were written, or are read, does not matter.

What it resists: to find other rows with the same sum is a generalised birthday problem (Wagner, 2002). With 2048 bits
it takes in the order of 2^90 steps and 2^45 rows at once; in a table of some million rows far more. What is published
is the SHA-256 of the sum, so the sum itself serves nobody.

One narrow way: `Transaction.run` hands every statement that writes one of these tables to `Folding.run`, which reads
what the rows were, and what they have become, in the same transaction. Whoever writes such a table need not know of
this. A statement that changes none of the digested columns (`generation` of a node, which rises with each head) says so
by `UNDIGESTED`, and costs nothing more. What it cannot follow it refuses. Tests hold each digest against all rows.

Rejected:

- A hash over the whole table, or a Merkle tree over its rows: the one costs the table at each join; the other log n
  rows of its own for each row, on two databases, for proofs of single rows that nobody asks for.
- XOR in place of the sum: a linear system finds other rows with the same value in no time.
- LtHash with 16-bit lanes of 16 Kbit: stronger, and eight times the memory and twice the time for a bound that no
  table here comes near.
- Triggers of the database: two dialects, no SHAKE in either, and whoever can write to the database can take them away.
- One line at each place that writes: forty places, and the next one forgets it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Delete,
    Double,
    Executable,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    insert,
    select,
)
from sqlalchemy.engine import Row

from coordinator.base import bulk
from coordinator.database import schema

BYTES = 256
_MODULUS = 1 << (8 * BYTES)
_ROWS = 1_000  # read at a time
UNDIGESTED = {"holdfast_undigested": True}
"""Execution options of a statement that changes no digested column."""

# The columns of each. What is not here may change without a trace, so it is nothing that anybody is believed for.
DIGESTED: Mapping[Table, tuple[str, ...]] = {
    schema.nodes: (
        *("node_id", "kind", "site_id", "certificate", "certificate_sha256", "next_certificate"),
        *("next_certificate_sha256", "direct_url", "incarnation", "first_seen", "revoked_at", "reason"),
        *("draining_since", "keeps"),
    ),
    schema.tombstones: ("node_id", "code", "reason", "at"),
    schema.retired_certificates: ("certificate_sha256", "node_id", "code"),
    schema.tokens: (
        *("jti", "site_id", "node_id", "issued_by", "not_before", "expires_at", "revoked_at", "used_at", "used_by"),
        *("used_certificate_sha256", "uses", "used", "nodes"),
    ),
    schema.token_uses: ("jti", "node_id", "certificate_sha256", "at"),
    schema.allowlist: ("node_id", "kind", "site_id", "certificate_sha256", "added_at"),
    schema.revocations: ("category", "value", "at", "reason"),
    schema.moves: ("identity_sha256", "direction", "coordinator_id", "url", "at", "authority_epoch"),
    schema.node_authorities: ("certificate_sha256", "certificate", "standing", "added_at"),
    # One content under one version, for ever. Which document carries it, and whether it is listed yet, may change.
    schema.published: ("node_id", "scope", "authority_epoch", "config_version", "content_hash"),
    schema.scope_versions: ("scope", "config_version"),
    schema.coordinators: (
        *("coordinator_id", "site_id", "url", "certificate_sha256", "token_key_id", "token_public_key", "added_at"),
        "identity_sha256",
    ),
}
TABLES: Mapping[str, Table] = {str(table.name): table for table in DIGESTED}

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # in C: a row is no document


@dataclass
class Folding:
    """What one transaction has added to each digest. `touched`: every table that it has written."""

    deltas: dict[str, int] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

    def follows(self, statement: Executable) -> bool:
        """Whether it writes rows that are digested."""
        if not isinstance(statement, (Insert, Update, Delete)) or not isinstance(statement.table, Table):
            return False
        self.touched.add(str(statement.table.name))
        return statement.table in DIGESTED and not statement.get_execution_options().get("holdfast_undigested")

    def run(
        self, connection: Connection, statement: Executable, values: Sequence[Mapping[str, object]] | None = None
    ) -> int:
        """Rows touched."""
        if type(statement) is Insert:
            return self._insert(connection, statement, values)
        if values is None and isinstance(statement, Delete):
            return self._delete(connection, statement)
        if isinstance(statement, Update):
            return self._update(connection, statement, values)
        raise AssertionError(f"no digest follows such a statement: {type(statement).__name__}")

    def insert_many(self, connection: Connection, statement: Executable, rows: Sequence[Mapping[str, object]]) -> int:
        """Of an INSERT that was made once: rows that all have the same names, one at least."""
        if type(statement) is not Insert:
            raise AssertionError(f"no digest follows such a statement of many: {type(statement).__name__}")
        self._refuse_filled_in(_table_of(statement), rows)
        bulk.execute(connection, statement, rows)
        return self._add_rows(_table_of(statement), rows)

    def _insert(self, connection: Connection, statement: Insert, values: Sequence[Mapping[str, object]] | None) -> int:
        table = _table_of(statement)
        if values is None:
            return self.add(table, connection.execute(statement.returning(*_columns(table))), 1)
        self._refuse_filled_in(table, values)
        if values:
            connection.execute(statement, values)
        return self._add_rows(table, values)

    def _refuse_filled_in(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        filled_in = {column.name for column in _columns(table) if column.server_default is not None}
        if rows and not rows[0].keys() >= filled_in:
            raise AssertionError("what the database fills in, no digest has seen")

    def _add_rows(self, table: Table, rows: Sequence[Mapping[str, object]]) -> int:
        names = DIGESTED[table]
        return self.add(table, ([row.get(name) for name in names] for row in rows), 1)

    def _delete(self, connection: Connection, statement: Delete) -> int:
        table = _table_of(statement)
        return self.add(table, connection.execute(statement.returning(*_columns(table))), -1)

    def _update(self, connection: Connection, statement: Update, values: Sequence[Mapping[str, object]] | None) -> int:
        """`values`: of a statement that was made once for many, which runs once for each."""
        if values is None:
            return self._replace(connection, _table_of(statement), *_reading(statement), None)
        read_and_write = _kept_reading(statement)
        return sum(self._replace(connection, _table_of(statement), *read_and_write, row) for row in values)

    def _replace(
        self,
        connection: Connection,
        table: Table,
        read: Executable,
        write: Executable,
        values: Mapping[str, object] | None,
    ) -> int:
        """What the rows were goes, what they have become comes."""
        before = connection.execute(read, values).all()
        if not before:
            return 0
        self.add(table, before, -1)
        after = self.add(table, connection.execute(write, values), 1)
        if after != len(before):
            raise AssertionError("what was read was not what was written")
        return after

    def add(self, table: Table, rows: Iterable[Sequence[object]], sign: int) -> int:
        """Rows that have come (1), or have gone (-1); how many."""
        count, total = 0, self.deltas.get(str(table.name), 0)
        convert = _converters(table)
        for row in rows:
            count += 1
            total += sign * _element(table.name, row, convert)
        if count:
            self.deltas[str(table.name)] = total
        return count


def read(connection: Connection) -> dict[str, bytes]:
    """The digests as they are kept, by table; of a table that has none yet there is none."""
    rows = connection.execute(_READ)
    return {row.name: bytes(row.value) for row in rows}


def keep(connection: Connection, kept: Mapping[str, bytes], folded: Folding) -> dict[str, bytes]:
    """The digests after this transaction, written; `kept` is what they were before it."""
    found = dict(kept)
    for name, table in TABLES.items():
        if name not in kept:
            found[name] = whole(connection, table)
        elif folded.deltas.get(name):
            found[name] = _to_bytes(int.from_bytes(kept[name], "big") + folded.deltas[name])
    changed = [name for name, value in found.items() if kept.get(name) != value]
    if changed:
        connection.execute(_DROP, {"names": changed})  # also one that did not count
        connection.execute(_KEEP, [{"name": name, "value": found[name]} for name in changed])
    return found


def whole(connection: Connection, table: Table) -> bytes:
    """The same, from all rows that the table has."""
    folded = Folding()
    folded.add(table, _stream(connection, _all(table)), 1)
    return _to_bytes(folded.deltas.get(str(table.name), 0))


def text_of(value: bytes) -> str:
    """As it stands in a state: 64 hex digits."""
    return hashlib.sha256(value).hexdigest()


_READ, _KEEP = select(schema.running_digests), insert(schema.running_digests)
_DROP = delete(schema.running_digests).where(schema.running_digests.c.name.in_(bindparam("names", expanding=True)))


def _stream(connection: Connection, statement: Select[*tuple[object, ...]]) -> Iterator[Row[*tuple[object, ...]]]:
    """Never all of them at once."""
    with connection.execute(statement) as rows:
        yield from rows


def _table_of(statement: Insert | Update | Delete) -> Table:
    table = statement.table
    if not isinstance(table, Table):
        raise AssertionError("only tables are digested")
    return table


@cache
def _columns(table: Table) -> list[Column[object]]:
    return [table.c[name] for name in DIGESTED[table]]


@cache
def _all(table: Table) -> Select[*tuple[Any, ...]]:
    """Made once, as below: making a statement costs as much as running it."""
    return select(*_columns(table)).execution_options(yield_per=_ROWS)


def _reading(statement: Update) -> tuple[Executable, Executable]:
    """What reads the rows that it is going to change, and the same statement so that it says what they have become."""
    columns = _columns(_table_of(statement))
    chosen = select(*columns)
    where = statement.whereclause
    return chosen if where is None else chosen.where(where), statement.returning(*columns)


@lru_cache(maxsize=64)
def _kept_reading(statement: Update) -> tuple[Executable, Executable]:
    """Of one that was made once: making a statement costs as much as running it."""
    return _reading(statement)


@cache
def _converters(table: Table) -> list[bool]:
    """Of each column, whether it is a number with a fraction: 1 is written as 1.0 then, whoever wrote it."""
    return [isinstance(column.type, Double) for column in _columns(table)]


def _element(name: str, row: Sequence[object], is_double: Sequence[bool]) -> int:
    values = [_plain(value, double) for value, double in zip(row, is_double, strict=True)]
    text = f"{name}\n{_write(values)}".encode()
    return int.from_bytes(hashlib.shake_256(text).digest(BYTES), "big")


def _plain(value: object, is_double: bool) -> object:
    if isinstance(value, (bytes, memoryview)):
        return hashlib.sha256(value).hexdigest()
    return float(value) if is_double and isinstance(value, (int, float)) else value


def _to_bytes(total: int) -> bytes:
    return (total % _MODULUS).to_bytes(BYTES, "big")
