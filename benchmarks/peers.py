"""Others in the same run, for what they and we both do; and plainly what each does less, or more.

    python -m benchmarks.peers [--rounds 5]

read      1 KB over a connection that is kept, waited: our agent and Redis over a Unix socket, nginx and etcd over the
          loopback. Ours says with it how old it is and until when it holds; nginx, Redis and etcd say what is there.
          None of them knows who signed it.
write     1 KB, until it is durable, waited: our node verifies it first (signature, scope, epoch, version) and keeps
          what was before; Redis (appendfsync always) and etcd take it as it comes, etcd for a cluster to agree upon.
update    what is new is fetched and verified, processor time: python-tuf's refresh and download against a document that
          our node receives, verifies and activates. python-tuf verifies four roles of metadata and a hash; its file is
          neither synced, nor parsed, nor swapped in at once for readers. Ours does not download here; `update` of the
          harness does, over TLS.

Who is not installed is left out, and named. Redis, etcd, nginx: Debian's packages; tuf: the extra `bench`.
"""

import argparse
import base64
import http.client
import importlib.metadata
import json
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio

from benchmarks import documents, node_growth
from benchmarks.agent import READ, agent, coordinator, until_held
from benchmarks.figures import note
from tests.fakes.cluster import ORGANIZATIONS
from tests.journeys.lab import ROUTES

CALLS, WRITES = 1_000, 50
VALUE = b"x" * 1000
KIB_SIZES = (1, 1_024, 10_240)
Ask = Callable[[], object]


def waited(ask: Ask, calls: int) -> float:
    """Milliseconds of one call, the middle of so many."""
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        ask()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


def say(name: str, unit: str, samples: list[float], about: str = "") -> None:
    note(f"peers/{name}{f' ({about})' if about else ''}", unit, samples)
    print(f"{name}: {statistics.median(samples):.3f} {unit} {about}")


# ---- who answers


@contextmanager
def started(*command: str, until: Callable[[], bool]) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            patience = time.monotonic() + 20
            while not until():
                assert process.poll() is None and time.monotonic() < patience, command
                time.sleep(0.02)
            yield
        finally:
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Redis:
    """Over its Unix socket; each write is synced."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        path, command = folder / "redis.sock", shutil.which("redis-server")
        asked = ["--port", "0", "--unixsocket", str(path), "--dir", str(folder), "--appendonly", "yes"]
        asked += ["--appendfsync", "always", "--save", ""]
        stack.enter_context(started(str(command), *asked, until=path.exists))
        self.line = stack.enter_context(socket.socket(socket.AF_UNIX))
        self.line.connect(str(path))

    def write(self) -> None:
        self.line.sendall(b"SET key %s\r\n" % VALUE)
        assert self.line.recv(100).startswith(b"+OK")

    def read(self) -> None:
        self.line.sendall(b"GET key\r\n")
        assert len(self.line.recv(2000)) > len(VALUE)

    about = property(lambda self: version("redis-server", "--version"))


class Etcd:
    """One member, by its JSON gateway."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        client, peer = free_port(), free_port()
        urls = [f"http://127.0.0.1:{port}" for port in (client, peer)]
        asked = [
            "--data-dir",
            str(folder / "etcd"),
            "--listen-client-urls",
            urls[0],
            "--advertise-client-urls",
            urls[0],
        ]
        asked += ["--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1]]
        asked += ["--initial-cluster", f"default={urls[1]}"]
        stack.enter_context(started(str(shutil.which("etcd")), *asked, until=lambda: listens(client)))
        self.line = http.client.HTTPConnection("127.0.0.1", client)
        self.key = base64.b64encode(b"key").decode()

    def write(self) -> None:
        self._ask("put", {"key": self.key, "value": base64.b64encode(VALUE).decode()})

    def read(self) -> None:
        assert self._ask("range", {"key": self.key})["kvs"]

    def _ask(self, what: str, body: dict[str, str]) -> dict[str, object]:
        self.line.request("POST", f"/v3/kv/{what}", json.dumps(body))
        answer = self.line.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())

    about = property(lambda self: version("etcd", "--version"))


NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error;
events {{}}
http {{
  access_log off; keepalive_requests 1000000;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


class Nginx:
    """A folder of files, over the loopback."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.port, root = free_port(), folder / "www"
        root.mkdir()
        root.chmod(0o755)
        (root / "key").write_bytes(VALUE)
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=self.port, root=root))
        command = [found("nginx"), "-c", str(folder / "nginx.conf"), "-g", "user root;"]
        stack.enter_context(started(*command, until=lambda: listens(self.port)))
        self.line = http.client.HTTPConnection("127.0.0.1", self.port)

    def read(self) -> None:
        self.line.request("GET", "/key")
        answer = self.line.getresponse()
        assert answer.status == 200 and len(answer.read()) == len(VALUE)

    about = property(lambda self: version("nginx", "-v"))


def found(program: str) -> str:
    return shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin") or ""


def version(program: str, option: str) -> str:
    """The first line of what it says of itself, short."""
    said = subprocess.run([found(program), option], capture_output=True, text=True, check=False)
    words = (said.stdout + said.stderr).split("\n")[0].split()
    numbered = next((word for word in words if any(letter.isdigit() for letter in word)), "")
    return f"{program} {numbered.rpartition('/')[2].strip('v=,')}"


# ---- read and write


async def our_reads(folder: Path, rounds: int) -> list[float]:
    async with coordinator(folder) as server:
        server.snapshot({"small": documents.routes(0, 1000)}, ROUTES, organization_ids=list(ORGANIZATIONS))
        server.announce()
        with agent(folder) as process, socket.socket(socket.AF_UNIX) as line:
            await until_held(process, server.cluster.versions[ROUTES])
            await trio.sleep(3)
            line.connect(str(process.socket))
            request = f"GET {READ.rpartition('/')[0]}/small HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()

            def ask() -> None:
                line.sendall(request)
                assert line.recv(65536).startswith(b"HTTP/1.1 200")

            return [await trio.to_thread.run_sync(waited, ask, CALLS) for _ in range(rounds)]


def our_writes(folder: Path, rounds: int) -> list[float]:
    measured, samples = node_growth.Measured(folder), []
    for _ in range(rounds):
        ready = []
        for _ in range(WRITES):
            measured.version += 1
            ready.append(measured.snapshot(1, 1_000))
        ready.reverse()
        samples.append(waited(lambda ready=ready: measured.node.apply(ready.pop()), WRITES))
        measured.node.store.garbage.run()
    measured.close()
    return samples


def read_and_write(folder: Path, rounds: int) -> None:
    say("read of 1 KB: agent", "ms", trio.run(our_reads, within(folder, "agent"), rounds))
    say("write of 1 KB: node", "ms", our_writes(within(folder, "node"), rounds))
    for kind in (Redis, Nginx, Etcd):
        program = {"Redis": "redis-server"}.get(kind.__name__, kind.__name__.lower())
        if not found(program):
            print(f"{program} is not installed: left out")
            continue
        with ExitStack() as stack:
            peer = kind(stack, within(folder, program))
            if hasattr(peer, "write"):
                say(f"write of 1 KB: {program}", "ms", [waited(peer.write, WRITES) for _ in range(rounds)], peer.about)
            say(f"read of 1 KB: {program}", "ms", [waited(peer.read, CALLS) for _ in range(rounds)], peer.about)


def within(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


# ---- update


def our_update(folder: Path, kib: int, rounds: int) -> list[float]:
    measured, samples = node_growth.Measured(folder), []
    for _ in range(rounds):
        measured.version += 1
        document = measured.snapshot(*node_growth.pieces(kib))
        samples.append(node_growth.used(lambda document=document: measured.node.apply(document)))
        measured.node.store.garbage.run()
    measured.close()
    return samples


class TufRepository:
    """Root, targets, snapshot and timestamp with a key each, in files; python-tuf's own classes write them."""

    def __init__(self, folder: Path) -> None:
        from securesystemslib.signer import CryptoSigner
        from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp

        self.folder, ends = folder, datetime.now(UTC) + timedelta(days=7)
        (folder / "metadata").mkdir()
        (folder / "targets").mkdir()
        kinds = {"targets": Targets, "snapshot": Snapshot, "timestamp": Timestamp}
        self.signers = {role: CryptoSigner.generate_ed25519() for role in ("root", *kinds)}
        self.made = {role: Metadata(kind(expires=ends)) for role, kind in kinds.items()}
        self.root = Metadata(Root(expires=ends))
        for role, signer in self.signers.items():
            self.root.signed.add_key(signer.public_key, role)
        self.root.sign(self.signers["root"])
        self.root.to_file(str(folder / "metadata" / "1.root.json"))

    def publish(self, data: bytes) -> None:
        from tuf.api.metadata import MetaFile, TargetFile

        target = TargetFile.from_data("key", data, ["sha256"])
        (self.folder / "targets" / f"{target.hashes['sha256']}.key").write_bytes(data)
        targets, snapshot, timestamp = (self.made[role] for role in ("targets", "snapshot", "timestamp"))
        targets.signed.targets = {"key": target}
        targets.signed.version += 1
        snapshot.signed.meta["targets.json"] = MetaFile(version=targets.signed.version)
        snapshot.signed.version += 1
        timestamp.signed.snapshot_meta = MetaFile(version=snapshot.signed.version)
        timestamp.signed.version += 1
        for role, metadata in self.made.items():
            metadata.sign(self.signers[role])
            prefix = "" if role == "timestamp" else f"{metadata.signed.version}."
            metadata.to_file(str(self.folder / "metadata" / f"{prefix}{role}.json"))


def tuf_updates(folder: Path, kib: int, rounds: int) -> tuple[list[float], list[float]]:
    """Of each round: what is new, and nothing new."""
    from tuf.ngclient import Updater

    with ExitStack() as stack:
        server = Nginx(stack, folder)
        repository = TufRepository(folder / "www")
        for name in ("metadata", "targets"):
            within(folder, name)
        base = f"http://127.0.0.1:{server.port}"
        bootstrap = (folder / "www" / "metadata" / "1.root.json").read_bytes()

        def update() -> None:
            asked = (str(folder / "metadata"), f"{base}/metadata/", str(folder / "targets"), f"{base}/targets/")
            updater = Updater(*asked, bootstrap=bootstrap)
            updater.refresh()
            target = updater.get_targetinfo("key")
            if updater.find_cached_target(target) is None:
                updater.download_target(target)

        new, nothing = [], []
        for number in range(rounds):
            repository.publish(documents.routes(number, kib * 1024))
            new.append(node_growth.used(update))
            nothing.append(node_growth.used(update))
    return new, nothing


def updates(folder: Path, rounds: int) -> None:
    try:
        about = f"python-tuf {importlib.metadata.version('tuf')}"
    except importlib.metadata.PackageNotFoundError:
        about = ""
        print("python-tuf is not installed: left out")
    for kib in KIB_SIZES:
        say(f"update of {kib} KiB: node", "ms", our_update(within(folder, f"ours-{kib}"), kib, rounds))
        if about and found("nginx"):
            new, nothing = tuf_updates(within(folder, f"tuf-{kib}"), kib, rounds)
            say(f"update of {kib} KiB: python-tuf", "ms", new, about)
    if about and found("nginx"):
        say("nothing new: python-tuf", "ms", nothing, about)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        updates(Path(name), rounds)
        read_and_write(Path(name), rounds)


if __name__ == "__main__":
    main()
