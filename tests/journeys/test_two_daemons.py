"""Both daemons as processes over real TLS, as a user runs them: from an empty disk to a node that outlives its
coordinator. Publish, fetch, verify, activate, read."""

import signal

from tests.journeys.gateway import declare


def test_a_node_from_an_empty_disk_outlives_its_coordinator(lab, gateway):
    """rules A2, A3, A5, A10, A15, J12, K28, S2, S5, S71, L14"""
    declare(lab, 8081)

    gateway.start()
    fresh = gateway.ask("status")
    assert "UNENROLLED" in fresh.out
    assert "join" in fresh.out

    lab.good("allow", "add", "gateway")
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    gateway.until(lambda: gateway.status["state"] == "active" and gateway.port() == 8081)

    declare(lab, 8082)
    gateway.until(lambda: gateway.port() == 8082)

    lab.stop()
    gateway.kill()
    gateway.start()
    assert gateway.status["state"] == "active"
    assert gateway.port() == 8082
    assert gateway.ask("may", "approve_enrolment").status != 0

    lab.start()
    declare(lab, 8083)
    gateway.until(lambda: gateway.port() == 8083)


def test_the_agent_ends_when_it_is_told_to(lab, gateway):
    """rules A14: a signal ends it, in order."""
    gateway.start()
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(60) == 0, gateway.log()
    gateway.process = None
