"""What is revoked stops at the node, and stays stopped: by the shipped programs, as docs/operating.md tells it."""

from tests.journeys.gateway import declare


def may(gateway):
    """Yes or no, and why."""
    answer = gateway.ask("may", "continue_services", "--resource", "web", "--json").json
    return answer["allowed"], answer["reason"]


def test_a_revoked_service_stops_and_comes_back(lab, gateway):
    """rules S60, S61, K28: within a head, over a restart without a coordinator, until it is taken back"""
    declare(lab, 8081)
    gateway.join(8081)
    assert may(gateway) == (True, "ok")

    unknown = lab.ctl("revoke", "service", "wbe", "--reason", "a slip", "--yes")
    assert unknown.status != 0
    assert "web" in unknown.err  # the names that there are
    assert may(gateway) == (True, "ok")

    lab.good("revoke", "service", "web", "--reason", "shut down", "--yes")
    gateway.until(lambda: may(gateway) == (False, "revoked"))
    assert gateway.ask("may", "start_service", "--resource", "web").status == 1
    assert gateway.status["state"] == "active"  # the node goes on
    assert gateway.port() == 8081  # and its files say what is declared

    lab.stop()
    gateway.kill()
    gateway.start()
    assert may(gateway) == (False, "revoked")

    lab.start()
    assert "web" in lab.good("revoke", "list").out
    lab.good("revoke", "restore", "service_ids", "web", "--yes")
    gateway.until(lambda: may(gateway) == (True, "ok"), hinted=True)
