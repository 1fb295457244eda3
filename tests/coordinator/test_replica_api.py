"""What an operator asks about the coordinators of a cluster."""

import pytest

from coordinator.setup import begin_history
from tests.coordinator import entered
from tests.coordinator.candidates import FOUNDING, contents
from tests.coordinator.daemon import refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_replicas import SECOND
from wire.version import VERSION


async def test_they_are_listed_and_one_that_is_gone_is_removed(founded: Founded) -> None:
    """rules K26: with the audit's word of who did it"""
    async with running(founded) as at:
        entered.add(at.daemon.coordinator.database, SECOND, actor="root", now=founded.now)
        answer = await at.ask("GET", "/v1/coordinators")
        assert answer["answering"] == FOUNDING.coordinator_id
        assert [each["coordinator_id"] for each in answer["coordinators"]] == [FOUNDING.coordinator_id, "coord-2"]
        assert answer["coordinators"][1]["certificate_sha256"] == SECOND.certificate_sha256
        assert await at.ask("DELETE", "/v1/coordinators/coord-2") == {"coordinator_id": "coord-2"}
        assert len((await at.ask("GET", "/v1/coordinators"))["coordinators"]) == 1
        entries = (await at.ask("GET", "/v1/audit"))["entries"]
        assert any((each["action"], each["subject"]) == ("coordinator.remove", "coord-2") for each in entries)


@pytest.mark.parametrize(
    ("name", "code"), [(FOUNDING.coordinator_id, "in_use"), ("coord-9", "not_found"), ("Coord", "not_found")]
)
async def test_one_always_stays(founded: Founded, name: str, code: str) -> None:
    async with running(founded) as at:
        before = await at.ask("GET", "/v1/coordinators")
        assert await refusal(at.ask("DELETE", f"/v1/coordinators/{name}")) == code
        assert await at.ask("GET", "/v1/coordinators") == before


async def test_what_each_says_of_itself_and_what_is_wrong(founded: Founded) -> None:
    """rules H20: and what was said is no link of the history, nor any change"""
    begin_history.begin(founded.configuration(), anew=False, actor="root", now=founded.now)
    async with running(founded) as at:
        database = at.daemon.coordinator.database
        before = contents(database, "audit", "transitions", "cluster")
        await at.daemon.own_report.note()
        assert contents(database, "audit", "transitions", "cluster") == before
        answer = await at.ask("GET", "/v1/coordinators/status")
        (own,) = answer["coordinators"]
        assert (own["coordinator_id"], own["state"], own["faults"]) == (answer["answering"], "ready", [])
        assert (own["link"], own["version"]) == (answer["newest"], VERSION)
        assert (answer["history"][:4], len(answer["manifest"])) == ("good", 64)
        entered.add(database, SECOND, actor="root", now=founded.now)
        at.daemon.readiness.reason = "the test says so"
        await at.daemon.own_report.note()
        states = {
            each["coordinator_id"]: (each["state"], each["faults"][0])
            for each in (await at.ask("GET", "/v1/coordinators/status"))["coordinators"]
        }
        assert states[FOUNDING.coordinator_id] == ("not_ready", "the test says so")
        assert states["coord-2"][0] == "unheard"
        await at.daemon.own_report.note(is_stopped=True)
        assert (await at.ask("GET", "/v1/coordinators/status"))["coordinators"][0]["state"] == "stopped"
