"""What is active, seen at one moment; grades by the head and by each scope's own expiry."""

import pytest

from agent.state.view import Grade, Views
from tests.agent.lab import DAY, NOW


@pytest.fixture
def view(periphery):
    periphery.apply(periphery.node.cluster.head(2, expires_at=NOW + 600, refresh_after=NOW + 300))
    periphery.route(1, {"routes": {}}, expires_at=NOW + 300, refresh_after=NOW + 100)
    return periphery.views.all()


def test_the_head_is_none_of_the_scopes(view, periphery):
    assert view.scopes.keys() == {"trust_bundle", "node_bootstrap", "route_policy"}
    assert view.head.document.envelope.config_version == 2
    assert view.generation == periphery.node.store.watch.generation


@pytest.mark.parametrize(
    ("now", "scope", "of_the_node"),
    [
        (NOW, Grade.FRESH, Grade.FRESH),
        (NOW + 299.9, Grade.FRESH, Grade.FRESH),
        (NOW + 300, Grade.EXPIRED, Grade.FRESH),
        (NOW + 600, Grade.EXPIRED, Grade.STALE),
        (NOW + 8 * DAY, Grade.EXPIRED, Grade.EXPIRED),
    ],
)
def test_grades(view, now, scope, of_the_node):
    """rules S16: a scope's expiry is its own; half-open, at `expires_at` it is over."""
    assert view.grade_of(view.scopes["route_policy"], now) is scope
    assert view.grade(now) is of_the_node


def test_the_next_expiry(view):
    assert view.next_expiry(NOW) == NOW + 300
    assert view.next_expiry(NOW + 300) == NOW + 600
    assert view.next_expiry(NOW + 1000 * DAY) is None


def test_a_view_keeps_the_generation_that_it_was_read_at(periphery):
    """rules P3, X17: through three swaps."""
    periphery.route(1, {"routes": {"first": {}}})
    before = periphery.views.all()
    for version in (2, 3, 4):
        periphery.route(version, {"routes": {str(version): {}}})
    assert before.scopes["route_policy"].document.read("routes") == b'{"first":{}}'
    assert periphery.views.all().scopes["route_policy"].document.read("routes") == b'{"4":{}}'
    assert periphery.views.previous("route_policy").version == (1, 3)


def test_one_scope_alone(periphery):
    periphery.route(1, {"routes": {}})
    alone = Views(periphery.node.store).scope("route_policy")
    assert alone.scopes.keys() == {"route_policy"}
    assert alone.head is not None
    assert Views(periphery.node.store).scope("qos_policy").scopes == {}


def test_what_is_at_hand_is_what_a_reading_would_give(periphery):
    """rules P3, P4: whatever is committed, a head too, takes it away"""
    views = periphery.views
    periphery.route(1, {"routes": {}})
    assert views.at_hand() is None
    seen = views.all()
    assert views.at_hand() is seen
    assert views.all() is seen, "nothing is read twice that nobody has changed"
    assert views.scope("route_policy").generation == seen.generation
    periphery.apply(periphery.node.cluster.head(2))
    assert views.at_hand() is None
    assert views.all().head.document.envelope.config_version == 2
    periphery.node.store.journal.record("degraded", NOW)
    assert views.at_hand() is None


@pytest.mark.parametrize(("setting", "fresh_s"), [({}, DAY), ({"head_fresh_s": 600}, 600)])
def test_a_head_is_fresh_for_a_day_at_most_whatever_it_says(periphery, setting, fresh_s):
    """rules S16, S57: counted from its `issued_at`; a setting may make it less"""
    periphery.apply(periphery.node.cluster.head(2, expires_at=NOW + 900 * DAY, refresh_after=NOW + 300))
    view = Views(periphery.node.store, **setting).all()
    end = view.head.document.envelope.issued_at + fresh_s
    assert view.head.expires_at == end
    assert (view.head_is_fresh(end - 0.1), view.head_is_fresh(end)) == (True, False)
    assert (view.grade(end - 0.1), view.grade(end)) == (Grade.FRESH, Grade.STALE)
    assert view.next_expiry(NOW) == end
    periphery.apply(periphery.node.cluster.head(3, expires_at=NOW + 100, refresh_after=NOW + 50))
    assert Views(periphery.node.store, **setting).all().head.expires_at == NOW + 100, "never longer than it says"
