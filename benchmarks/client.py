"""The client library: what a call costs a service, against the least that asks the same.

    python -m benchmarks.client [--runs 7]

kept     `Client.get` of a section, by one client, over the connection that it keeps
anew     the same, each by a client of its own, so over a connection of its own
least    the request's bytes over one socket that is kept, and what comes back, unread

Processor time of the caller, and what he waits. The agent's side is a thread of another process that answers with bytes
which an agent's answer has, so that the caller is measured alone; each round has all three, one after the other.
"""

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import note
from holdfast.client import Client
from tests.citations import ROOT

CALLS = 1000
BODY = b'{"north":{"ttl_s":60}}'
ANSWER = (
    b'HTTP/1.1 200 \r\ndate: Mon, 23 Nov 2026 16:00:00 GMT\r\ncontent-type: application/json\r\netag: "sha256:%s"\r\n'
    b"cache-control: no-cache\r\nholdfast-generation: 4\r\nholdfast-version: 3\r\nholdfast-epoch: 1\r\n"
    b"holdfast-grade: fresh\r\nholdfast-expires: 2026-11-23T15:51:03Z\r\nholdfast-age: 3\r\n"
    b"content-length: %d\r\n\r\n%s" % (b"0" * 64, len(BODY), BODY)
)
REQUEST = b"GET /v1/scopes/route_policy/sections/routes HTTP/1.1\r\nhost: localhost\r\n\r\n"


def serve(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            with listener.accept()[0] as caller:
                while caller.recv(65536):
                    caller.sendall(ANSWER)


def measure(call: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of processor time, and on the wall, of one call."""
    used, begun = time.process_time(), time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.process_time() - used) / CALLS * 1000, (time.perf_counter() - begun) / CALLS * 1000


def one_round(path: Path) -> list[tuple[float, float]]:
    with Client(path) as kept:
        first = measure(lambda: kept.get("route_policy", "routes"))
    anew = measure(lambda: Client(path).get("route_policy", "routes"))
    with socket.socket(socket.AF_UNIX) as least:
        least.connect(str(path))
        return [first, anew, measure(lambda: (least.sendall(REQUEST), least.recv(65536)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.sock"
        server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.client", "--serve", str(path)], cwd=ROOT, stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            server.stdout.readline()
            rounds = [one_round(path) for _ in range(runs)]
        finally:
            server.kill()
            server.wait()
    note(
        "client/get over a kept connection",
        "ms",
        [each[0][0] for each in rounds],
        floor=[each[2][0] for each in rounds],
    )
    note("client/get over one of its own", "ms", [each[1][0] for each in rounds], floor=[each[2][0] for each in rounds])
    for number, what in enumerate(("kept [<= 0.15]", "anew", "least")):
        used, waited = (statistics.median(each[number][part] for each in rounds) for part in range(2))
        print(f"{what:16} {used:.3f} ms of processor time, {waited:.3f} ms waited")
    print(f"kept against anew {statistics.median(kept[0] / anew[0] for kept, anew, _ in rounds):.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
