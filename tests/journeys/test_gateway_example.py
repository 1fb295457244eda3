"""examples/gateway: what stands in the agent's files becomes a gateway's configuration, or is refused before that."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from examples.demo.gateway import Gateway
from examples.demo.processes import Processes
from examples.gateway import gateway
from tests.citations import ROOT
from tests.world.ports import free_ports

GATEWAY = ROOT / "examples" / "gateway" / "gateway.py"
PYTHON_GATEWAY = GATEWAY.with_name("python_gateway.py")
WORKLOAD = ROOT / "examples" / "demo" / "workload.py"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")


def route(service="web", host="www.example", prefix="/", protocol="http", port=0):
    match = {"protocol": protocol, "hosts": [host] if host else [], "path_prefix": prefix, "port": port}
    return {"organization_id": "acme", "service_id": service, "match": match, "ttl_s": 60}


def service(*ports, exposed=True, host="127.0.0.1"):
    each = {"name": "a", "protocol": "http", "host": host, "exposed": exposed}
    return {"organization_id": "acme", "endpoints": [{**each, "port": port} for port in ports]}


class Files:
    """As the agent lays them out, and the scripts run over them."""

    def __init__(self, folder, program):
        self.folder, self.program, self.home = folder, program, folder / 'a "home"; {of $it}'
        self.home.mkdir()
        [self.port] = free_ports(1)

    def put(self, routes, services):
        for folder in [self.folder / "route_policy", *self.folder.glob("service_assignment@*")]:
            shutil.rmtree(folder, ignore_errors=True)
        for number, (name, entry) in enumerate(routes.items()):  # one a file: sections come in parts
            self.write(f"route_policy/routes.{number:02x}.json", {name: entry})
        for name, entry in services.items():
            self.write(f"service_assignment@{name}/services.json", {name: entry})

    def write(self, name, section):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(section))

    def run(self, what):
        environment = {"PATH": os.environ["PATH"], "HOLDFAST_STAGED": str(self.folder)}
        command = [sys.executable, GATEWAY, *self.words(what)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def check(self):
        """What `run` would say, empty where nothing is refused; in this process, which is quicker."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [str(GATEWAY), *map(str, self.words("check"))])
            patch.setenv("HOLDFAST_STAGED", str(self.folder))
            try:
                gateway.main()
            except SystemExit as refused:
                return str(refused.code)
            return ""

    def words(self, what):
        places = ("--home", self.home, "--listen", f"127.0.0.1:{self.port}", "--files", self.folder)
        return [what, *places, *self.program]


PROGRAMS = {"python": ["--python-gateway", PYTHON_GATEWAY], "nginx": ["--nginx", NGINX]}


@pytest.fixture(params=PROGRAMS)
def files(request, tmp_path):
    if request.param == "nginx" and NGINX is None:
        pytest.skip("NO NGINX: apt-get install nginx")
    return Files(tmp_path, PROGRAMS[request.param])


@pytest.fixture
def alone(tmp_path):
    """Where it does not come to a program: what the example itself refuses is the same for each."""
    return Files(tmp_path, PROGRAMS["python"])


def test_what_can_be_served_is_accepted(files):
    files.put(
        {
            "a": route(),
            "b": route(prefix="/pictures/"),
            "c": route(service="nowhere", host="gone.example"),
            "d": route(host="", prefix=""),
            "e": route(host="[2001:db8::1]", service="far"),
        },
        {"web": service(8081, 8082), "far": service(8083, host="[2001:db8::2]")},
    )
    assert files.run("check").returncode == 0
    assert not (files.home / "gateway.conf").exists()  # a check changes nothing that is in use


def test_two_routes_in_one_place_are_refused(files):
    files.put({"a": route(), "b": route()}, {"web": service(8081)})
    refused = files.run("check")
    assert refused.returncode == 1
    assert "duplicate location" in refused.stderr


@pytest.mark.parametrize(
    "bad",
    [
        route(prefix="/; return 200 x; #"),
        route(prefix="/a b"),
        route(prefix="/{"),
        route(prefix="../etc"),
        route(host="a;b"),
        route(host="a b"),
        route(host="$host"),
        route(host="~."),
        route(host=".example"),
        route(host="a\n"),
        route(host=["a"]),
    ],
    ids=str,
)
def test_nothing_reaches_a_configuration_that_is_more_than_a_name(alone, bad):
    alone.put({"a": bad}, {"web": service(8081)})
    is_refused(alone, "is no plain")


@pytest.mark.parametrize(
    "bad",
    [
        service(8081, host="127.0.0.1:1; } server { listen 1"),
        service(8081, host="unix:/run/secret"),
        service(8081, host="$http_x_to"),
        service(8081, host="a b"),
        service("80; } #"),
        service("80 backup"),
        service(-1),
        service(None),
    ],
    ids=str,
)
def test_nor_does_an_endpoint(alone, bad):
    alone.put({"a": route()}, {"web": bad})
    is_refused(alone, "route a: ", "is no plain")


@pytest.mark.parametrize("name", ["a;b", "a{", "a b", "$a", "a/../b", ""])
def test_nor_does_the_name_of_a_route(alone, name):
    alone.put({name: route()}, {"web": service(8081)})
    is_refused(alone, "is no plain")


@pytest.mark.parametrize("bad", [{}, {"match": 1, "service_id": "web"}, [], 7, {**route(), "match": {}}], ids=str)
def test_what_is_not_formed_as_a_route_is_refused_in_a_sentence(alone, bad):
    alone.put({"a": bad}, {"web": service(8081)})
    is_refused(alone, "cannot be read as routes and services")


def test_a_check_by_hand_is_told_what_it_lacks(files):
    files.put({}, {})
    command = [sys.executable, GATEWAY, "check", "--home", files.home, "--listen", "127.0.0.1:1", *files.program]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "HOLDFAST_STAGED" in done.stderr
    assert "Traceback" not in done.stderr


def is_refused(files, *words):
    refused = files.check()
    assert all(word in refused for word in words), refused
    assert not (files.home / "gateway.conf").exists()


def test_routes_of_other_protocols_and_endpoints_that_are_not_exposed_are_passed_over(files):
    files.put({"a": route(), "ssh": route(protocol="tcp")}, {"web": service(8081, exposed=False)})
    assert files.run("check").returncode == 0


def test_a_gateway_that_does_not_run_is_said_to_be_down(files):
    files.put({"a": route()}, {"web": service(8081)})
    told = files.run("apply")
    assert told.returncode == 1
    assert "is not running" in told.stderr


def test_requests_follow_the_files(files, tmp_path):
    """Started without routes, told of them, told of others; a file that is not good changes nothing."""
    ports = free_ports(2)
    files.put({}, {})
    files.run("apply")
    nginx = files.program[0] == "--nginx"
    serve = ["--listen", f"127.0.0.1:{files.port}", "--home", files.home]
    own = [NGINX, "-c", files.home / "gateway.conf", "-p", files.home, "-e", files.home / "log", "-g", "daemon off;"]
    started = [
        subprocess.Popen(own if nginx else [sys.executable, PYTHON_GATEWAY, *serve], start_new_session=True),
        *(subprocess.Popen([sys.executable, WORKLOAD, str(port), f"at {port}"]) for port in ports),
    ]
    try:
        follows(files.port, (404, None))
        files.put({"a": route(), "b": route(service="nowhere", prefix="/gone/")}, {"web": service(ports[0])})
        assert files.run("apply").returncode == 0
        follows(files.port, (200, f"at {ports[0]}"))
        for _ in range(20):  # no former worker of nginx answers any more
            assert ask(files.port, "/gone/x")[0] == 503
        assert ask(files.port, "/", "other.example")[0] == 404

        files.put({"a": route(), "b": route()}, {"web": service(ports[1])})
        assert files.run("apply").returncode == 1
        assert ask(files.port) == (200, f"at {ports[0]}")

        files.put({"a": route()}, {"web": service(ports[1])})
        assert files.run("apply").returncode == 0
        follows(files.port, (200, f"at {ports[1]}"))

        # Names that differ by where the dots stand; a route for every host; one that enters at another port.
        files.put(
            {
                "a": route(host="b.c"),
                "a.b": route(host="c", service="other"),
                "every": route(host="", prefix="/x/", service="other"),
                "elsewhere": route(host="d", port=files.port + 1 if files.port < 65535 else 1),
                "here": route(host="e", port=files.port),
            },
            {"web": service(ports[0]), "other": service(ports[1])},
        )
        assert files.run("apply").returncode == 0
        follows(files.port, (404, None))
        assert ask(files.port, "/", "b.c") == (200, f"at {ports[0]}")
        assert ask(files.port, "/x/y", "b.c") == ask(files.port, "/x/y", "unheard.of") == ask(files.port, "/", "c")
        assert ask(files.port, "/y", "unheard.of")[0] == 404
        assert ask(files.port, "/", "d")[0] == 404
        assert ask(files.port, "/", "e") == (200, f"at {ports[0]}")
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)


@pytest.mark.skipif(NGINX is None, reason="NO NGINX: apt-get install nginx")
def test_nginx_without_routes_yet_keeps_everything_in_its_home(tmp_path):
    """Where root has never started nginx there is no folder below /var/lib that an ordinary user may write to."""
    processes, [port] = Processes(tmp_path), free_ports(1)
    gateway = Gateway(tmp_path / "home", tmp_path / "active", port, NGINX, "www.example")
    gateway.start(processes)
    try:
        follows(port, (404, None), lambda: processes.last_words("gateway"))
    finally:
        processes.end()
    made = {path.name for path in gateway.home.iterdir() if path.is_dir()}
    assert made == {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}


def ask(port, path="/", host="www.example"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        body = answer.read().decode().strip()
        return answer.status, body if answer.status == 200 else None
    except OSError as error:
        return 0, str(error)
    finally:
        connection.close()


def follows(port, wanted, said=str):
    """A gateway starts, and the Python one takes a new file, in its own time. `said`: its last words."""
    end = time.monotonic() + 120
    while (found := ask(port)) != wanted:
        assert time.monotonic() < end, (found, said())
        time.sleep(0.05)  # another program's start, or its signal handler
