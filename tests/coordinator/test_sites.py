"""Sites: `init` makes one, the others exist while they are declared (rules K12, K13, K21; seed 002)."""

from coordinator.base.refusal import Code
from coordinator.database import catalog, cluster_state
from coordinator.database.database import Database
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.membership import admission
from coordinator.publishing import declarations
from tests.coordinator.candidates import NOW, TOKEN_KEY, Candidate, admit, contents, join, remove_node
from tests.coordinator.refusals import refused
from wire.operators.operator_answers import AllowlistEntry

HOW = {"actor": "alice", "now": NOW}
SITES = ("default", "east", "west")
THREE = "\n---\n".join(f"{{kind: Site, id: {each}, spec: {{description: {each}}}}}" for each in SITES)
NODE = "\n---\n{kind: Node, id: node-e, spec: {site: east}}"


def apply(database: Database, text: str, **options) -> declarations.ApplyPlan:
    return declarations.apply(database, {"a.yaml": text}, **{**HOW, **options})


def generations(database: Database) -> dict[str, int]:
    with database.read() as transaction:
        return cluster_state.site_generations(transaction)


def token(database: Database, now: float = NOW, **given) -> admission.TokenClaims:
    _, claims = admission.issue_token(database, TOKEN_KEY, **{**HOW, "lifetime_s": 600, "now": now, **given})
    return claims


def kept_up(database: Database) -> list[DeclaredProblem]:
    """Why a prune of everything but the default site is refused; nothing of it remains."""
    before = contents(database, "resources", "sites", "cluster", "audit")
    error = refused(apply, database, "{kind: Site, id: default}", prune=True)
    assert isinstance(error, InvalidResources)
    assert contents(database, "resources", "sites", "cluster", "audit") == before
    return list(error.problems)


def test_a_site_is_there_while_it_is_declared(cluster: Database) -> None:
    """rules K12"""
    assert generations(cluster) == {"default": 1}
    apply(cluster, THREE, dry_run=True)
    assert generations(cluster) == {"default": 1}
    apply(cluster, THREE)
    assert generations(cluster) == {"default": 2, "east": 1, "west": 1}
    apply(cluster, "{kind: Site, id: east}", prune=True)
    assert generations(cluster) == {"default": 3, "east": 2}
    actions = [row for row in contents(cluster, "audit")["audit"] if "'site." in row]
    assert len(actions) == 3 and all("alice" in row for row in actions)


def test_the_first_site_stays_whatever_is_declared(cluster: Database) -> None:
    """rules K12: what goes is its description."""
    apply(cluster, THREE)
    apply(cluster, "{kind: Organization, id: acme}", prune=True)
    assert list(generations(cluster)) == ["default"]
    assert admit(cluster, "node-a") and catalog.nodes(cluster)[0].site_id == "default"


def test_each_site_has_a_generation_of_its_own(cluster: Database) -> None:
    """rules K21, seed 002: what happens to one site's entries raises its generation alone."""
    apply(cluster, THREE)
    first = generations(cluster)
    admit(cluster, "node-e", site_id="east")
    joined = generations(cluster)
    assert {site for site in first if joined[site] > first[site]} == {"east"}
    apply(cluster, "{kind: Node, id: node-e, spec: {site: east, roles: [core_mesh]}}")
    changed = generations(cluster)
    assert {site for site in first if changed[site] > joined[site]} == {"east"}
    remove_node(cluster, "node-e", reason="moved", **HOW)
    left = generations(cluster)
    assert {site for site in first if left[site] > changed[site]} == {"east"}


def test_a_site_that_is_not_declared_is_refused_everywhere(cluster: Database) -> None:
    """rules K12, K13"""
    assert refused(token, cluster, site_id="east").code is Code.UNKNOWN_SITE
    assert refused(admission.allow, cluster, AllowlistEntry("node-e", site_id="east"), **HOW).code is Code.UNKNOWN_SITE
    error = refused(apply, cluster, "kind: Node\nid: node-e\nspec:\n  site: east\n")
    assert isinstance(error, InvalidResources)
    (problem,) = error.problems
    assert (problem.line, problem.field) == (4, "spec.site") and "declare the Site" in problem.remedy
    apply(cluster, THREE + NODE)
    assert token(cluster, site_id="east").site_id == "east"


def test_a_node_joins_the_site_of_its_token_and_no_other(cluster: Database) -> None:
    """rules K13, K17"""
    apply(cluster, THREE)
    node = Candidate("node-e")
    admission.allow(cluster, AllowlistEntry("node-e", site_id="east"), **HOW)
    for_west, _ = admission.issue_token(cluster, TOKEN_KEY, lifetime_s=600, site_id="west", **HOW)
    assert refused(join, cluster, node, for_west).code is Code.WRONG_SITE
    assert catalog.nodes(cluster) == []
    for_east, _ = admission.issue_token(cluster, TOKEN_KEY, lifetime_s=600, site_id="east", **HOW)
    assert join(cluster, node, for_east).outcome == "admitted"
    assert [(each.node_id, each.site_id) for each in catalog.nodes(cluster)] == [("node-e", "east")]


def test_what_is_declared_of_a_node_is_what_it_may_join_as(cluster: Database) -> None:
    """rules K13, H-000-1"""
    apply(cluster, THREE + "\n---\n{kind: Node, id: node-e, spec: {site: east, kind: witness}}")
    assert admission.declared_entry(cluster, "node-e") == AllowlistEntry("node-e", "witness", "east")
    assert admission.declared_entry(cluster, "other") == AllowlistEntry("other", "data", "default")
    assert token(cluster, node_id="node-e").site_id == "east"
    assert token(cluster, node_id="other").site_id == token(cluster).site_id == "default"
    assert refused(token, cluster, node_id="node-e", site_id="west").code is Code.CONTRADICTION
    admission.allow(cluster, AllowlistEntry("other", site_id="west"), **HOW)
    assert token(cluster, node_id="other").site_id == "west"


def test_a_site_does_not_go_while_somebody_stands_there(cluster: Database) -> None:
    """rules K12: a node, a member, an entry, an open token; each is named, with a remedy."""
    apply(cluster, THREE + NODE)
    error = refused(apply, cluster, "{kind: Node, id: node-e, spec: {site: east}}", prune=True)
    assert isinstance(error, InvalidResources) and [each.field for each in error.problems] == ["spec.site"]

    text, claims = admission.issue_token(cluster, TOKEN_KEY, lifetime_s=600, node_id="node-e", **HOW)
    admission.allow(cluster, AllowlistEntry("node-e", site_id="east"), **HOW)
    by_entry, by_token = kept_up(cluster)
    assert claims.jti in by_token.message and "tokens revoke" in by_token.remedy
    assert "node-e" in by_entry.message and "allow remove" in by_entry.remedy
    assert "Site east" in by_entry.file

    join(cluster, Candidate("node-e"), text)
    member, entry = kept_up(cluster)
    assert "nodes remove" in member.remedy and entry.message == by_entry.message
    remove_node(cluster, "node-e", reason="moved", **HOW)
    apply(cluster, "{kind: Site, id: default}", prune=True)
    assert list(generations(cluster)) == ["default"]


def test_a_token_that_is_good_for_nothing_keeps_no_site(cluster: Database) -> None:
    apply(cluster, THREE)
    token(cluster, site_id="east")
    revoked = token(cluster, site_id="west").jti
    admission.revoke_token(cluster, revoked, **HOW)
    assert [each.file for each in kept_up(cluster)] == ["(declared) Site east"]
    apply(cluster, "{kind: Site, id: default}", prune=True, now=NOW + 601)
    assert list(generations(cluster)) == ["default"]
    text, _ = admission.issue_token(cluster, TOKEN_KEY, lifetime_s=600, **HOW)
    assert join(cluster, allowed(cluster, "node-a"), text).outcome == "admitted"


def allowed(database: Database, node_id: str) -> Candidate:
    admission.allow(database, AllowlistEntry(node_id), **HOW)
    return Candidate(node_id)
