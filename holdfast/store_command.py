"""`holdfast store`: look at a node's durable store, of a stopped or a running agent. Nothing is ever written to it.

    check       every fault, not the first; exit 1 when there is one
    list        scopes with mark, active version, expiry
    show        one scope: pointers, signers, sections, last refusal; or the journal
    export      a scope's document as a file, or its sections as files

Run as root it becomes the store's owner first: a lock file of root's would keep the agent out (platform.md 8).
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import click

from snapshot import container
from snapshot.identifiers import format_time, is_section_name
from store.check import check
from store.documents import StoredDocument
from store.errors import StoreError, StoreFault
from store.layout import Root
from store.lookup import View, look
from store.records import ScopeRecord

DEFAULT_ROOT = "/var/lib/holdfast"
P = ParamSpec("P")


@click.group("store")
def command() -> None:
    """Look at this node's durable store (read-only, also while the agent runs)."""


def _options(function: Callable[P, None]) -> Callable[P, None]:
    """The root and the cluster, and errors as one line with exit 2."""

    @click.option("--root", default=DEFAULT_ROOT, show_default=True, help="The agent's state directory.")
    @click.option("--cluster", default="", help="Which cluster, where the root has several.")
    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:

        try:
            function(*args, **kwargs)
        except StoreError as error:
            click.echo(f"holdfast store: {error}", err=True)
            raise SystemExit(2) from error

    return wrapped


@command.command("check")
@_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a fault.")
def check_command(root: str, cluster: str, as_json: bool) -> None:
    """Print every fault; exit 0 without any, 1 with one or more."""

    path, name = _entered(root, cluster)
    count = 0
    for fault in check(path, name):
        count += 1
        click.echo(_json(vars(fault)) if as_json else str(fault))
    if not as_json:
        click.echo(f"{name}: {count} faults" if count else f"{name}: no fault")
    raise SystemExit(1 if count else 0)


@command.command("list")
@_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_command(root: str, cluster: str, as_json: bool) -> None:
    """The scopes: what is active, the mark, when it expires, what is pending."""
    with _look(root, cluster) as view:
        rows = [_row(view, record) for _, record in sorted(view.reading.scopes().items())]
        if as_json:
            waiting = [vars(held) for held in view.pending()]
            known = {"generation": view.reading.generation, "incarnation": view.reading.incarnation}
            click.echo(_json(known | {"scopes": rows, "pending": waiting}))
            return
        click.echo(f"generation {view.reading.generation}, incarnation {view.reading.incarnation}")
        for row in rows:
            click.echo(
                f"{row['scope']}  active {row['active'] or '-'}  mark {row['mark']}  "
                f"expires {row['expires_at'] or '-'}{row['note']}"
            )
        for held in view.pending():
            click.echo(f"{held.scope}  pending {held.envelope_hash[:23]}  {_state_of(held.sealed, held.waiting_until)}")


@command.command("show")
@_options
@click.argument("scope", required=False)
@click.option("--section", help="Print the bytes of this section.")
@click.option("--journal", type=int, help="Print that many of the last events.")
def show_command(root: str, cluster: str, scope: str | None, section: str | None, journal: int | None) -> None:
    """One scope in full, one section's bytes, or the journal."""
    if scope is None and journal is None:
        raise click.UsageError("name a SCOPE, or give --journal N")
    with _look(root, cluster) as view:
        for event in view.events(journal or 0):
            click.echo(f"{event.sequence}  {format_time(event.at)}  {event.event}  {event.scope}  {event.detail}")
        if scope is not None and section is not None:
            click.echo(_section(_active(view, scope), section), nl=False)
        elif scope is not None:
            _show(view, scope)


@command.command("export")
@_options
@click.argument("scope")
@click.argument("target", type=click.Path(path_type=Path))
def export_command(root: str, cluster: str, scope: str, target: Path) -> None:
    """Write the active document to TARGET: a container for a name that ends in .hfs, else a new directory of sections.

    After an increment there is no container of the whole state: its sections can be had.
    """

    start = Path.cwd()
    with _look(root, cluster) as view:
        held = _active(view, scope)
        whole = held.kind != "increment"
        if target.suffix == container.SUFFIX and not whole:
            detail = f"{scope} came by an increment, no one signed its whole state; name a directory instead"
            raise StoreError(StoreFault.NOT_FOUND, detail)
        files = _container(held) if target.suffix == container.SUFFIX else _sections(held)
        _write(start / target, files)
    click.echo(f"{scope} {held.envelope.snapshot_id}: {target}")


# ---- what is printed


def _row(view: View, record: ScopeRecord) -> dict[str, str]:
    active = view.reading.active(record.scope)
    notes = [
        text
        for holds, text in (
            (record.withdrawn, "withdrawn"),
            (record.on_previous, "running on previous"),
            (active is None and not record.withdrawn, "lost"),
        )
        if holds
    ]
    return {
        "scope": record.scope,
        "active": _version(*active.version) if active else "",
        "mark": _version(record.epoch, record.version),
        "expires_at": format_time(record.expires_at) if active else "",
        "note": "".join(f"  ({text})" for text in notes),
    }


def _show(view: View, scope: str) -> None:
    record = view.reading.scope(scope)
    held = _active(view, scope)
    floor = view.floors.scopes.get(scope)
    previous = view.reading.previous(scope)
    lines = {
        "scope": scope,
        "active": f"{_version(*held.version)}  {held.kind}  {held.envelope.snapshot_id}",
        "envelope": held.envelope_hash,
        "content": held.content_hash,
        "previous": _version(*previous.version) if previous else "-",
        "mark": _version(record.epoch, record.version) if record else "-",
        "floor": _version(*floor.order) if floor else "-",
        "signers": ", ".join(held.signers),
        "verified at": format_time(held.judged_at),
        "refresh after": format_time(held.envelope.refresh_after),
        "expires": format_time(held.envelope.expires_at),
    }
    refusal = view.last_rejection(scope)
    if refusal is not None:
        lines["last refused"] = f"{format_time(refusal.at)}  step {refusal.step}: {refusal.reason}  {refusal.detail}"
    for name, text in lines.items():
        click.echo(f"{name + ':':15} {text}")
    for section, entry in held.sections.items():
        click.echo(f"  {section}  {entry.size} bytes  {entry.sha256}")


def _active(view: View, scope: str) -> StoredDocument:

    held = view.reading.active(scope)
    if held is None:
        raise StoreError(StoreFault.NOT_FOUND, f"nothing is active in {scope[:200]!r}")
    return held


def _section(held: StoredDocument, name: str) -> bytes:

    if name not in held.sections:
        raise StoreError(StoreFault.NOT_FOUND, f"{held.scope} has no section {name[:200]!r}")
    return held.read(name)


def _version(epoch: int, version: int) -> str:
    return f"{epoch}.{version}"


def _state_of(sealed: bool, waiting_until: int) -> str:
    if waiting_until:
        return f"waits until {format_time(waiting_until)}"
    return "received" if sealed else "being received"


def _json(value: object) -> str:
    return json.JSONEncoder(sort_keys=True).encode(value)


# ---- files


def _container(held: StoredDocument) -> dict[str, bytes]:
    sections = [held.read(name) for name in held.sections]
    parts = container.encode(held.envelope_bytes, held.signatures, held.manifest_bytes, sections)
    return {"": b"".join(parts)}


def _sections(held: StoredDocument) -> dict[str, bytes]:
    return {f"{name}.json": held.read(name) for name in held.sections if is_section_name(name)}


def _write(target: Path, files: dict[str, bytes]) -> None:
    """One file, or a new directory of them; nothing is written over."""
    try:
        if set(files) != {""}:
            target.mkdir()
        for name, data in files.items():
            with (target / name if name else target).open("xb") as file:
                file.write(data)
    except OSError as error:
        click.echo(f"holdfast store: {target}: {error.strerror}", err=True)
        raise SystemExit(2) from error


# ---- where


@contextmanager
def _look(root: str, cluster: str) -> Iterator[View]:

    path, name = _entered(root, cluster)
    with look(path, name) as view:
        yield view


def _entered(root: str, cluster: str) -> tuple[Path, str]:
    """The root as its owner sees it, and the one cluster that is meant."""

    path = Path(root).absolute()
    _become_owner(path)
    clusters = Root.look(path).clusters
    if cluster and cluster not in clusters:
        raise StoreError(
            StoreFault.NOT_FOUND, f"no cluster {cluster[:80]!r} in {path}; there are: {', '.join(clusters)}"
        )
    if not cluster and len(clusters) != 1:
        raise StoreError(
            StoreFault.NOT_FOUND, f"name one with --cluster; in {path} are: {', '.join(clusters) or 'none'}"
        )
    return path, cluster or clusters[0]


def _become_owner(path: Path) -> None:
    """As root: give up everything that the agent does not have."""
    try:
        owner = path.stat()
    except OSError:
        return  # said by the check of permissions that follows
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
