"""A node's disk is damaged while it is off, and heals by itself: docs/operating.md, "A node's store is damaged"."""

import re

import pytest

from tests.journeys.gateway import declare


@pytest.fixture
def stopped(lab, gateway):
    """A node that has had version 1 and then 2, and is off."""
    declare(lab, 8081)
    gateway.join(8081)
    declare(lab, 8082)
    gateway.until(lambda: gateway.port() == 8082)
    gateway.kill()
    return gateway


def home(gateway):
    return gateway.folder / "state" / "clusters" / "prod"


def database(gateway):
    return home(gateway) / "store" / "data.mdb"


def certificate(lab):
    return lab.good("nodes", "show", "gateway", "--json").json["certificate_sha256"]


def told(lab):
    return {each["event"] for each in lab.good("nodes", "events", "gateway", "--json").json["events"]}


def check(gateway):
    return gateway.lab.holdfast("store", "check", "--root", gateway.folder / "state")


def test_what_a_dying_disk_leaves_is_set_aside_and_the_store_filled_again(lab, stopped):
    """rules L33, S63: who it is, whom it trusts and what it had accepted are not in what was lost"""
    before = certificate(lab)
    size = database(stopped).stat().st_size
    database(stopped).write_bytes(b"what a dying disk leaves".ljust(size, b"\0"))
    assert check(stopped).status != 0

    stopped.start()
    stopped.until(lambda: stopped.status["state"] == "active")
    stopped.until(lambda: stopped.port() == 8082)
    assert certificate(lab) == before
    stopped.until(lambda: "store_rebuilt" in told(lab))
    assert any((home(stopped) / "quarantine").iterdir())
    stopped.kill()
    assert check(stopped).status == 0


def test_a_port_that_nobody_signed_is_never_served(lab, stopped):
    """rules L29, S63: some bytes of an active section are others; without a coordinator the node does without it"""
    data = database(stopped).read_bytes()
    assert data.count(b'"port":8082') > 0
    database(stopped).write_bytes(data.replace(b'"port":8082', b'"port":6666'))
    assert check(stopped).status != 0
    lab.stop()

    stopped.start()
    assert b'"port":6666' in database(stopped).read_bytes()  # it is there, and is not what is served
    assert services(stopped).isdisjoint({"6666"}), stopped.log()
    assert "6666" not in stopped.ask("get", "service_assignment/web", "--json").out

    lab.start()
    stopped.until(lambda: stopped.status["state"] == "active" and services(stopped) == {"8082"}, hinted=True)


def services(gateway):
    """The ports in the files, as services read them."""
    texts = [path.read_text() for path in gateway.files("service_assignment@web")]
    return {port for text in texts for port in re.findall(r'"port":(\d+)', text)}
