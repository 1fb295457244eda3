"""The packages under a real systemd: python -m tests.systemd [--packages DIR] [--until STEP] [--hold]. Needs root."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.systemd import arrival, change, consumers, faults, probation, reading, sealing
from tests.systemd.debs import Packages
from tests.systemd.lab import Lab, laboratory
from tests.systemd.machines import Machine
from tests.systemd.step import Step, StepFailed, name_of
from tests.systemd.trees import TreeError
from tests.systemd.work import work_folder

STEPS: tuple[Step, ...] = (
    *arrival.STEPS,
    *sealing.STEPS,
    *probation.STEPS,
    *consumers.STEPS,
    *reading.STEPS,
    *faults.STEPS,
    *change.STEPS,
)
WORK = Path("/run/holdfast-systemd-test")
UNITS = "holdfast*"


def main() -> int:
    asked = _arguments()
    if os.geteuid() != 0:
        sys.exit("machines are booted here, which only root can do: sudo make systemd-test")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    began = time.monotonic()
    try:
        packages = Packages.found(asked.packages)
        with work_folder(WORK) as folder, laboratory(packages, folder) as lab:
            _say("trees", [f"{time.monotonic() - began:5.1f} s"])
            done = _run(lab, asked)
    except (TreeError, FileNotFoundError) as error:
        sys.exit(f"systemd-test: {error}")
    except KeyboardInterrupt:
        sys.exit("systemd-test: interrupted")
    _say("all of it" if done else "FAILED", [f"{time.monotonic() - began:5.1f} s"])
    return 0 if done else 1


def _end(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _run(lab: Lab, asked: argparse.Namespace) -> bool:
    """Whether every step went well. The first that does not ends it, since the next ones build on it."""
    good = True
    for step in STEPS:
        try:
            _say(name_of(step), step.run(lab))
        except StepFailed as failed:
            good = False
            _explain(lab, failed)
            if asked.hold:
                _hold(lab)
            if not asked.keep_going:
                break
        if asked.until and name_of(step).startswith(asked.until):
            break
    return good


def _say(name: str, times: Iterator[str] | list[str]) -> None:
    print(f"{name:64} {'   '.join(times)}", flush=True)


def _explain(lab: Lab, failed: StepFailed) -> None:
    where = f" on debian {failed.node.debian}" if failed.node else ""
    print(f"\nFAILED{where}: {failed}", flush=True)
    machines = [failed.node.machine, lab.coordinator] if failed.node else list(lab.machines)
    for machine in machines:
        print(f"\n---- {machine.name}: journal of {UNITS}\n{_journal(machine)}", flush=True)


def _journal(machine: Machine, lines: int = 40) -> str:
    read = ("journalctl", f"--unit={UNITS}", f"--lines={lines}", "--no-pager", "--output=short-precise")
    try:
        return machine.run(*read, timeout_s=20).out
    except Exception as error:  # noqa: BLE001 - the failure that is told must not be hidden by this one
        return f"cannot be read: {error}\n{machine.console[-2000:]}"


def _hold(lab: Lab) -> None:
    for machine in lab.machines:
        print(f"{machine.name}: {machine.entrance}")
    print("The machines stay up until Ctrl-C.", flush=True)
    signal.pause()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.systemd", description=__doc__)
    parser.add_argument("--packages", type=Path, default=Path("build/deb"), help="where the .deb files are")
    parser.add_argument("--until", default="", metavar="STEP", help="end after the step whose name begins so")
    parser.add_argument("--hold", action="store_true", help="after a failure, leave the machines up until Ctrl-C")
    parser.add_argument("--keep-going", action="store_true", help="after a failure, try the next step all the same")
    parser.add_argument("--list", action="store_true", help="print the steps and end")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(name_of(step) for step in STEPS))
        sys.exit()
    return asked


if __name__ == "__main__":
    sys.exit(main())
