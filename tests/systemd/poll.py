"""Runs on a node: clients that ask the agent again and again, until /tmp/polled-enough is there; prints what they met.

poll.py CLIENTS WATCHERS SCOPE     Standard library only. A client opens a connection for each request, and counts as
answered when a whole answer came, however late.
"""

import collections
import http.client
import json
import pathlib
import socket
import sys
import threading
import time

SOCKET, BEGUN, ENOUGH = "/run/holdfast/agent.sock", pathlib.Path("/tmp/polling"), pathlib.Path("/tmp/polled-enough")
PATIENCE_S, PAUSE_S = 60, 0.1
GOOD = (200, 204)


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(SOCKET)


def main():
    clients, watchers = map(int, sys.argv[1:3])
    scope = sys.argv[3].replace("/", "%2F")
    lock, failed, answered, slowest = threading.Lock(), collections.Counter(), collections.Counter(), [0.0]

    def keep_asking(path):
        while not ENOUGH.exists():
            began = time.monotonic()
            met = ask(path)
            with lock:
                slowest[0] = max(slowest[0], time.monotonic() - began)
                (answered if met in GOOD else failed)[str(met)] += 1
            time.sleep(PAUSE_S)

    paths = ["/v1/status", f"/v1/scopes/{scope}"] * clients
    paths = paths[:clients] + ["/v1/watch?wait=20"] * watchers
    threads = [threading.Thread(target=keep_asking, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    BEGUN.touch()
    for thread in threads:
        thread.join()
    print(json.dumps({"answered": sum(answered.values()), "failed": failed, "slowest_s": round(slowest[0], 1)}))


def ask(path):
    """The status of the answer, or what was wrong."""
    connection = Connection("localhost")
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status if answer.status in GOOD else f"{path}: {answer.status} {body[:100]!r}"
    except (OSError, http.client.HTTPException) as error:
        return f"{path}: {type(error).__name__}: {error}"
    finally:
        connection.close()


if __name__ == "__main__":
    main()
