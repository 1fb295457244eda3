"""The folder of a run's machines (tests/systemd/work.py): what a killed run left is not the next one's trouble."""

from pathlib import Path

import pytest

from tests.systemd.work import work_folder


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "coordinator" / "root").mkdir(parents=True)
    (folder / "coordinator" / "console").write_text("booted")
    (folder / "1.2.3").symlink_to("elsewhere")
    with work_folder(folder) as held:
        assert list(held.iterdir()) == []
        (held / "coordinator").mkdir()
    assert not folder.exists()


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with work_folder(folder) as held:
        (held / "coordinator").mkdir()
        with pytest.raises(SystemExit, match="another run holds"), work_folder(folder):
            pass
        assert [left.name for left in held.iterdir()] == ["coordinator"]
