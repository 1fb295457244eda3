"""rules L28, L29"""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from store.base import blobs
from store.base.errors import StoreError, StoreFault
from tests.examples import examples

SIZES = [0, 1, 4096, blobs.CHUNK_BYTES, blobs.CHUNK_BYTES + 1, 3 * blobs.CHUNK_BYTES]


@pytest.mark.parametrize("size", SIZES)
def test_what_is_put_is_got(node, size):
    """rules L28"""
    data = bytes(index % 251 for index in range(size % 5000)) + bytes(size - size % 5000)
    with node.store._environment.write() as transaction:
        digest = blobs.put(transaction, data)
        assert blobs.put(transaction, data) == digest
    with node.store._environment.read() as transaction:
        assert blobs.get(transaction, digest) == data
        assert blobs.has(transaction, digest)
        assert list(blobs.digests(transaction)).count(digest) == 1
    with node.store._environment.write() as transaction:
        blobs.remove(transaction, digest)
        assert not blobs.has(transaction, digest)


def test_other_bytes_are_never_handed_out_and_a_new_copy_heals(node):
    """rules L29, J47"""
    big = b"x" * (2 * blobs.CHUNK_BYTES)
    with node.store._environment.write() as transaction:
        for data in (b"small", big):
            digest = blobs.put(transaction, data)
            (key, value), *_ = transaction.items("sections", digest)
            transaction.put("sections", key, value[:-1] + b"?")
            with pytest.raises(StoreError) as caught:
                blobs.get(transaction, digest)
            assert caught.value.fault is StoreFault.STORE_CORRUPT
            assert blobs.put(transaction, data) == digest
            assert blobs.get(transaction, digest) == data


def test_a_missing_chunk_is_damage(node):
    """rules L29"""
    with node.store._environment.write() as transaction:
        digest = blobs.put(transaction, b"x" * (3 * blobs.CHUNK_BYTES))
        transaction.delete("sections", digest + bytes((0, 0, 0, 1)))
        with pytest.raises(StoreError):
            blobs.get(transaction, digest)
        blobs.remove(transaction, digest)


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=64), max_size=20))
def test_sharing(node, values):
    """rules L28"""
    with node.store._environment.write() as transaction:
        before = set(blobs.digests(transaction))
        digests = {blobs.put(transaction, value) for value in values}
        assert digests == {blobs.digest_of(value) for value in values}
        assert set(blobs.digests(transaction)) == before | digests


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.binary(min_size=1, max_size=64), max_size=12), st.sets(st.binary(min_size=65, max_size=80), max_size=4)
)
def test_what_is_lacking_is_told_from_what_is_there(node, there, absent):
    """rules L28: the pointer is swapped only to what lies here whole; one of several chunks is there as well."""
    large = b"x" * (blobs.CHUNK_BYTES + 1)
    with node.store._environment.write() as transaction:
        present = [blobs.put(transaction, data) for data in (*there, large)]
        not_there = [blobs.digest_of(data) for data in absent] + [b"\xff" * blobs.DIGEST_BYTES]
        assert blobs.lacking(transaction, [*present, *not_there, *present]) == not_there
        assert all(blobs.has(transaction, digest) for digest in present)
        assert not any(blobs.has(transaction, digest) for digest in not_there)
