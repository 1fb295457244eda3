"""What an operator asks about the coordinators of a cluster."""

import pytest

from coordinator.membership import replicas
from tests.coordinator.candidates import FOUNDING
from tests.coordinator.daemon import refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_replicas import SECOND


async def test_they_are_listed_and_one_that_is_gone_is_removed(founded: Founded) -> None:
    """rules K26: with the audit's word of who did it"""
    async with running(founded) as at:
        replicas.add(at.daemon.coordinator.database, SECOND, actor="root", now=founded.now)
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
