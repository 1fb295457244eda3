"""A first `holdfastctl apply` of a folder of files: many small ones, or a few large texts; then, with one of them
changed, a `diff` and the second apply.

    .venv/bin/python -m benchmarks.coordinator_uploads [--files 10000] [--bytes 1024]

The command and the coordinator are two processes, as they are in use; the time is the command's, start and all: what
the operator waits for. Processor time is of each of the two, and says where it went on a machine that has other work.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.holdfast.operator_lab import Lab

PROGRAM = str(Path(sys.executable).with_name("holdfastctl"))
WORDS = ("listen", "server_name", "upstream", "proxy_pass", "location", "10.0.0.1:8080", "on;", "# comment", "{", "}")


def text(size: int, seed: int) -> bytes:
    """Lines of words, as configuration has them: what a look for secrets has to read, and finds nothing in."""
    chance = random.Random(seed)
    line = lambda: " ".join(chance.choices(WORDS, k=8)) + f" {chance.random()}\n"  # noqa: E731
    block = "".join(line() for _ in range(200)).encode()
    return (f"# {seed}\n".encode() + block * (size // len(block) + 1))[:size]


def write(folder: Path, count: int, size: int) -> None:
    (folder / "data").mkdir(parents=True)
    names = [f"f{number:05}" for number in range(count)]
    for number, name in enumerate(names):
        (folder / "data" / name).write_bytes(text(size, number))
    files = "".join(f"    {name}: {{file: data/{name}}}\n" for name in names)
    (folder / "site.yaml").write_text(
        f"kind: Config\nid: site\nspec:\n  to: {{labels: {{app: site}}}}\n  files:\n{files}"
    )


def measure(lab: Lab, folder: Path, what: str, *words: str) -> None:
    """Runs one command, and prints what it took."""
    began, ours, theirs = time.monotonic(), _children_s(), _processor_s(lab)
    command = [PROGRAM, *words, "-f", str(folder / "site.yaml")]
    around = {**os.environ, "HOLDFAST_ADMIN_SOCKET": str(lab.socket)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=around)
    took = time.monotonic() - began
    spent = f"command {_children_s() - ours:.1f} s, coordinator {_processor_s(lab) - theirs:.1f} s of processor"
    print(f"{what}: {took:.1f} s; {spent}", flush=True)


def _children_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _processor_s(lab: Lab) -> float:
    """Of the coordinator."""
    if lab.process is None:
        raise AssertionError("it runs")
    fields = Path(f"/proc/{lab.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--files", type=int, default=10_000)
    asked.add_argument("--bytes", type=int, default=1_024)
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory() as place:
        lab, folder = Lab(Path(place) / "lab"), Path(place) / "fabric"
        lab.folder.mkdir()
        lab.init()
        lab.start()
        try:
            write(folder, chosen.files, chosen.bytes)
            print(f"{chosen.files} files of {chosen.bytes} bytes")
            measure(lab, folder, "first apply", "apply", "--yes")
            (folder / "data" / "f00000").write_bytes(text(chosen.bytes, chosen.files))
            measure(lab, folder, "diff with one of them changed", "diff")
            measure(lab, folder, "apply with one of them changed", "apply", "--yes")
            measure(lab, folder, "apply with nothing changed", "apply", "--yes")
        finally:
            lab.stop()


if __name__ == "__main__":
    main()
