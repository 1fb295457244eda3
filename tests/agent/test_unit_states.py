"""What systemctl says of a unit, and what becomes of what it does not say. A program stands in for systemctl."""

import time

import pytest

from agent.services import unit_states
from agent.services.unit_states import UnitState, read_state


@pytest.fixture
def says(tmp_path):
    """A systemctl that prints this."""

    def make(text, code=0):
        program = tmp_path / "systemctl"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
        program.chmod(0o755)
        return str(program)

    return make


async def test_an_active_unit_and_since_when(says):
    entered = int((time.clock_gettime(time.CLOCK_MONOTONIC) - 1) * 1e6)
    text = f"ActiveState=active\nActiveEnterTimestampMonotonic={entered}"
    state = await read_state("web.service", systemctl=says(text))
    assert (state.active, state.fault) == (True, "")
    assert state.for_s >= 1


@pytest.mark.parametrize(("said", "expected"), [
    ("ActiveState=reloading\nActiveEnterTimestampMonotonic=0", UnitState(True)),
    ("ActiveState=inactive\nActiveEnterTimestampMonotonic=5", UnitState(False)),
    ("ActiveState=failed\nActiveEnterTimestampMonotonic=5", UnitState(False, failed=True)),
    ("ActiveState=active\nNRestarts=3", UnitState(True, restarts=3)),
    ("ActiveState=activating\nNRestarts=4", UnitState(False, restarts=4)),
    ("ActiveState=active\nNRestarts=[not set]", UnitState(True)),
    ("ActiveState=activating\nActiveEnterTimestampMonotonic=0", UnitState(False)),
    ("ActiveState=active\nActiveEnterTimestampMonotonic=a", UnitState(True)),
])  # fmt: skip
async def test_other_states(says, said, expected):
    assert await read_state("web.service", systemctl=says(said)) == expected


async def test_what_it_does_not_say_is_not_known(says, tmp_path, monkeypatch):
    assert (await read_state("web.service", systemctl=says(""))).fault
    assert "Failed to connect" in (await read_state("x", systemctl=says("Failed to connect to bus", 1))).fault
    assert (await read_state("x", systemctl=str(tmp_path / "nothing"))).fault
    monkeypatch.setattr(unit_states, "ASK_S", 0.05)
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexec sleep 60\n")
    assert "in time" in (await read_state("x", systemctl=str(tmp_path / "systemctl"))).fault
