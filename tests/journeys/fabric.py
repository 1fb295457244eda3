"""What is compiled from examples/fabric for each of its nodes, counted, as the tables of docs/fabric.md show it.

`python -m tests.journeys.fabric` prints the tables.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from coordinator.declared import resources, views
from coordinator.declared.assignment import is_projected, runs
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.increments import changes
from coordinator.declared.kinds import Node, Route, RouteMatch, Service
from coordinator.declared.model import MemberEntry, Model, selects
from holdfast.ctl import declared_files
from snapshot import canonical
from snapshot.identifiers import Scope
from tests.citations import ROOT

FABRIC = ROOT / "examples" / "fabric"
CERTIFICATE_BYTES = 480  # of a node's certificate; real ones differ by a few
ROUTES = Scope("route_policy")
COUNTED = ("route_policy", "service_assignment", "peer_directory", "qos_policy", "storage_directory")

LISTS = ("routes.", "services", "peers.", "policies", "endpoints")  # sections that are maps of what is counted


def model(folder: Path = FABRIC) -> Model:
    """The declared state, every declared node a member."""
    declared = resources.read(declared_files.read([folder]))
    resources.check(declared, {}, "fabric")
    kept = {key: each.resource for key, each in declared.items()}
    nodes = [each for each in kept.values() if isinstance(each, Node)]
    certificate = b"\0" * CERTIFICATE_BYTES
    members = {each.id: MemberEntry(each.id, each.kind, each.site, (certificate,)) for each in nodes}
    return Model("fabric", kept, members)


def entries(content: ScopeContent) -> int:
    """Of routes, services, peers, policies or endpoints, over all sections of a scope."""
    return sum(len(canonical.loads(data)) for name, data in content.sections.items() if name.startswith(LISTS))


def groups(of: Model) -> dict[tuple[str, str], list[str]]:
    """Nodes by (roles, organizations)."""
    found: dict[tuple[str, str], list[str]] = {}
    for subject in of.subjects.values():
        found.setdefault((" + ".join(subject.roles), ", ".join(subject.organizations)), []).append(subject.node_id)
    return dict(sorted(found.items()))


def scope_table(of: Model) -> list[str]:
    """For each group of nodes: how many entries a scope has, and its size."""
    lines = [_row("roles", "serves", "nodes", *(f"`{name}`" for name in COUNTED)), _row(*["---"] * (3 + len(COUNTED)))]
    for (roles, organizations), node_ids in groups(of).items():
        cells = [_cell(of, node_ids, scope_type) for scope_type in COUNTED]
        lines.append(_row(roles, organizations, str(len(node_ids)), *cells))
    return lines


def _cell(of: Model, node_ids: list[str], scope_type: str) -> str:
    held = [_contents(of, each, scope_type) for each in node_ids if scope_type in views.scope_types(of.subjects[each])]
    if not held:
        return "-"
    sizes = [sum(len(section) for each in contents for section in each.sections.values()) for contents in held]
    return f"{_span([sum(map(entries, contents)) for contents in held])} ({_span(sizes)} bytes)"


def _contents(of: Model, node_id: str, scope_type: str) -> list[ScopeContent]:
    """Of one scope, or of one for each service."""
    scopes = views.scopes_of_type(of, of.subjects[node_id], scope_type)
    return [compile_scope(of, node_id, scope) for scope in scopes]


def service_table(of: Model) -> list[str]:
    """For each service: who is told all of it, who its exposed endpoints alone."""
    lines = [_row("service", "told all of it", "told its exposed endpoints"), _row(*["---"] * 3)]
    for service in of.of(Service):
        run = [each.node_id for each in of.subjects.values() if runs(service, each)]
        told = [each for each in of.subjects.values() if is_projected(service, each) and each.node_id not in run]
        nobody = "nobody"
        shown = f"{len(told)} ingress nodes of {service.organization}" if told else nobody
        lines.append(_row(f"`{service.id}`", ", ".join(run) or nobody, shown))
    return lines


def policy_table(of: Model) -> list[str]:
    """For each degraded mode policy: whose it is."""
    counted: dict[str, int] = {}
    for subject in of.subjects.values():
        policy = next(each for each in of.degraded_policies if selects(each.applies_to, subject))
        counted[policy.id] = counted.get(policy.id, 0) + 1
    lines = [_row("policy", "nodes", "goes on for", "after a restart"), _row(*["---"] * 4)]
    for policy in of.degraded_policies:
        after = "too" if policy.allow_unconfirmed_start else "not"
        lines.append(_row(policy.id, str(counted.get(policy.id, 0)), f"{policy.max_duration_s / 3600:g} h", after))
    return lines


def one_more_route(of: Model) -> Model:
    """A second name for the intranet, as the demonstration declares it."""
    first = of.resources["Route", "aurora-intranet"]
    match = RouteMatch(hosts=("portal.aurora.example",), path_prefix="/", protocol="http")
    second = replace(first, id="aurora-portal", match=match)
    assert isinstance(second, Route)
    return replace(of, resources={**of.resources, second.key: second})


def cost_table(of: Model) -> list[str]:
    """What one more route costs: the nodes whose scope changes, the sections, the bytes that travel."""
    after = one_more_route(of)
    lines = [_row("roles", "serves", "nodes", "sections changed", "of", "bytes that travel", "of"), _row(*["---"] * 7)]
    for (roles, organizations), node_ids in groups(of).items():
        deltas = [each for node_id in node_ids if (each := _delta(of, after, node_id))]
        if deltas:
            columns = [_span(list(column)) for column in zip(*deltas, strict=True)]
            lines.append(_row(roles, organizations, str(len(deltas)), *columns))
    return lines


def _delta(of: Model, after: Model, node_id: str) -> tuple[int, int, int, int] | None:
    if ROUTES.type not in views.scope_types(of.subjects[node_id]):
        return None
    old, new = compile_scope(of, node_id, ROUTES), compile_scope(after, node_id, ROUTES)
    found = changes(old.entries, old.sections.__getitem__, new.sections)
    if not found.changes:
        return None
    brought = sum(map(len, found.brought.values()))
    return len(found.changes), len(new.sections), brought, sum(map(len, new.sections.values()))


def _span(values: list[int]) -> str:
    low, high = f"{min(values):,}", f"{max(values):,}"
    return low if low == high else f"{low} to {high}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def tables() -> Iterator[list[str]]:
    of = model()
    yield from (scope_table(of), service_table(of), policy_table(of), cost_table(of))


if __name__ == "__main__":
    for table in tables():
        print("\n".join(table), end="\n\n")
