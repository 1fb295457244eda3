"""The first source lies, the second is honest: the lie is refused for its reason, and the truth arrives."""

from dataclasses import replace

import pytest

from snapshot import container
from tests.journeys.lab import Lab, lab

ROUTES = "route_policy"


def read(data):
    parts = container.ChunkParts([data])
    opening, manifest = parts.opening(), parts.manifest()
    return opening, manifest


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def broken_signature(data):
    opening, _ = read(data)
    return flipped(data, data.index(opening.signatures[0][1]))


LIES = {
    "cut": (lambda data, old: data[:-5], "bad_container"),
    "nothing": (lambda data, old: b"", "bad_container"),
    "a page": (lambda data, old: b"<html>please log in</html>", "bad_container"),
    "one more byte": (lambda data, old: data + b"\0", "bad_container"),
    "a false length": (lambda data, old: b"\x94\xc6\xff\xff\xff\xff", "too_large"),
    "an older version": (lambda data, old: old, "not_listed"),
    "another signature": (lambda data, old: broken_signature(data), "bad_signature"),
    "another section": (lambda data, old: flipped(data, len(data) - 3), "content_mismatch"),
    "another manifest": (lambda data, old: flipped(data, data.index(read(data)[1]) + 4), "content_mismatch"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_refused_and_the_next_source_asked(tmp_path, mock_clock, lie):
    """rules S28, S86, S46, S8, S53, S2, P6"""
    spoil, reason = LIES[lie]
    other = tmp_path / "honest"
    other.mkdir()
    async with lab(tmp_path, mock_clock) as one:
        honest = one.server.another(other)
        async with honest.running():
            urls = tuple(f"https://127.0.0.1:{port}" for port in (one.server.fleet_port, honest.fleet_port))
            settings = replace(one.settings, coordinator=replace(one.settings.coordinator, urls=urls))
            two = Lab(one.folder, one.clock, one.mock, one.server, settings)
            async with two.agent():
                await two.until_active(ROUTES, 1)
                old = two.cluster.published[ROUTES].to_bytes()
                new = two.server.snapshot({"routes": {"south": {"via": "b"}}}, ROUTES)
                one.server.spoil = lambda path, data: spoil(data, old) if new.envelope.snapshot_id in path else data
                two.server.announce()
                await two.until_active(ROUTES, 2)
                assert two.rejected(ROUTES) == reason
                assert f"GET /v1/documents/{new.envelope.snapshot_id}" in honest.requests
                found = await two.get("v1", "scopes", ROUTES, "sections", "routes")
                assert found == {"south": {"via": "b"}}
                assert not [held for held in two.node.store.pending() if held.scope == ROUTES], "nothing is left of it"
