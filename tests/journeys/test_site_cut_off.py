"""A site whose link is cut: a laptop carries what is published to it."""

import signal

from tests.journeys.gateway import until_published
from tests.journeys.site import PORT, SiteLab, site
from tests.journeys.test_site import MB, content

NAMES = ["n1", "n2", "n3", "n4"]


def enter(made: SiteLab) -> None:
    """All are members, have the same, and know each other."""
    made.declare(b"first")
    made.join()
    made.until_held(b"first")


def versions(made: SiteLab) -> dict[str, dict[str, tuple[int, str]]]:
    """What each node runs, and from where it came."""
    found = {}
    for name, node in made.nodes.items():
        status = node.status
        active = {scope: held["active"] for scope, held in status["scopes"].items() if held["active"]}
        found[name] = {
            scope: (held["config_version"], status["origins"].get(scope, {}).get("source", ""))
            for scope, held in active.items()
        }
    return found


def counted(made: SiteLab, name: str) -> dict[str, int]:
    return {node_id: node.status["counters"].get(name, 0) for node_id, node in made.nodes.items()}


def test_a_laptop_carries_a_change_to_a_hall_without_a_link(tmp_path):
    """rules K3, K5, X28: the hall was switched off and on meanwhile; the stick goes to one node, which is no relay, and
    reaches all; a second one to another node; the same stick once more changes nothing; then the link is back
    """
    with site(tmp_path, NAMES, relays=["n1"]) as made:
        enter(made)
        made.cut(*NAMES)
        for node in made.nodes.values():
            node.kill()
        for node in made.nodes.values():
            node.start()
        for turn, name in enumerate(["n3", "n1"]):
            data = content(MB, turn)
            made.declare(data)
            until_published(made.lab)
            stick = tmp_path / f"stick-{turn}"
            made.lab.good("publish", "--to", stick)
            handed = made.nodes[name].ask("import", *sorted(stick.rglob("*.hfs")))
            assert handed.status == 0, handed
            times = made.until_held(data)
            assert set(times) == set(NAMES)
        others = {origin for node in ("n2", "n3", "n4") for scope, (_, origin) in versions(made)[node].items()}
        assert any(f":{PORT}" in origin for origin in others)
        assert not any(made.link.here in origin for origin in others if origin.endswith(str(PORT)))
        before, fetched = versions(made), counted(made, "documents_asked_for")
        assert made.nodes["n3"].ask("import", *sorted(stick.rglob("*.hfs"))).status == 0
        made.mend(*NAMES)
        for node in made.nodes.values():
            node.process.send_signal(signal.SIGHUP)
        made.until(lambda: all(answered(node) for node in made.nodes.values()))
        assert versions(made) == before
        assert counted(made, "documents_asked_for") == fetched


def answered(node) -> bool:
    """Whether a coordinator does, after it was asked in vain."""
    rows = [row for row in node.status["sources"] if row["kind"] == "coordinator"]
    return all(row["failures"] == 0 for row in rows) and node.status["state"] == "active"
