""".ci/run says that all holds where every stage has ended well, and nowhere else: with a `make` that only notes that it
was called.
"""

import os
import select
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.citations import ROOT

MAKE = """\
#!/bin/bash
printf '%s\\n' "$1" >> "$MADE"
[ "$1" != "$FAILS" ] || exit 1
[ "$1" != "$WAITS" ] || { echo $$ > "$BEGUN"; exec sleep 600; }
[ "$1" != "$KILLS" ] || kill -9 "$(awk '/^PPid/ { print $2 }' /proc/$PPID/status)"  # what waits for it by `timeout`
"""
OF_EVERYBODY = {"--jobs", "lint", "types", "test", "coverage", "journeys", "bookworm", "trixie"} | {
    "deb-lint",
    "deb-exposure",
    "deb-reproducible",
}
STAGES = OF_EVERYBODY | ({"systemd-test"} if os.geteuid() == 0 else set())
ENVIRONMENTS = "--jobs"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name, text in (("bin/make", MAKE), ("tools/system-packages", "#!/bin/sh\n")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    return tmp_path


def start(clone: Path, *stages: str, **given: str) -> subprocess.Popen[str]:
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    said = {"MADE": str(clone / "made"), "BEGUN": str(clone / "begun"), "FAILS": "", "KILLS": "", "WAITS": "", **given}
    command = ["bash", clone / ".ci" / "run", *stages]
    return subprocess.Popen(
        command, env={**os.environ, "PATH": path, **said}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(clone: Path, **given: str) -> tuple[int, str, Counter[str]]:
    """Its exit status, the last line that it says, and what was made."""
    with start(clone, **given) as begun:
        said, _ = begun.communicate(timeout=60)
    return begun.returncode, said.splitlines()[-1], Counter((clone / "made").read_text().split())


def test_each_stage_is_run_once(clone: Path) -> None:
    status, said, made = run(clone)
    assert (status, made) == (0, Counter(STAGES))
    assert said.startswith("== all: ok")


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_a_stage_that_fails_is_the_end(clone: Path, stage: str) -> None:
    status, said, made = run(clone, FAILS=stage)
    assert status == 1
    assert "all: ok" not in said
    assert stage != ENVIRONMENTS or not made.keys() & {"lint", "test"}, "without what they are run in"


@pytest.mark.parametrize("stage", [ENVIRONMENTS, "deb-lint", "test"])
def test_a_lane_that_is_killed_is_no_success(clone: Path, stage: str) -> None:
    """By whoever runs out of memory: of what it had begun nobody knows the end."""
    status, said, made = run(clone, KILLS=stage)
    assert status == 1
    assert "all: ok" not in said
    assert ("test" in made) == (stage != ENVIRONMENTS)


@pytest.mark.parametrize(("stage", "stages"), [(ENVIRONMENTS, ()), ("deb-lint", ()), ("test", ()), ("test", ("test",))])
def test_what_has_begun_ends_with_it(clone: Path, stage: str, stages: tuple[str, ...]) -> None:
    """A run that is taken back leaves no lane behind, and no machine that the next one would meet."""
    os.mkfifo(clone / "begun")
    with start(clone, *stages, WAITS=stage, TMPDIR=str(clone)) as ci:
        with (clone / "begun").open() as begun:
            process = os.pidfd_open(int(begun.read()))
        ci.terminate()
        assert select.select([process], [], [], 60)[0]
        os.close(process)
    assert ci.returncode == 143
    assert list(clone.glob("tmp.*")) == []
