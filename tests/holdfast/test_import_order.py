"""The order in which files are handed in: each document meets what it is judged by."""

import pytest

from agent.base.byte_source import Chunks
from holdfast.node.import_order import in_order
from snapshot.reasons import Rejected
from tests.agent.bench import bench

CARRIED = ("trust_bundle", "head", "node_bootstrap", "node_runtime", "degraded_mode_policy", "route_policy")


@pytest.fixture
async def published(one):
    """All that a fresh node is to get."""
    one.server.snapshot({"node": {}}, "node_runtime")
    one.server.publish(one.cluster.trust_bundle(**one.server.times()))
    one.server.announce()
    return {scope: one.cluster.published[scope].to_bytes() for scope in CARRIED}


def written(folder, documents):
    """Under names whose order is the wrong one."""
    paths = [folder / f"{len(documents) - number}.hfs" for number in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_bytes(document)
    return sorted(paths)


async def test_bundles_the_head_what_establishes_roles_and_the_others(one, published, tmp_path, mock_clock):
    """rules S60: those that are no documents come last, for the agent to refuse"""
    files = [tmp_path / "0.hfs", *written(tmp_path, [one.server.bundles[0], *published.values()])]
    files[0].write_bytes(b"nonsense")
    found = in_order(files)
    assert found[-1].envelope is None
    envelopes = [carried.envelope for carried in found[:-1]]
    assert [envelope.scope for envelope in envelopes[:5]] == ["trust_bundle", *CARRIED[:4]]
    assert {envelope.scope for envelope in envelopes[5:]} == {*CARRIED[4:]}
    assert [envelope.config_version for envelope in envelopes[:2]] == [1, 2]


async def test_whose_it_is(one, published, tmp_path, mock_clock):
    (mine, *_) = in_order(written(tmp_path, [published["node_bootstrap"]]))
    assert mine.is_for(mine.envelope.subject_node_id)
    assert not mine.is_for("somebody-else")
    (shared, *_) = in_order(written(tmp_path, [published["trust_bundle"]]))
    assert shared.is_for("somebody-else")


async def test_a_fresh_node_has_everything_after_one_round(one, published, tmp_path, mock_clock):
    """rules S60, S86, A7: in the order of the names what needs a role is refused, and in this one nothing is"""
    files = written(tmp_path, published.values())
    async with bench(one) as made:
        await made.enrol()

        async def take(carried):
            chunks = Chunks(carried.path.read_bytes())
            return await made.outside.update.importing.take(chunks, carried.envelope.kind, "import")

        by_name = sorted(in_order(files), key=lambda carried: carried.path)
        with pytest.raises(Rejected):
            await take(by_name[0])
        assert [(await take(carried)).outcome for carried in in_order(files)] == ["activated"] * len(files)
        await made.node.note_check_in()
        assert made.node.standing().state == "active"
