"""How each declared store stands, as an operator is told it: by the last word of whoever keeps it up."""

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, replace

from sqlalchemy import select

from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.declared.kinds import StorageEndpoint
from coordinator.storage import storage_records
from coordinator.storage.storage_error import REMEDIES
from coordinator.storage.storage_records import LEASE_S, HeardStore
from coordinator.storage.storages import read_endpoints
from wire.operators.operator_answers import STORAGE_STATES, HeldFiles, StorageStanding, StorageStandings

CURRENT, BEHIND, FAILING, SILENT, ELSEWHERE = STORAGE_STATES


def read_standings(
    database: Database, answering: str, configured: frozenset[str], now: float, *, is_repeated: bool
) -> StorageStandings:
    """`is_repeated`: a word is said again while nothing changes, so that silence means something."""
    with database.read() as transaction:
        endpoints = read_endpoints(transaction)
        held = _read_reports(transaction, {endpoint.node for endpoint in endpoints.values() if endpoint.node})
    heard = [store for store in storage_records.all_of(database) if store.endpoint_id in endpoints]
    spoken_of = {store.endpoint_id for store in heard}
    unheard = (_elsewhere(endpoint) for name, endpoint in endpoints.items() if name not in spoken_of)
    stores = [
        replace(store, held=held.get(endpoints[store.id].node))
        for store in (*_heard_stores(heard, endpoints, now, is_repeated=is_repeated), *unheard)
    ]
    return StorageStandings(
        now=now,
        answering=answering,
        stores=tuple(sorted(stores, key=lambda store: (store.id, store.coordinator_id))),
        undeclared=tuple(sorted(configured - endpoints.keys())),
    )


def _read_reports(transaction: Transaction, node_ids: Set[str]) -> dict[str, HeldFiles]:
    """What these members have last reported of their files."""
    table = schema.node_status
    columns = select(table.c.node_id, table.c.last_seen, table.c.body).where(table.c.node_id.in_(sorted(node_ids)))
    said = {row.node_id: (json.loads(row.body).get("storage"), row.last_seen) for row in transaction.rows(columns)}
    return {node_id: _held_files(found, at) for node_id, (found, at) in said.items() if found is not None}


def _held_files(said: Mapping[str, int], at: float) -> HeldFiles:
    """What a newer agent says beside it is passed over."""
    known = {entry.name for entry in fields(HeldFiles)}
    return HeldFiles(**{name: value for name, value in said.items() if name in known}, at=at)


def _heard_stores(
    heard: list[HeardStore], endpoints: Mapping[str, StorageEndpoint], now: float, *, is_repeated: bool
) -> Iterator[StorageStanding]:
    for store in heard:
        report = store.report
        is_silent = is_repeated and now - store.at > 4 * LEASE_S
        yield StorageStanding(
            id=store.endpoint_id,
            url=endpoints[store.endpoint_id].url,
            way=report.way,
            coordinator_id=store.coordinator_id,
            state=SILENT if is_silent else FAILING if report.fault else BEHIND if report.behind else CURRENT,
            files=report.files,
            behind=report.behind,
            refused=report.refused,
            lag_s=max(0.0, now - report.behind_since) if report.behind_since is not None else 0.0,
            good_at=report.good_at,
            said_at=store.at,
            fault=report.fault,
            detail=report.detail,
            remedy=REMEDIES.get(report.fault, ""),
            held=None,
        )


def _elsewhere(endpoint: StorageEndpoint) -> StorageStanding:
    return StorageStanding(
        id=endpoint.id,
        url=endpoint.url,
        way="",
        coordinator_id="",
        state=ELSEWHERE,
        files=0,
        behind=0,
        refused=0,
        lag_s=0.0,
        good_at=None,
        said_at=None,
        fault="",
        detail="",
        remedy="",
        held=None,
    )
