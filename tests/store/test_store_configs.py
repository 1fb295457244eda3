"""Configs in the store (format.md 11): raw sections are kept, shared, collected and found damaged as any section."""

from coordinator.declared import increments
from coordinator.keys import signer
from store.fsck.check import check
from tests.fakes.config_document import FileContent, config_sections
from tests.store.cluster import CLUSTER, NOW

WEB = "config/web"
FIRST = {"a": FileContent(bytes(range(256))), "b": FileContent(b'{"x":1}', is_json=True), "empty": FileContent(b"")}
SECOND = FIRST | {"a": FileContent(bytes(range(255)) + b"!"), "c/d": FileContent(b"new")}


def whole(cluster, version, files):
    made = config_sections(files, 100)
    return cluster.snapshot(version, made.sections, "config", scope_ids=("web",), raw=made.raw)


def changed(cluster, version, base, files, read):
    made = config_sections(files, 100)
    delta = increments.changes(base.state, read, made.sections, made.raw)
    claims = cluster.claims("config", version, scope_ids=("web",))
    held = signer.Base(base.envelope.config_version, base.state)
    return signer.increment(claims, held, delta.changes, delta.brought, [cluster.config])


def sections_of(files):
    return dict(config_sections(files, 100).sections)


def test_a_config_survives_a_restart(node, cluster):
    node.apply(whole(cluster, 1, FIRST))
    node.reopen()
    assert node.store.findings == ()
    assert node.contents(WEB) == sections_of(FIRST)
    raw = {name for name, entry in node.store.active(WEB).sections.items() if entry.is_raw}
    assert raw == config_sections(FIRST, 100).raw


def test_an_increment_shares_what_it_does_not_change(node, cluster):
    base = node.apply(whole(cluster, 1, FIRST))
    with node.store._environment.read() as transaction:
        before = transaction.count("sections")
    node.apply(changed(cluster, 2, base, SECOND, node.store.active(WEB).read))
    with node.store._environment.read() as transaction:
        added = transaction.count("sections") - before
    assert added == 6  # a part, a file, the patch of the index and its result, the changes, the state
    node.reopen()
    assert node.contents(WEB) == sections_of(SECOND)


def test_what_no_version_holds_any_more_is_collected(node, cluster):
    """`good` holds on to three contents"""
    node.apply(whole(cluster, 1, FIRST))
    node.apply(whole(cluster, 2, {"z": FileContent(b"last")}))
    node.apply(whole(cluster, 3, {"z": FileContent(b"later")}))
    node.apply(whole(cluster, 4, {}))
    node.store.garbage.run()
    with node.store._environment.read() as transaction:
        assert not transaction.get("sections", bytes.fromhex(signer.entry_of(FIRST["a"].data[:100]).sha256))
        assert transaction.get("sections", bytes.fromhex(signer.entry_of(b"last").sha256))
    assert node.contents(WEB) == sections_of({})


def test_it_falls_back_to_the_version_before(node, cluster):
    node.apply(whole(cluster, 1, FIRST))
    node.apply(whole(cluster, 2, SECOND))
    node.store.fall_back(WEB, now=NOW, cause="a test")
    assert node.contents(WEB) == sections_of(FIRST)
    node.store.withdraw(WEB, now=NOW)
    assert node.contents(WEB) is None


def test_a_damaged_part_is_found_and_the_version_before_takes_over(node, cluster):
    """rules L32, threats D-26: by check, by the rounds, and by the next start, as a section of JSON"""
    node.apply(whole(cluster, 1, FIRST))
    base = node.apply(whole(cluster, 2, SECOND))
    part = next(name for name, entry in base.state.items() if entry.is_raw and name not in sections_of(FIRST))
    with node.store._environment.write() as transaction:
        transaction.put("sections", bytes.fromhex(base.state[part].sha256), b"now")
    node.close()
    assert [str(fault.code) for fault in check(node.path, CLUSTER)] == ["blob_damaged"]
    node.open()
    while not node.store.scrub.step(NOW).done:
        pass
    assert node.contents(WEB) == sections_of(FIRST)
    node.reopen()
    assert node.contents(WEB) == sections_of(FIRST)
    node.apply(whole(cluster, 3, SECOND))
    assert node.contents(WEB) == sections_of(SECOND)
