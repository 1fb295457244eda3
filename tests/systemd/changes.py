"""Runs on a machine that has coordinator and agent: declares one port after the other, and says which one is served.

changes.py FIRST     Standard library only. "served N": the agent answers a service with N, so N is nothing to be lost.
"""

import http.client
import json
import pathlib
import socket
import sys
import time

ADMIN, LOCAL = "/run/holdfast-coordinator/admin.sock", "/run/holdfast/agent.sock"
DECLARED = pathlib.Path("/srv/declared.yaml").read_text()


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def main():
    port = int(sys.argv[1])
    while True:
        declare(port)
        while served() != port:
            time.sleep(0.1)
        print(f"served {port}", flush=True)
        port += 1


def declare(port):
    files = {"declared.yaml": DECLARED.replace("{port}", str(port))}
    answer = ask(ADMIN, "POST", "/v1/apply", json.dumps({"files": files}))
    if answer.get("outcome") != "applied":
        sys.exit(f"not applied: {answer}")


def served():
    """What the agent tells a service; 0 where it has nothing yet."""
    scopes = ask(LOCAL, "GET", "/v1/scopes").get("scopes", {})
    of_services = [name.replace("/", "%2F") for name in scopes if name.startswith("service_assignment/")]
    found = [ask(LOCAL, "GET", f"/v1/scopes/{name}/sections/services") for name in of_services]
    ports = [service["endpoints"][0]["port"] for section in found for service in section.values()]
    return ports[0] if ports else 0


def ask(path, method, target, body=None):
    connection = Connection(path)
    try:
        connection.request(method, target, body, {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


if __name__ == "__main__":
    main() if sys.argv[1] != "--once" else print(f"served {served()}")
