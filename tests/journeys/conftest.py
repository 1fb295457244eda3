"""A coordinator as a process, and a node beside it, for whoever asks for them by these names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.holdfast.operator_lab import Lab, running
from tests.journeys.gateway import Gateway
from tests.world import readers


@pytest.fixture(scope="session", autouse=True)
def forked_readers() -> None:
    readers.use()


@pytest.fixture
def settings() -> str:
    """Of the coordinator: lines below `[settings]`. A module's own fixture of this name says others."""
    return ""


@pytest.fixture
def lab(tmp_path: Path, settings: str) -> Iterator[Lab]:
    folder = tmp_path / "coordinator"
    folder.mkdir()
    with running(folder, settings=settings) as lab:
        yield lab


@pytest.fixture
def gateway(lab: Lab, tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "node", lab)
    yield gateway
    gateway.kill()
