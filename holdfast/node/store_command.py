"""`holdfast store`: look at a node's durable store, of a stopped or a running agent. Nothing is written to it.

    check           every fault, not the first; exit 1 when there is one
    list            scopes with mark, active version, expiry; what is pending, and what of it is a candidate
    show            one scope: pointers, signers, sections, last refusal; or the journal
    export          a scope's document as a file, or its sections as files
    reset-identity  the one that changes something, in a file of its own

Which root and which cluster is meant: store_root.py.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from holdfast.node import reset_identity_command
from holdfast.node.store_root import find_root, options
from holdfast.terminal.audience import describe_audience
from holdfast.terminal.shown import say, say_bytes, say_signed
from snapshot import container
from snapshot.identifiers import format_time, is_section_name
from snapshot.reasons import safe_text
from store.base.documents import StoredDocument
from store.base.errors import StoreError, StoreFault
from store.base.pending import SlotContent
from store.base.records import ScopeRecord
from store.fsck.check import check
from store.fsck.lookup import StoreLook, look

PREVIEW_BYTES = 64  # of a raw section


@click.group("store")
def command() -> None:
    """Look at this node's durable store (read-only, also while the agent runs), or reset its identity."""


command.add_command(reset_identity_command.command)


@command.command("check")
@options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a fault.")
def check_command(root: str, cluster: str, as_json: bool) -> None:
    """Print every fault; exit 0 without any, 1 with one or more."""

    path, name = find_root(root, cluster)
    count = 0
    for fault in check(path, name):
        count += 1
        say(_json(vars(fault)) if as_json else fault)
    if not as_json:
        say(f"{name}: {count} faults" if count else f"{name}: no fault")
    raise SystemExit(1 if count else 0)


@command.command("list")
@options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_command(root: str, cluster: str, as_json: bool) -> None:
    """The scopes: what is active, the mark, when it expires, what is pending, what is a candidate."""
    with _look(root, cluster) as view:
        back = view.reading.reverted_scopes()
        rows = [_row(view, record, back) for _, record in sorted(view.reading.scopes().items())]
        if as_json:
            waiting = [vars(held) for held in view.pending()]
            known = {"generation": view.reading.generation, "incarnation": view.reading.incarnation}
            say(_json(known | {"scopes": rows, "pending": waiting}))
            return
        say(f"generation {view.reading.generation}, incarnation {view.reading.incarnation}")
        for row in rows:
            say(
                f"{row['scope']}  active {row['active'] or '-'}  mark {row['mark']}  "
                f"expires {row['expires_at'] or '-'}  for {row['made_for'] or '-'}{row['note']}"
            )
        for held in view.pending():
            kind = "candidate" if held.candidate else "pending"
            say(f"{held.scope}  {kind} {held.envelope_hash[:23]}  {_state_of(held)}")


@command.command("show")
@options
@click.argument("scope", required=False)
@click.option("--section", help="Print the bytes of this section.")
@click.option("--journal", type=int, help="Print that many of the last events.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show_command(
    root: str, cluster: str, scope: str | None, section: str | None, journal: int | None, as_json: bool
) -> None:
    """One scope in full, one section's bytes, or the journal."""
    if scope is None and journal is None:
        raise click.UsageError("name a SCOPE, or give --journal N")
    with _look(root, cluster) as view:
        if as_json:
            say(_json(_whole(view, scope, section, journal)))
            return
        for event in view.events(journal or 0):
            say(f"{event.sequence}  {format_time(event.at)}  {event.event}  {event.scope}  {event.detail}")
        if scope is not None and section is not None:
            _show_section(_active(view, scope), section)
        elif scope is not None:
            _show(view, scope)


@command.command("export")
@options
@click.argument("scope")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Say in JSON what was written.")
def export_command(root: str, cluster: str, scope: str, target: Path, as_json: bool) -> None:
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
    written = {"scope": scope, "snapshot_id": held.envelope.snapshot_id, "target": str(target)}
    say(_json(written) if as_json else f"{scope} {held.envelope.snapshot_id}: {target}")


# ---- what is printed


def _row(view: StoreLook, record: ScopeRecord, back: Collection[str]) -> dict[str, str]:
    """`back`: the scopes where what serves is what they went back to."""
    active = view.reading.active(record.scope)
    notes = [
        text
        for holds, text in (
            (record.withdrawn, "withdrawn"),
            (record.on_previous, "running on previous"),
            (view.reading.trial(record.scope).until is not None, "on probation"),
            (record.scope in back, "went back to what was good"),
            (active is None and not record.withdrawn, "lost"),
        )
        if holds
    ]
    return {
        "scope": record.scope,
        "active": _version(*active.version) if active else "",
        "mark": _version(record.epoch, record.version),
        "expires_at": format_time(record.expires_at) if active else "",
        "made_for": _whom(active) if active else "",
        "note": "".join(f"  ({text})" for text in notes),
    }


def _whole(view: StoreLook, scope: str | None, section: str | None, journal: int | None) -> dict[str, object]:
    """What was asked for, and no more."""
    found: dict[str, object] = {}
    if journal is not None:
        found["journal"] = [vars(event) | {"at": format_time(event.at)} for event in view.events(journal)]
    if scope is not None and section is not None:
        found |= {"scope": scope, "section": section, **_describe(_active(view, scope), section)}
    elif scope is not None:
        held = _active(view, scope)
        found |= {name.replace(" ", "_"): text for name, text in _lines(view, scope, held).items()}
        found["sections"] = {name: section.members() for name, section in held.sections.items()}
    return found


def _show(view: StoreLook, scope: str) -> None:
    held = _active(view, scope)
    for name, text in _lines(view, scope, held).items():
        say(f"{name + ':':15} {text}")
    for section, entry in held.sections.items():
        say(f"  {section}  {entry.size} bytes{' (raw)' if entry.is_raw else ''}  {entry.sha256}")


def _lines(view: StoreLook, scope: str, held: StoredDocument) -> dict[str, str]:
    record = view.reading.scope(scope)
    floor = view.floors.scopes.get(scope)
    previous = view.reading.previous(scope)
    lines = {
        "scope": scope,
        "active": f"{_version(*held.version)}  {held.kind}  {held.envelope.snapshot_id}",
        "envelope": held.envelope_hash,
        "content": held.content_hash,
        "made for": _whom(held),
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
    return lines


def _active(view: StoreLook, scope: str) -> StoredDocument:

    held = view.reading.active(scope)
    if held is None:
        raise StoreError(StoreFault.NOT_FOUND, f"nothing is active in {scope[:200]!r}")
    return held


def _section(held: StoredDocument, name: str) -> bytes:

    if name not in held.sections:
        raise StoreError(StoreFault.NOT_FOUND, f"{held.scope} has no section {name[:200]!r}")
    return held.read(name)


def _describe(held: StoredDocument, name: str) -> dict[str, object]:
    """Its value; of a raw one what it is, and its beginning with all that a terminal could obey escaped."""
    data = _section(held, name)
    entry = held.sections[name]
    return {**entry.members(), "begins": _beginning(data)} if entry.is_raw else {"value": json.loads(data)}


def _show_section(held: StoredDocument, name: str) -> None:
    data, entry = _section(held, name), held.sections[name]
    if entry.is_raw:
        say_bytes(data, f"raw, {entry.size} bytes, {entry.sha256}: {_beginning(data)}")
    else:
        say_signed(data)


def _beginning(data: bytes) -> str:
    return safe_text(data[:PREVIEW_BYTES].decode("utf-8", "backslashreplace"))


def _version(epoch: int, version: int) -> str:
    return f"{epoch}.{version}"


def _whom(held: StoredDocument) -> str:
    said = held.envelope
    return describe_audience(said.scope, said.subject_node_id, said.roles, said.organization_ids)


def _state_of(held: SlotContent) -> str:
    if held.waiting_until:
        return f"waits until {format_time(held.waiting_until)}"
    if not held.sealed:
        return "being received"
    return "judged, waits for a head that lists it to be run" if held.candidate else "received"


def _json(value: object) -> str:
    return json.JSONEncoder(sort_keys=True).encode(value)


# ---- files


def _container(held: StoredDocument) -> dict[str, bytes]:
    sections = [held.read(name) for name in held.sections]
    parts = container.encode(held.envelope_bytes, held.signatures, held.manifest_bytes, sections)
    return {"": b"".join(parts)}


def _sections(held: StoredDocument) -> dict[str, bytes]:
    """What is raw goes by its bare name."""
    named = {name: entry for name, entry in held.sections.items() if is_section_name(name)}
    return {name if entry.is_raw else f"{name}.json": held.read(name) for name, entry in named.items()}


def _write(target: Path, files: dict[str, bytes]) -> None:
    """One file, or a new directory of them; nothing is written over."""
    try:
        if set(files) != {""}:
            target.mkdir()
        for name, data in files.items():
            with (target / name if name else target).open("xb") as file:
                file.write(data)
    except OSError as error:
        say(f"holdfast store: {target}: {error.strerror}", err=True)
        raise SystemExit(2) from error


@contextmanager
def _look(root: str, cluster: str) -> Iterator[StoreLook]:

    path, name = find_root(root, cluster)
    with look(path, name) as view:
        yield view
