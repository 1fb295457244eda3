"""A first `holdfastctl apply` of a folder of files: many small ones, or a few large texts; and the second one.

    .venv/bin/python -m benchmarks.coordinator_uploads [--files 10000] [--bytes 1024]

The command and the coordinator are two processes, as they are in use; the time is the command's, start and all.
"""

import argparse
import os
import random
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


def apply(lab: Lab, folder: Path) -> float:
    began = time.monotonic()
    command = [PROGRAM, "apply", "-f", str(folder / "site.yaml"), "--yes"]
    around = {**os.environ, "HOLDFAST_ADMIN_SOCKET": str(lab.socket)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=around)
    return time.monotonic() - began


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
            what = f"{chosen.files} files of {chosen.bytes} bytes"
            print(f"{what}: first apply {apply(lab, folder):.1f} s")
            (folder / "data" / "f00000").write_bytes(text(chosen.bytes, chosen.files))
            print(f"{what}: with one of them changed {apply(lab, folder):.1f} s")
        finally:
            lab.stop()


if __name__ == "__main__":
    main()
