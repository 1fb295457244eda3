"""`holdfastctl nodes`: what a node has told of itself, for people and for scripts."""

from holdfast.ctl.nodes import _render_events
from tests.holdfast.operator_lab import running
from wire.operators.fleet_answers import NodeEvents, ReportedEvent


def test_of_a_node_that_has_told_of_nothing(tmp_path):
    with running(tmp_path) as lab:
        assert "has told of nothing yet" in lab.good("nodes", "events", "n1").out
        assert lab.good("nodes", "events", "n1", "--json").json == {"node_id": "n1", "events": []}
        assert lab.ctl("nodes", "events", "n1", "--most", "0").status == 2


def test_events_are_lines_with_their_reasons(capsys):
    at, received_at = "2027-01-15T08:00:00Z", 1_800_000_000.0
    refused = ReportedEvent(2, "i1", at, "rejected", "route_policy", "step 5: bad_signature", received_at)
    changed = ReportedEvent(1, "i1", at, "state_changed", "", "active -> degraded", received_at)
    _render_events(NodeEvents("n1", (refused, changed)))
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.split() == ["2027-01-15T08:00:00Z", "rejected", "route_policy", "step", "5:", "bad_signature"]
    assert second.split()[1:3] == ["state_changed", "-"]
