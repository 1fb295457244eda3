"""`holdfastctl fleet`, for people: who has refused what, and until when it goes on with what."""

import json

from holdfast.ctl.fleet import _render_fleet
from wire.operators.fleet_answers import Fleet

REFUSED = {
    "node_id": "gateway",
    "scope": "service_assignment/web",
    "refused": "1.7",
    "content_hash": "sha256:ab",
    "since": 1_800_000_000.0,
    "reason": "validator_refused",
    "step": 12,
    "detail": "web: a port is missing",
    "runs": "1.6",
    "good_until": 1_800_604_800,
    "withheld": "",
}
ANSWER = {
    "at": 1_800_000_000.0,
    "versions": {},
    "stragglers_total": 0,
    "members": 1,
    "data_members": 1,
    "baseline_shortfall": 0,
    "restored_backup": "",
    "states": {"active": 1},
    "grades": {"fresh": 1},
    "lag_versions": {},
    "seconds_since_seen": {},
    "rejected_joins": {},
    "stragglers": [],
    "refusals": [REFUSED],
    "refusals_total": 1,
    "roots_unconfirmed": [],
    "roots_unconfirmed_total": 0,
    "held_back": [],
    "held_back_total": 0,
}


def lines(capsys, **changes: object) -> str:
    _render_fleet(Fleet.read(json.dumps({**ANSWER, **changes}).encode()))
    return " ".join(capsys.readouterr().out.split())


def test_a_refusal(capsys) -> None:
    said = lines(capsys)
    assert "gateway service_assignment/web 1.7 2027-01-15T08:00:00Z validator_refused: web: a port is missing" in said
    assert said.endswith("1.6 2027-01-22T08:00:00Z")


def test_what_is_not_renewed_says_why(capsys) -> None:
    said = lines(capsys, refusals=[{**REFUSED, "withheld": "it names what was revoked: web"}])
    assert said.endswith("1.6 2027-01-22T08:00:00Z, NOT renewed: it names what was revoked: web")


def test_where_nothing_runs(capsys) -> None:
    assert lines(capsys, refusals=[{**REFUSED, "runs": None, "good_until": None}]).endswith("nothing -")


def test_more_than_are_named_are_counted(capsys) -> None:
    assert lines(capsys, refusals_total=81).endswith("and 80 more")


def test_nodes_whose_agents_are_too_old_are_named(capsys) -> None:
    said = lines(capsys, held_back=["n-1", "n-2"], held_back_total=70)
    assert "not given all, agent too old n-1, n-2 and 68 more: holdfastctl explain NODE" in said
    assert "too old" not in lines(capsys)


def test_it_is_counted_by_change(capsys) -> None:
    counts = {"touched": 40, "given": 4, "active": 3, "refused": 1, "silent": 0, "reverted": 1, "offline": 2}
    change = {
        **dict.fromkeys(("actor", "why", "plan_hash", "immediately"), ""),
        **dict.fromkeys(("reverts", "waits_for", "superseded_by", "settled_at")),
        **dict.fromkeys(("at", "approvals", "approvals_needed", "resources"), 0),
        "change": "c-7",
        "state": "rolling",
        "message": "a new list",
        "counts": counts,
        "courses": [],
        "allowed": False,
        "revision": 1,
    }
    assert "c-7 rolling 4/40 3/40 2 2 a new list" in lines(capsys, changes=[change])
    assert "has it" not in lines(capsys)


def test_none_is_no_table(capsys) -> None:
    assert "has refused" not in lines(capsys, refusals=[], refusals_total=0)


def test_nodes_of_a_first_use_are_named(capsys) -> None:
    """threats D-19"""
    assert "root keys not confirmed" not in lines(capsys)
    said = lines(capsys, roots_unconfirmed=["gw-1", "gw-2"], roots_unconfirmed_total=7)
    assert "root keys not confirmed gw-1, gw-2 and 5 more: holdfast trust confirm there" in said


KEEPS = {"for_nodes": ["b", "c"], "heads": 1, "documents": 7, "bytes": 3 << 20, "most_bytes": 1 << 30, "is_relay": True}


def test_from_where_versions_came_and_who_relays(capsys) -> None:
    came = [{"way": "coordinator", "versions": 12, "nodes": 4}, {"way": "relay", "versions": 3, "nodes": 1}]
    relay = {"node_id": "ulm-1", "site_id": "ulm", "taken_by": 1, "keeps": KEEPS}
    said = lines(capsys, came_from=came, relays=[relay], relays_total=3)
    assert "versions came from coordinator 12 (on 4 nodes), relay 3 (on 1 node)" in said
    assert "ulm-1 ulm relay 2 nodes 1 7 3 MiB of 1 GiB 1 node and 2 more" in said


def test_who_is_behind_and_for_how_long(capsys) -> None:
    late = {
        "node_id": "b",
        "reason": "late: route_policy",
        "seconds_since_seen": 4,
        "versions_behind": 2,
        "behind_s": 90,
    }
    never = {"node_id": "c", "reason": "unseen", "seconds_since_seen": None}
    said = lines(capsys, stragglers=[late, never], stragglers_total=2)
    assert "b late: route_policy 2 1 min 30 s 4 s ago c unseen - - never" in said
