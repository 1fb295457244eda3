import os
import tempfile
from pathlib import Path

import pytest

from tests.agent.lab import Cluster, Node, Periphery


@pytest.fixture(scope="session")
def cluster():
    return Cluster()


@pytest.fixture
def node(tmp_path, cluster):
    """A node with the trust bundle and a head, on a real store."""
    fresh = Node(tmp_path / "root", cluster)
    fresh.open()
    fresh.apply(cluster.bundle())
    fresh.apply(cluster.snapshot(1, {"cluster": {}}, scope="node_bootstrap", subject_node_id="node-1"))
    fresh.apply(cluster.head(1))
    yield fresh
    fresh.close()


@pytest.fixture
def periphery(tmp_path, node):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    return Periphery(node, folder)


@pytest.fixture
def public_folder():
    """Which other accounts reach. Not below pytest's own: the next run of pytest that starts closes that to them."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        for each in (Path(name), *Path(name).parents):
            if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & 0o001:
                each.chmod(each.stat().st_mode | 0o011)
        yield Path(name)
