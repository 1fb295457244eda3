"""`holdfast import`."""

import json
from pathlib import Path

import pytest

from tests.fakes.config_document import FileContent, config_sections
from tests.holdfast.lab import holdfast
from wire.client import Call, ClientError, HttpClient, UnixConnector


async def test_a_good_document_and_a_broken_one(api, tmp_path):
    """rules S60: a document from another medium, verified as any other."""
    document = b"".join(api.node.cluster.snapshot(2, {"routes": {}}).chunks())
    (tmp_path / "good.hfs").write_bytes(document)
    done = await holdfast("import", tmp_path / "good.hfs", "--json", at=api)
    assert (done.status, json.loads(done.out)["scope"]) == (0, "route_policy")
    assert api.taken == [document]
    foreign = api.node.cluster.snapshot(3, {"routes": {}}, cluster_id="elsewhere")
    (tmp_path / "bad.hfs").write_bytes(b"".join(foreign.chunks()))
    refused = await holdfast("import", tmp_path / "bad.hfs", at=api)
    assert (refused.status, refused.out) == (1, "")
    assert "refused at step 2: wrong_cluster" in refused.err
    assert "to do" in refused.err


async def test_a_config_from_a_stick(api, tmp_path):
    """rules S60: raw sections are verified as they come"""
    made = config_sections({"nginx.conf": FileContent(bytes(range(256)))}, 100)
    document = api.node.cluster.snapshot(1, made.sections, "config", scope_ids=("web",), raw=made.raw)
    data = b"".join(document.chunks())
    (tmp_path / "web.hfs").write_bytes(data)
    done = await holdfast("import", tmp_path / "web.hfs", "--json", at=api)
    assert (done.status, json.loads(done.out)["scope"]) == (0, "config/web")
    (tmp_path / "bad.hfs").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused = await holdfast("import", tmp_path / "bad.hfs", at=api)
    assert (refused.status, "step 6: content_mismatch" in refused.err) == (1, True), refused.err


async def test_many_in_whatever_order(api, tmp_path):
    """rules S60: what one is judged by goes first; what is of other nodes is passed over, what is wrong is said"""
    cluster = api.node.cluster
    late = cluster.snapshot(2, {"routes": {}})
    early = cluster.snapshot(2, {"cluster": {}}, scope="node_bootstrap", subject_node_id="node-1")
    other = cluster.snapshot(2, {"cluster": {}}, scope="node_bootstrap", subject_node_id="node-2")
    foreign = cluster.snapshot(3, {"routes": {}}, cluster_id="elsewhere")
    names = {"a": late, "b": foreign, "c": other, "d": early}
    for name, document in names.items():
        (tmp_path / name).write_bytes(b"".join(document.chunks()))
    done = await holdfast("import", *(tmp_path / name for name in names), at=api)
    assert api.taken == [b"".join(document.chunks()) for document in (early, late, foreign)]
    assert done.status == 1
    assert f"{tmp_path / 'b'}: refused at step 2: wrong_cluster" in done.err
    assert f"{tmp_path / 'a'}: authority_epoch 1  config_version 2  outcome Verified  scope route_policy" in done.out
    assert f"{tmp_path / 'c'}: outcome passed_over  reason wrong_node" in done.out

    done = await holdfast("import", *(tmp_path / name for name in "acd"), "--json", at=api)
    told = {Path(one["file"]).name: one["outcome"] for one in map(json.loads, done.out.splitlines())}
    assert (done.status, told) == (0, {"d": "Verified", "c": "passed_over", "a": "Verified"})


async def test_trust_bundles_from_before_the_one_that_is_held_are_passed_over(api, tmp_path):
    """rules S60: a tree holds every bundle, for whoever was away long; those that a node has behind it are no fault"""
    cluster = api.node.cluster
    bundles = {str(number): cluster.bundle(number) for number in (1, 2, 3)}
    api.apply(bundles["2"])
    for name, document in bundles.items():
        (tmp_path / name).write_bytes(b"".join(document.chunks()))
    done = await holdfast("import", *(tmp_path / name for name in bundles), "--json", at=api)
    told = {Path(one["file"]).name: one["outcome"] for one in map(json.loads, done.out.splitlines())}
    assert (done.status, told) == (0, {"1": "passed_over", "2": "AlreadyApplied", "3": "Verified"})
    alone = await holdfast("import", tmp_path / "1", at=api)
    assert alone.status == 1 and "rollback" in alone.err


async def test_the_own_client_reads_the_refusal_whole(api):
    """rules P10: status, reason and step, as for any caller of the local API."""
    foreign = api.node.cluster.snapshot(3, {"routes": {}}, cluster_id="elsewhere")
    client = HttpClient(UnixConnector())
    with pytest.raises(ClientError) as found:
        await client.fetch(api.socket, Call("POST", "/v1/import", body=b"".join(foreign.chunks())))
    await client.aclose()
    assert (found.value.status, found.value.code, found.value.step) == (422, "wrong_cluster", 2)


async def test_usage(api, tmp_path):
    assert (await holdfast("import", tmp_path / "none", at=api)).status == 2
    assert (await holdfast("import", tmp_path, at=api)).status == 2
