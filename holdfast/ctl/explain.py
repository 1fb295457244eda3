"""`holdfastctl explain NODE [SCOPE]`: why a node is told what it is told."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from holdfast.ctl import output
from holdfast.ctl.apply import FILES_HELP, read
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from holdfast.terminal.audience import describe_audience
from holdfast.terminal.shown import say, say_json
from wire.operators.fleet_answers import (
    DeclaredSource,
    EntryExplanation,
    ExplainedSection,
    Holders,
    HoldingExplanation,
    NodeExplanation,
    PublishedFacts,
    Reported,
    ReportedVersion,
    ScopeExplanation,
    Signer,
    Version,
)

MEMBER = "member"  # the kind of a source that nobody declares
Fact = tuple[str, object]
Places = Mapping[tuple[str, str], str]
"""(kind, id) -> where it is declared, as `fabric/web.yaml:12`."""

STANDINGS = {
    "same": "holds it",
    "behind": "holds an older version",
    "ahead": "holds a newer version than was published: see `restored backup` in `holdfastctl status`",
    "other_content": "HOLDS ANOTHER CONTENT UNDER THIS VERSION",
    "nothing": "has none active",
    "unheard": "has not reported yet",
    "unpublished": "holds one, and nothing is published",
}
STANDS = {
    "as_declared": "as declared",
    "differs": "declared otherwise",
    "not_declared": "declared no more",
    "not_published": "not published yet",
    "signed": "signed",
}


@click.command()
@click.argument("node_id")
@click.argument("scope", required=False)
@click.option("--section", metavar="NAME", help="Of one section of SCOPE: print its value, however large.")
@click.option("--most", type=click.IntRange(1, 1000), default=200, show_default=True, help="So many entries of SCOPE.")
@click.option("-f", "--files", "places", type=click.Path(path_type=Path, exists=True), multiple=True,
              help=f"Name the lines of these files, not those that were applied. {FILES_HELP}")  # fmt: skip
@asks_the_coordinator
def explain(
    asked: CoordinatorClient, node_id: str, scope: str | None, section: str | None, most: int, places: tuple[Path, ...]
) -> None:
    """Why a node is told what it is told: per scope who grants it, what is published, what is about to change.

    Of one SCOPE in whole: by which rule, which version, who signed it, what it says, from which declared resource
    each entry comes, and who holds it.
    """
    if scope is None:
        if section is not None or places:
            raise click.UsageError("--section and --files are about one SCOPE; name it")
        asked.show(asked.get(NodeExplanation, "nodes", node_id, "explain"), _render_all)
        return
    answer = asked.get(ScopeExplanation, "nodes", node_id, "explain", scope, section=section, most=most)
    if not places:
        asked.show(answer, _render_one if section is None else _render_value)
        return
    declared_in = _places(places)
    value = _with_places(answer, declared_in)
    asked.show(value, lambda _: _render_one(answer, declared_in) if section is None else _render_value(answer))


def _places(places: tuple[Path, ...]) -> Places:
    from coordinator.declared import resources  # noqa: PLC0415 - the readers of YAML: nothing else here waits for them

    found = resources.read(read(places))
    return {key: f"{entry.file}:{entry.source.line(())}" for key, entry in found.items()}


def _with_places(answer: ScopeExplanation, places: Places) -> dict[str, Any]:
    """`declared_in` of each source as these files have it; of what they do not declare, as the coordinator knows it."""
    value = asdict(answer)
    for entry in value["entries"]:
        for source in entry["sources"]:
            source["declared_in"] = places.get((source["kind"], source["id"]), source["declared_in"])
    return value


def _render_all(answer: NodeExplanation) -> None:
    rows = [
        (scope.scope, scope.may_hold, _why(scope), _version(scope.published), _whom(scope), scope.differs or "-")
        for scope in answer.scopes
    ]
    output.table(
        ("scope", "may hold", "because", "published", "made for", "about to change"), rows, nothing="no scopes"
    )


def _why(each: HoldingExplanation) -> str:
    held_back = each.held_back
    return f"{each.because}; HELD BACK: {held_back}" if held_back else each.because


def _whom(each: HoldingExplanation) -> str:
    one = each.published
    if one is None or one.subject_node_id is None:
        return "-"
    return describe_audience(each.scope, one.subject_node_id, one.roles, one.organization_ids)


def _render_value(answer: ScopeExplanation) -> None:
    """The value alone: another program may read it."""
    for section in answer.sections:
        say_json(section.value)
    if not answer.sections:
        say("it is declared, and not published yet", err=True)


def _render_one(answer: ScopeExplanation, places: Places | None = None) -> None:
    say(f"{answer.node_id} {answer.scope}", bold=True)
    output.facts([*_rule(answer), *_published_facts(answer), *_who_holds(answer.holders)])
    if answer.sections:
        say()
        sections = ((section.name, section.size, _value(answer, section)) for section in answer.sections)
        output.table(("section", "bytes", "value"), sections, nothing="")
    if answer.entries:
        say()
        entries = answer.entries
        rows = (
            (_name(entry), _from(entry, places or {}), entry.because, STANDS.get(entry.stands, entry.stands))
            for entry in entries
        )
        output.table(("entry", "from", "because", "stands"), rows, nothing="")
        if len(entries) < answer.entries_total:
            say(f"{answer.entries_total - len(entries)} more: --most, or --section")


def _rule(answer: ScopeExplanation) -> Iterator[Fact]:
    may = "yes" if answer.may_hold else "no"
    yield "may hold", f"{may}: {answer.because} ({', '.join(answer.rules)})"
    for note in answer.notes:
        yield "note", note


def _published_facts(answer: ScopeExplanation) -> Iterator[Fact]:
    one = answer.published
    if one is not None:
        yield "version", f"{_version(one)}, document {one.snapshot_id}"
        yield "content", one.content_hash
        yield "published", f"{output.time(one.published_at)}, issued {one.issued_at}"
        yield "renewed", f"from {one.refresh_after}; expires {one.expires_at}"
        yield "made for", describe_audience(answer.scope, one.subject_node_id, one.roles, one.organization_ids)
        yield "with roles", one.roles
        yield "and organizations", one.organization_ids
        yield "needs bundle", one.min_trust_bundle_version
        for signer in one.signers:
            yield "signed by", _signer(signer)
        yield "signatures", f"{len(one.signers)}, of which {one.threshold} are asked for"
    yield "about to change", answer.differs


def _signer(signer: Signer) -> str:
    told = [signer.purpose, signer.status] if signer.purpose else ["not in the trust bundle"]
    until = [f"until {signer.not_after}"] if signer.not_after else []
    fault = [f"REFUSED: {signer.fault}"] if signer.fault else []
    return f"{signer.key_id} ({', '.join([*told, *until, *fault])})"


def _who_holds(holders: Holders) -> Iterator[Fact]:
    reported = holders.reported
    said = "" if reported is None else f": {_report(reported)}"
    yield "this node", f"{STANDINGS.get(holders.standing, holders.standing)}{said}"
    named, total = holders.others, holders.others_total
    more = f" and {total - len(named)} more" if total > len(named) else ""
    if total:
        yield "active also at", f"{', '.join(named)}{more} (the same content)"
    yield "announced also to", f"{holders.published_for} others" if holders.published_for else "nobody else"


def _report(reported: Reported) -> str:
    told = [f"version {_version(reported.active)}"] if reported.active else []
    told.append(f"reported {output.time(reported.at)} as {reported.state}")
    if reported.pending is not None:
        told.append(f"version {reported.pending} waits for its time")
    if reported.last_refused:
        told.append(f"last refused: {reported.last_refused}")
    return ", ".join(told)


def _version(one: Version | PublishedFacts | ReportedVersion | None) -> str:
    return "-" if one is None else f"{one.authority_epoch}.{one.config_version}"


def _value(answer: ScopeExplanation, section: ExplainedSection) -> str:
    if section.is_shown:
        return json.dumps(section.value, ensure_ascii=False)  # noqa: TID251 - an answer, no document
    return f"holdfastctl explain {answer.node_id} {answer.scope} --section {section.name}"


def _name(entry: EntryExplanation) -> str:
    return f"{entry.section}/{entry.entry}"


def _from(entry: EntryExplanation, places: Places) -> str:
    return ", ".join(_source(source, places) for source in entry.sources) or "-"


def _source(source: DeclaredSource, places: Places) -> str:
    place = places.get((source.kind, source.id)) or source.declared_in
    if place is None and source.kind != MEMBER:
        place = "not known until the next apply"
    return f"{source.kind} {source.id}" + (f" ({place})" if place else "")
