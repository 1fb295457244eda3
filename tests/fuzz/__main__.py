"""Each target for a bounded time, from its seeds; a finding is written to a file, and the exit is 1."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz import seeds
from tests.fuzz.targets import TARGETS

LONGEST_INPUT_S = 20  # beyond it an input is a finding: something is not linear
MOST_MEMORY_MB = 2048


def main() -> int:
    arguments = _arguments()
    arguments.findings.mkdir(parents=True, exist_ok=True)
    failed = [name for name in arguments.target or TARGETS if not fuzz(name, arguments.seconds, arguments.findings)]
    print(f"findings in {arguments.findings}: {', '.join(failed)}" if failed else "no finding")
    return 1 if failed else 0


def fuzz(name: str, seconds: int, findings: Path) -> bool:
    """Whether all held for `seconds`."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as corpus:
        count = seeds.write(name, Path(corpus))
        print(f"{name}: {count} seeds, {seconds} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz.run", name, corpus, f"-max_total_time={seconds}"]
        command += [f"-artifact_prefix={findings / name}-", f"-timeout={LONGEST_INPUT_S}", "-print_final_stats=1"]
        command += [f"-rss_limit_mb={MOST_MEMORY_MB}", "-verbosity=0"]
        return subprocess.run(command, check=False).returncode == 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), help="where the input of a finding goes")
    parser.add_argument("target", nargs="*", help=f"{', '.join(TARGETS)}; all of them where none is named")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.target if name not in TARGETS]
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
