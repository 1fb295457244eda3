"""What `make demo` shows on terminals of several sizes, and where there is none."""

import io
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from rich.console import Console

from examples.demo.screen import Screen, answers, now, span

SCOPES = (
    "degraded_mode_policy",
    "node_bootstrap",
    "node_runtime",
    "peer_directory",
    "qos_policy",
    "route_policy",
    "service_assignment/aurora-intranet",
    "storage_directory",
    "trust_bundle",
)
SHOWN = [name.replace("service_assignment/", "service ") for name in SCOPES]


def moment(**of):
    return (datetime.now(UTC) + timedelta(**of)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name, **status):
    active = {
        "authority_epoch": 1,
        "config_version": 12,
        "applied_at": moment(hours=-30),
        "expires_at": moment(days=90),
    }
    scope = {"active": {**active, "grade": "expired"}, "last_rejected": {"reason": "validator_refused", "at": moment()}}
    head = {"generation": 104, "expires_at": moment(seconds=9), "grade": "fresh"}
    return SimpleNamespace(
        node_id=name,
        status=lambda: {"state": "degraded", "head": head, "scopes": dict.fromkeys(SCOPES, scope), **status},
    )


def shown(screen, what):
    screen.console.file = io.StringIO()
    screen.console.print(what)
    return screen.console.file.getvalue()


def screen_of(width, height=60, *, terminal=True):
    screen = Screen()
    screen.console = Console(width=width, height=height, force_terminal=terminal, color_system=None, highlight=False)
    return screen


@pytest.mark.parametrize("width", [80, 90, 102, 105, 110, 200])
def test_the_table_fits_and_nothing_of_it_is_cut(width):
    screen = screen_of(width)
    text = shown(screen, screen.nodes([node("fra-svc-aurora-1")]))
    assert max(map(len, text.splitlines())) <= width
    for word in ("fra-svc-aurora-1", "degraded", "head", *SHOWN, "1.12", "30.0 h", "90.0 d", "expired", "REFUSED"):
        assert word in text, word
    assert text.count("validator_refused") == len(SCOPES)


@pytest.mark.parametrize("width", [80, 110])
def test_the_answers_fit(width):
    rows = [
        ("continue_services aurora-intranet", True, "ok", int(now()) + 597),
        ("approve_enrolment", False, "forbidden_in_degraded", None),
    ]
    text = shown(screen_of(width), answers(rows))
    assert max(map(len, text.splitlines())) <= width
    for word in ("continue_services aurora-intranet", "ANSWER", "forbidden_in_degraded", "FOR THE NEXT", "9 min 5"):
        assert word in text


def test_what_never_changes_is_shown_once():
    screen = screen_of(110, terminal=False)
    table = [node("a")]
    with screen.watching(lambda: screen.nodes(table)):
        pass
    assert "node_runtime" not in shown(screen, screen.nodes(table))
    assert "route_policy" in shown(screen, screen.nodes(table))


def test_a_low_terminal_gets_what_changes():
    nodes = [node(name) for name in "abc"]
    low, high = screen_of(110, 24), screen_of(110, 60)
    assert "node_runtime" not in shown(low, low.nodes(nodes))
    assert "node_runtime" in shown(high, high.nodes(nodes))


def test_a_node_that_does_not_answer_is_said_not_to_run():
    silent = SimpleNamespace(node_id="fra-core-1", status=dict)
    for width in (80, 110):
        screen = screen_of(width)
        text = shown(screen, screen.nodes([silent]))
        assert "fra-core-1" in text
        assert "not running" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (597, "9 min 57 s"), (7_200, "2.0 h"), (604_800, "7.0 d")]
)
def test_time_that_is_left_is_seen_to_become_less(seconds, text):
    assert span(seconds) == text
