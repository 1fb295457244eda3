"""A node says what of it ends: its trust bundle, its certificate, the CA of its coordinators."""

import pytest

from snapshot.ending import Urgency
from tests.agent.bench import bench
from tests.fakes.cluster import DAY
from tests.logs import capture_logs
from wire.certificate import make_authority


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


async def said(made) -> list[str]:
    """Of what the log is told at one look."""
    with capture_logs() as logs:
        await made.outside.certificate_ends.look()
    return [f"{each['log_level']} {each['what']}" for each in logs if each["event"] == "ends"]


def ends(made) -> dict[str, str]:
    return {each.what: each.urgency for each in made.inside.front.report().ends}


async def test_all_three_are_in_the_report_and_nothing_is_said_at_first(made, mock_clock):
    assert await said(made) == []
    assert ends(made) == {"trust_bundle": "fine", "node_certificate": "fine", "ca_certificate": "fine"}
    assert all(each.then and each.remedy for each in made.inside.front.report().ends)


async def test_the_bundles_end_is_said_from_a_third_before_it_and_once_a_day(made, mock_clock):
    made.lab.clock.wall_offset_s = 61 * DAY
    assert await said(made) == ["warning trust_bundle"]
    assert ends(made)["trust_bundle"] == Urgency.SOON
    made.lab.clock.wall_offset_s = 61.5 * DAY
    assert await said(made) == []
    made.lab.clock.wall_offset_s = 62.5 * DAY
    assert await said(made) == ["warning trust_bundle"]
    made.lab.clock.wall_offset_s = 91 * DAY
    assert await said(made) == ["error trust_bundle"]
    assert ends(made)["trust_bundle"] == Urgency.ENDED


async def test_a_new_ca_beside_the_old_one_is_read_without_a_restart(made, mock_clock):
    await said(made)
    file = made.node.settings.coordinator.ca_file
    file.write_bytes(file.read_bytes() + make_authority("next", made.node.now()).certificate_pem)
    await said(made)
    found = [each for each in made.inside.front.report().ends if each.what == "ca_certificate"]
    assert len(found) == 2 and all(str(file) in each.remedy for each in found)


async def test_a_file_that_cannot_be_read_leaves_the_others(made, mock_clock):
    made.node.settings.coordinator.ca_file.write_bytes(b"no certificate")
    await said(made)
    assert ends(made).keys() == {"trust_bundle", "node_certificate"}


async def test_a_certificate_that_missed_its_renewal_is_said(made, mock_clock):
    """rules K48"""
    await said(made)
    (own,) = [each for each in made.outside.certificate_ends.certificates if each.what == "node_certificate"]
    lifetime = own.ends - own.begins
    assert own.urgency(own.begins + 0.85 * lifetime, within_s=365 * DAY) is Urgency.FINE
    assert own.urgency(own.begins + 0.91 * lifetime) is Urgency.SOON
