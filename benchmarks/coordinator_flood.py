"""What strangers can take of a coordinator: memory, descriptors and log, while members and a join are served.

    .venv/bin/python -m benchmarks.coordinator_flood join     # or: fleet

They come from 70 addresses of the loopback: 16,000 that hold on to a handshake, then 20,000 that break one. The
coordinator is a process of its own, with the descriptors that its unit gives it.
"""

import asyncio
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.citations import ROOT
from tests.coordinator.founding import Founded

HOLD, BREAK, ADDRESSES = 16_000, 20_000, 70
AT_ONCE = 200
UNIT = ROOT / "packaging/systemd/holdfast-coordinator.service"


def descriptors() -> int:
    found = re.search(r"^LimitNOFILE=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


@contextmanager
def coordinator(folder: Path) -> "Iterator[tuple[subprocess.Popen[bytes], dict[str, int]]]":
    founded = Founded(folder, f"sqlite:///{folder}/state.db")
    (folder / "coordinator.toml").write_text(founded.text())
    most = min(descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    program = f"import resource as r; r.setrlimit(r.RLIMIT_NOFILE, ({most},) * 2)\n"
    program += "from coordinator.command import main; main()"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", program, str(folder / "coordinator.toml")], stderr=log)
    try:
        while b'"serving"' not in (said := (folder / "log").read_bytes()):
            assert process.poll() is None, said.decode()
            time.sleep(0.1)
        yield process, {name: port_of(folder, name) for name in ("join", "fleet")}
    finally:
        process.kill()
        process.wait()


def port_of(folder: Path, name: str) -> int:
    found = re.search(rf'"{name}": (\d+)', (folder / "log").read_text())
    assert found is not None
    return int(found[1])


def figures(process: "subprocess.Popen[bytes]", folder: Path) -> str:
    status = Path(f"/proc/{process.pid}/status").read_text()
    resident = int(status.partition("VmRSS:")[2].split()[0]) // 1024
    highest = int(status.partition("VmHWM:")[2].split()[0]) // 1024
    held = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
    return f"{resident} MiB (at most {highest}), {held} descriptors, {(folder / 'log').stat().st_size >> 10} KiB of log"


async def stranger(port: int, number: int, *, words: bytes) -> asyncio.StreamWriter | None:
    address = f"127.0.1.{number % ADDRESSES + 1}"
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writer.write(words)
        await writer.drain()
    except OSError:
        return None
    return writer


async def come(port: int, count: int, words: bytes, *, stay: bool) -> list[asyncio.StreamWriter]:
    kept = []
    for first in range(0, count, AT_ONCE):
        made = await asyncio.gather(*(stranger(port, first + each, words=words) for each in range(AT_ONCE)))
        came = [writer for writer in made if writer is not None]
        if not stay:
            for writer in came:
                writer.close()
        else:
            kept += came
    return kept


async def flood(name: str, folder: Path) -> None:
    with coordinator(folder) as (process, ports):
        print(f"before: {figures(process, folder)}")
        begun = time.monotonic()
        kept = await come(ports[name], HOLD, b"\x16\x03\x01\x02\x00\x01", stay=True)
        print(f"{len(kept)} hold on, {time.monotonic() - begun:.0f} s: {figures(process, folder)}")
        for writer in kept:
            writer.close()
        await asyncio.sleep(6)
        begun = time.monotonic()
        await come(ports[name], BREAK, b"GET / HTTP/1.1\r\n\r\n", stay=False)
        await asyncio.sleep(6)
        print(f"{BREAK} broken, {time.monotonic() - begun:.0f} s: {figures(process, folder)}")


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (HOLD + 1_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(flood(sys.argv[1] if len(sys.argv) > 1 else "join", Path(folder)))


if __name__ == "__main__":
    main()
