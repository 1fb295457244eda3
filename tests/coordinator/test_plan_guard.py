"""Whether a plan changes more than anybody usually means: what is found, on how many nodes, the worst of it first."""

from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.configs import compiled_contents
from coordinator.configs.compiled_pairs import compiled_pairs
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.compiler import Audience, ScopeContent
from coordinator.declared.contents import read_none
from coordinator.declared.kinds import Node, PeerPolicy
from coordinator.expected.plan_guard import PlanGuard
from snapshot import blast_radius, canonical
from snapshot.blast_radius import ConsumerLimits, GuardRule
from snapshot.config_files import FILES
from snapshot.identifiers import Scope
from tests.coordinator.models import model
from tests.examples import examples
from tests.fakes.config_document import FileContent, config_sections

ROUTES = Scope("route_policy")
EDGE = Scope("config", ("edge",))


def routes(count, ttl_s=60):
    entries = {f"r{number}": {"ttl_s": ttl_s} for number in range(count)}
    return ScopeContent(ROUTES, Audience(), {"routes": canonical.dumps(entries)}, is_shared=True)


def folder(**files):
    made = config_sections({path: FileContent(data) for path, data in files.items()})
    return ScopeContent(EDGE, Audience(), made.sections, frozenset(made.sections) - {FILES}, is_shared=True)


def judged(pairs, members=100, limits=None):
    guard = PlanGuard(members, limits or {})
    for pair in pairs:
        guard.look(*pair)
    return guard.findings


def told(pairs, **more):
    return [(found.scope, found.excess.rule, found.nodes, found.example) for found in judged(pairs, **more)]


def test_the_same_on_many_nodes_is_one_finding():
    pairs = [(f"n{number}", ROUTES, routes(20), routes(10)) for number in range(40)]
    (found,) = judged(pairs)
    assert found.words == (
        "route_policy of n0 and 39 more: 10 of 20 entries removed (50 %); at most 30 % at a time, from 10 on"
    )


def test_the_worst_is_first():
    pairs = [
        ("n3", ROUTES, routes(20), routes(13)),
        ("n2", ROUTES, routes(20), routes(0)),
        ("n1", EDGE, folder(a=b"x"), folder(a=b"")),
        ("n0", EDGE, folder(a=b"x" * 20_000), folder(a=b"x" * 80_000)),
    ]
    assert told(pairs) == [
        ("config/edge", GuardRule.GROWN, 1, "n0"),
        ("config/edge", GuardRule.EMPTIED, 1, "n1"),
        ("route_policy", GuardRule.REMOVED, 1, "n2"),
        ("route_policy", GuardRule.EMPTIED, 1, "n2"),
        ("route_policy", GuardRule.REMOVED, 1, "n3"),
    ]


@pytest.mark.parametrize(
    ("losers", "members", "is_found"), [(30, 100, False), (31, 100, True), (2, 2, False), (3, 3, True), (3, 10, False)]
)
def test_nodes_that_lose_a_scope(losers, members, is_found):
    """More than 30 % of all, and at least three: one of two that goes is no incident."""
    pairs = [(f"n{number}", ROUTES, routes(3), None) for number in range(losers)]
    found = judged(pairs, members=members)
    assert [one.excess.rule for one in found] == [GuardRule.WITHDRAWN] * is_found
    if found:
        assert f"{losers} of {members} nodes would lose a scope" in found[0].words


def test_a_node_that_loses_two_scopes_is_one_node():
    pairs = [(f"n{number}", scope, routes(3), None) for number in range(3) for scope in (ROUTES, EDGE)]
    assert told(pairs, members=10) == []
    assert told(pairs, members=9) == [("config/edge, route_policy", GuardRule.WITHDRAWN, 3, "n0")]


def test_what_a_service_can_take_is_judged_for_its_node_alone():
    """The table of features that was twice as long as the proxy had room for (Cloudflare, November 2025)."""
    limits = {"n1": {"route_policy": ConsumerLimits(entries=200)}, "n2": {"route_policy": ConsumerLimits(bytes=9_999)}}
    pairs = [(f"n{number}", ROUTES, routes(150), routes(260)) for number in range(3)]
    (found,) = judged(pairs, limits=limits)
    assert found.words == "route_policy of n1: 260 entries; at most 200 by what a service there says"


def test_limits_of_another_scope_are_none_of_this_one():
    limits = {"n1": {"config/edge": ConsumerLimits(entries=1)}}
    assert judged([("n1", ROUTES, routes(3), routes(4))], limits=limits) == []


def test_a_fleet_that_is_told_otherwise_node_by_node_is_never_in_memory_as_a_whole(monkeypatch):
    """Of 10,000 nodes the directories before and after would be gigabytes."""
    monkeypatch.setattr(compiled_contents, "MOST_BYTES", 64 << 10)
    nodes = [Node(f"n{number}", roles=("core_mesh",)) for number in range(120)]
    before, after = model(*nodes), model(*nodes, PeerPolicy("few", most=5))
    touched = affected_scopes(before, after)
    assert len(touched) >= len(nodes)
    guard, held, most = PlanGuard(len(nodes)), [], 0
    for pair in compiled_pairs(lambda _: before, lambda _: after, touched, read_none):
        guard.look(*pair)
        held = [each for each in held if each() is not None] + [ref(pair.before), ref(pair.after)]
        most = max(most, len(held))
    assert guard.findings and 2 < most < len(nodes)


def test_what_many_are_told_alike_is_judged_once(monkeypatch):
    compared = []
    compare = blast_radius.compare
    monkeypatch.setattr(blast_radius, "compare", lambda *given: compared.append(given) or compare(*given))
    alike = [(f"n{number}", ROUTES, routes(20), routes(19)) for number in range(9)]
    assert judged([*alike, ("n9", ROUTES, routes(20), routes(18))]) == []
    assert len(compared) == 2


# ---- the verdict follows from the plan alone

ENTRIES = st.dictionaries(st.sampled_from([f"m{number}" for number in range(14)]), st.integers(0, 2), max_size=14)
CONTENTS = st.dictionaries(st.sampled_from(["routes.00", "routes.3f", "entry_policies"]), ENTRIES, max_size=3)
PLANS = st.lists(st.tuples(CONTENTS, st.none() | CONTENTS), max_size=8)


def pairs_of(plan, names):
    def content(sections):
        return ScopeContent(ROUTES, Audience(), {name: canonical.dumps(value) for name, value in sections.items()})

    return [
        (names[number], ROUTES, content(before), None if after is None else content(after))
        for number, (before, after) in enumerate(plan)
    ]


def without_names(found):
    return [(one.scope, one.excess, one.nodes, one.of_service) for one in found]


@examples(150)
@given(PLANS, st.permutations(range(8)), st.permutations(range(8)), st.integers(0, 3))
def test_order_node_ids_and_repetition_change_nothing(plan, order, ids, again):
    names = [f"n{number}" for number in range(8)]
    wanted = without_names(judged(pairs_of(plan, names), members=8))
    others = pairs_of(plan, [f"x{number}" for number in ids])
    shuffled = [others[number] for number in order if number < len(others)]
    assert without_names(judged([*shuffled, *shuffled[:again]], members=8)) == wanted


@examples(150)
@given(PLANS)
def test_a_plan_that_is_fine_on_each_node_is_fine(plan):
    """But for how many lose something, which only the whole says."""
    pairs = pairs_of(plan, [f"n{number}" for number in range(8)])
    alone = [judged([pair], members=8) for pair in pairs]
    together = [found for found in judged(pairs, members=8) if found.excess.rule != GuardRule.WITHDRAWN]
    assert bool(together) == any(alone)
