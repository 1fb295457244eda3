import pytest

from tests.faults.worker import save_keys
from tests.store.cluster import Cluster


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


@pytest.fixture
def keys(cluster, tmp_path):
    save_keys(cluster, tmp_path / "keys")
    return tmp_path / "keys"
