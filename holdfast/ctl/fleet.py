"""`holdfastctl status`, `fleet`: how things stand."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import click

from holdfast.ctl import due, output, storage
from holdfast.ctl.selection import selects_nodes
from holdfast.ctl.socket import DIFFERENT, UNANSWERED, CoordinatorClient, Failed, asks_the_coordinator
from holdfast.terminal.durations import in_words
from holdfast.terminal.relay_words import count_text, relay_cells
from holdfast.terminal.shown import say
from wire.operators.change_answers import ChangeSummary
from wire.operators.fleet_answers import Fleet, FleetRefusal, RelayStanding, Straggler
from wire.operators.operator_answers import CoordinatorStatus, StorageStandings

PAGE = 1_000  # stragglers in one answer
WATCH_S = 5.0  # of ten thousand nodes the coordinator has a second of work each time
EVERY_S = 0.5
STRAGGLER_COLUMNS = ("node", "why", "versions behind", "for", "last seen")
RELAY_COLUMNS = ("site", "as", "may fetch", "heads", "documents", "kept", "is used by")


@click.command()
@click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS",
              help="First wait until it can publish; exit 1 if it cannot by then, 3 without an answer.")  # fmt: skip
@asks_the_coordinator
def status(asked: CoordinatorClient, wait_s: float | None) -> None:
    """The coordinator: its cluster, its state, its trust bundle, how publishing goes, and how the stores stand."""
    answer = asked.get(CoordinatorStatus, "status") if wait_s is None else _wait_for(asked, wait_s)
    stores = [] if asked.as_json else storage.summary(asked.get(StorageStandings, "storage"))
    asked.show(answer, partial(_render_status, stores=stores))


def _wait_for(asked: CoordinatorClient, wait_s: float) -> CoordinatorStatus:
    """The status, once nothing holds publishing back."""
    deadline = time.monotonic() + wait_s
    while True:
        answer, why = _look_up(asked)
        if answer is not None and why is None:
            return answer
        if why is not None and time.monotonic() >= deadline:
            raise why
        time.sleep(EVERY_S)


def _look_up(asked: CoordinatorClient) -> tuple[CoordinatorStatus | None, Failed | None]:
    """The status, and why it is not good yet. Whoever does not answer may still come."""
    try:
        answer = asked.get(CoordinatorStatus, "status")
    except Failed as failed:
        if failed.exit_code != UNANSWERED:
            raise
        return None, failed
    held_back = answer.restored_backup or answer.publishing.fault
    return answer, Failed(f"not ready: {held_back}", DIFFERENT) if held_back else None


@click.command()
@selects_nodes
@click.option("--watch", is_flag=True, help="Show it anew every few seconds, until Ctrl-C.")
@asks_the_coordinator
def fleet(asked: CoordinatorClient, site: str | None, labels: tuple[str, ...], state: str | None, watch: bool) -> None:
    """The nodes: states, versions, lag, and who is behind and why, one by one.

    Exit status 1 where a node does not hold what it should.
    """
    which = {"site": site, "label": labels, "state": state}
    while True:
        answer = _whole(asked, which)
        if watch and not asked.as_json:
            click.clear()
        asked.show(answer, _render_fleet)
        if not watch:
            break
        time.sleep(WATCH_S)
    if answer.stragglers_total:
        raise SystemExit(DIFFERENT)


def _whole(asked: CoordinatorClient, which: Mapping[str, object]) -> Fleet:
    """With every straggler: they are told by pages, and the fleet goes on meanwhile."""
    answer = asked.get(Fleet, "fleet", most=PAGE, **which)
    page = answer.stragglers
    named = {node.node_id: node for node in page}
    first = 0
    while len(page) == PAGE:
        first += PAGE
        page = asked.get(Fleet, "fleet", most=PAGE, **{"from": first}, **which).stragglers
        named |= {node.node_id: node for node in page}
    return replace(answer, stragglers=tuple(named.values()), stragglers_total=len(named))


def _render_status(answer: CoordinatorStatus, stores: Sequence[str]) -> None:
    bundle, publishing = answer.trust_bundle, answer.publishing
    trusted = "none" if bundle is None else f"version {bundle.config_version}, until {bundle.expires_at}"
    output.facts(
        [
            ("cluster", answer.cluster_id),
            ("coordinator", answer.coordinator_id),
            ("authority epoch", answer.authority_epoch),
            ("revision", answer.revision),
            ("trust bundle", trusted),
            ("certificate", f"{answer.certificate.sha256}, until {answer.certificate.expires_at}"),
            ("nodes waiting", answer.held_polls),
            ("restored backup", answer.restored_backup or "no"),
            *([("moved", f"to {answer.moved}; holdfastctl coordinators status")] if answer.moved else []),
            ("history", answer.history),
            ("publishing", publishing.fault or "good"),
            ("heads to make", publishing.behind),
            *([("stores", "; ".join(stores))] if stores else []),
            ("alarms", answer.alarms),
        ]
    )
    rows = [(node, scope, why) for node, scopes in publishing.failed.items() for scope, why in scopes.items()]
    if rows:
        say()
        output.table(("node", "scope", "not published because"), rows, nothing="")
    if answer.due:
        say("", "Due: what ends, and what renews it (all of it: holdfastctl due)", "")
        due.render_things(answer.due)


def _render_fleet(answer: Fleet) -> None:
    short = answer.baseline_shortfall
    if answer.restored_backup:
        say(f"NOT READY: {answer.restored_backup}", "")
    output.facts(
        [
            ("members", answer.members),
            ("data members", f"{answer.data_members}" + (f", {short} below the baseline" if short else "")),
            ("states", answer.states),
            ("heads", answer.grades),
            ("versions behind", answer.lag_versions),
            ("versions came from", _ways(answer)),
            ("seconds since seen", {name: round(value) for name, value in answer.seconds_since_seen.items()}),
            ("joins refused", answer.rejected_joins),
            ("root keys not confirmed", _unconfirmed_roots(answer)),
            ("not given all, agent too old", _old_agents(answer)),
            ("draining", _draining(answer)),
            ("nobody has seen", _unseen_members(answer)),
        ]
    )
    if answer.changes:
        say()
        columns = ("change", "state", "has it", "runs it", "refused", "offline", "for")
        output.table(columns, map(_change_row, answer.changes), nothing="")
    if answer.relays:
        say()
        output.table(("keeps for others", *RELAY_COLUMNS), map(_relay_row, answer.relays), nothing="")
        _more(answer.relays_total - len(answer.relays))
    say()
    rows = map(_straggler_row, answer.stragglers)
    output.table(STRAGGLER_COLUMNS, rows, nothing="every node holds what it should")
    if answer.refusals:
        say()
        columns = ("node", "scope", "has refused", "since", "because", "runs", "until")
        output.table(columns, map(_refusal_row, answer.refusals), nothing="")
        _more(answer.refusals_total - len(answer.refusals))


def _change_row(change: ChangeSummary) -> tuple[object, ...]:
    """How many of the nodes that it touches are on what."""
    counts, of = change.counts, change.counts.touched
    no = counts.refused + counts.silent + counts.reverted
    has_it, runs_it = f"{counts.given}/{of}", f"{counts.active}/{of}"
    return change.change, change.state, has_it, runs_it, no, counts.offline, change.message


def _straggler_row(each: Straggler) -> tuple[object, ...]:
    """How long: since the first version that it has not was published."""
    since = "-" if each.behind_s is None else in_words(each.behind_s)
    return each.node_id, each.reason, each.versions_behind or "-", since, _seconds(each.seconds_since_seen)


def _ways(answer: Fleet) -> str:
    """By whom the active versions of all came."""
    return ", ".join(f"{came.way} {came.versions} (on {count_text(came.nodes, 'node')})" for came in answer.came_from)


def _relay_row(each: RelayStanding) -> tuple[object, ...]:
    return (each.node_id, each.site_id, *relay_cells(each.keeps), count_text(each.taken_by, "node"))


def _unconfirmed_roots(answer: Fleet) -> str | None:
    """Nodes of a first use that nobody has compared; nothing where there is none."""
    named, total = answer.roots_unconfirmed, answer.roots_unconfirmed_total
    more = f" and {total - len(named)} more" if total > len(named) else ""
    return f"{', '.join(named)}{more}: holdfast trust confirm there" if total else None


def _old_agents(answer: Fleet) -> str | None:
    """Nodes whose agents do not read all that is for them; nothing where there is none."""
    named, total = answer.held_back, answer.held_back_total
    more = f" and {total - len(named)} more" if total > len(named) else ""
    return f"{', '.join(named)}{more}: holdfastctl explain NODE" if total else None


def _draining(answer: Fleet) -> str | None:
    """Who is on the way out; nothing where nobody is."""
    named, total = answer.draining, answer.draining_total
    more = f" and {total - len(named)} more" if total > len(named) else ""
    return f"{', '.join(named)}{more}" if total else None


def _unseen_members(answer: Fleet) -> str | None:
    """Whom a trim takes within a week, or waits to take; nothing where there is none."""
    named = [f"{member.node_id} (until {output.time(member.removed_at)})" for member in answer.unseen]
    more = f" and {answer.unseen_total - len(named)} more" if answer.unseen_total > len(named) else ""
    return f"{', '.join(named)}{more}: holdfastctl nodes trim" if named else None


def _refusal_row(each: FleetRefusal) -> tuple[object, ...]:
    """What runs is renewed; where it is not, that stands there."""
    why = f"{each.reason}: {each.detail}" if each.detail else each.reason
    until = "-" if each.runs is None else output.time(each.good_until)
    how = f"{until}, NOT renewed: {each.withheld}" if each.withheld else until
    since = output.time(each.since)
    return each.node_id, each.scope, each.refused, since, why, each.runs or "nothing", how


def _more(count: int) -> None:
    if count:
        say(f"and {count} more")


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{round(value)} s ago"
