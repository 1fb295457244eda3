"""`holdfastctl audit`, `audit verify`: who changed what, and whether that is still as it was written down."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import click

from holdfast.ctl import output
from holdfast.ctl.socket import DIFFERENT, CoordinatorClient, asks_the_coordinator
from holdfast.terminal.shown import say
from wire.operators.operator_answers import AuditPage, AuditProof, ComparedTable, HistoryFault

MOST_FAULTS = 1_000


@dataclass
class HistoryReport:
    """All pages together, as scripts are told."""

    proof: AuditProof
    compared: list[ComparedTable] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        found = [_fault(fault) for fault in self.proof.faults]
        return found + [f"{table.table}: {table.fault}" for table in self.compared if table.fault]

    def to_value(self) -> dict[str, object]:
        value: dict[str, object] = dict(self.proof.to_value())  # type: ignore[call-overload]
        tables = {table.table: table.fault or "good" for table in self.compared}
        return {**{name: value[name] for name in value if name != "next"}, "tables": tables, "good": not self.faults}


@click.group(invoke_without_command=True)
@click.option("--most", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--action", help="Only this action, as `revoke` or `trust_bundle.add`.")
@click.option("--before", type=click.IntRange(1), help="Page on from this entry.")
@asks_the_coordinator
def audit(asked: CoordinatorClient, most: int, action: str | None, before: int | None) -> None:
    """Who changed what and when, the newest first."""
    if click.get_current_context().invoked_subcommand is None:
        asked.show(asked.get(AuditPage, "audit", most=most, action=action, before=before), _render)


@audit.command()
@asks_the_coordinator
def verify(asked: CoordinatorClient) -> None:
    """Verify the signed history: each link, each audit row that it proves, and each table against its digest.

    Exit status 1 where anything differs from what was linked.
    """
    found = HistoryReport(_all_pages(asked))
    if found.proof.newest:
        found.compared = [asked.get(ComparedTable, "audit", "verify", table) for table in found.proof.tables]
    asked.show(found.to_value() if asked.as_json else found, lambda _: _render_proof(found))
    if found.faults:
        raise SystemExit(DIFFERENT)


def _all_pages(asked: CoordinatorClient) -> AuditProof:
    pages = _pages(asked)
    whole = next(pages)
    for page in pages:
        times = [at for at in (whole.since, page.since) if at is not None]
        ends = [at for at in (whole.until, page.until) if at is not None]
        whole = replace(
            page,
            oldest=whole.oldest,
            links=whole.links + page.links,
            rows=whole.rows + page.rows,
            since=min(times, default=None),
            until=max(ends, default=None),
            faults=(*whole.faults, *page.faults)[:MOST_FAULTS],
            notes=(*whole.notes, *page.notes),
        )
    return whole


def _pages(asked: CoordinatorClient) -> Iterator[AuditProof]:
    after = None
    while True:
        page = asked.get(AuditProof, "audit", "verify", after=after)
        yield page
        after = page.next
        if after is None:
            return


def _fault(fault: HistoryFault) -> str:
    return f"link {fault.link}: {fault.what}" if fault.link else fault.what


def _render(answer: AuditPage) -> None:
    rows = [
        (entry.audit_id, output.time(entry.at), entry.actor, entry.action, entry.subject, entry.outcome)
        for entry in answer.entries
    ]
    output.table(("entry", "at", "who", "what", "of", "outcome"), rows, nothing="nothing was done yet")


def _render_proof(found: HistoryReport) -> None:
    proof = found.proof
    output.facts(
        [
            ("links", f"{proof.links}, from {proof.oldest} to {proof.newest}"),
            ("audit rows", proof.rows),
            ("from", _time(proof.since)),
            ("to", _time(proof.until)),
            ("not linked yet", proof.unlinked),
            ("tables", f"{sum(not table.fault for table in found.compared)} of {len(proof.tables)} as linked"),
        ]
    )
    if proof.notes:
        say("", *proof.notes)
    if found.faults:
        say("", f"NOT AS IT WAS LINKED: {len(found.faults)} faults (docs/operating.md, The history)", *found.faults)
    else:
        say("", "All of it is as it was linked.")


def _time(at: float | None) -> str:
    return "-" if at is None else output.time(at)
