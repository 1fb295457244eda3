"""What `make demo` calls proved would not be, if it were otherwise: its own judges, before things that misbehave."""

import socket
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from examples.demo import journal, outage, stranger, traffic
from examples.demo.node import Node
from examples.demo.proof import NotProved, Proof
from examples.demo.world import World
from holdfast.client import Permission
from tests.citations import ROOT

BEGAN, ENDED, RECEIVED = 1_800_000_000.0, 1_800_000_020.0, 1_800_000_025.0
TOLD = (
    ("state_changed", "active -> degraded: head_expired"),
    ("decided", "yes, ok: continue_services web, asked by uid 0, degraded"),
    ("decided", "no, not_in_policy: start_service web, asked by uid 0, degraded"),
    ("state_changed", "started -> degraded: head_expired"),
    ("decided", "yes, ok: continue_services web, asked by uid 0, degraded"),
    ("decided", "no, degraded_limit: open_session web, asked by uid 0, degraded"),
)


def events(told=TOLD, at=BEGAN, received=RECEIVED):
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {"event": kind, "detail": detail, "scope": "", "at": moment, "received_at": received, "sequence": number}
        for number, (kind, detail) in enumerate(told)
    ]


def missing(found):
    return journal.missing(journal.of_the_outage(found, BEGAN, ENDED), "web")


def test_a_journal_that_tells_all_of_it_is_complete():
    assert missing(events()) == []
    assert missing(events()[::-1]) == []  # listed the newest first


@pytest.mark.parametrize("lost", [0, 2, 3, 5])
def test_one_that_lacks_an_event_is_not(lost):
    [lacks] = missing(events([each for number, each in enumerate(TOLD) if number != lost]))
    assert TOLD[lost][1].startswith(lacks)


def test_who_asked_in_the_moment_in_which_it_began_may_be_told_of_first():
    began, asked, *rest = TOLD
    assert missing(events([asked, began, *rest])) == []


def test_what_was_lost_with_the_killed_agent_is_not_made_up_for_by_what_came_after():
    assert "active -> degraded" in missing(events(TOLD[3:]))
    assert "no, not_in_policy: start_service web" in missing(events(TOLD[3:]))


@pytest.mark.parametrize(
    "others",
    [
        events(at=ENDED + 1),  # told of the time after it
        events(at=BEGAN - 60),
        events(received=ENDED - 1),  # received while nobody was there to receive it
        events([("state_changed", "degraded -> active")]),
        [],
    ],
)
def test_events_of_another_time_are_no_journal_of_the_outage(others):
    assert len(missing(others)) == 5


@contextmanager
def answering(answers, all_given=None):
    """A server that answers with these in turn, then with the last one again; `all_given` is an event."""
    turn = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = next(turn, (0, ""))
            if not status:
                status, body = answers[-1]
                if all_given:
                    all_given.set()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def world(port):
    found = object.__new__(World)
    found.gateway = SimpleNamespace(port=port)
    return found


@pytest.mark.parametrize("other", [(200, "there"), (502, "here"), (200, "")])
def test_one_answer_from_elsewhere_among_many_is_seen(other):
    """As of two upstreams in turn, or of a former worker."""
    with answering([(200, "here")] * 6 + [other] + [(200, "here")]) as port:
        assert not world(port).answers("www", "here")
        assert world(port).answers("www", "here")


def test_the_stream_counts_what_came_from_the_wrong_place():
    all_given = threading.Event()
    with answering([(200, "here"), (200, "there"), (503, "here"), (200, "here")], all_given) as port:
        stream = traffic.Stream(port, "www", expected="here")
        stream.start()
        assert all_given.wait(30)
        stream.end()
    assert stream.failed == [(200, "there"), (503, "here")]
    assert stream.sent > 4


def test_the_stream_is_steady_once_nothing_else_has_come_for_a_while():
    """Not by the first answers of a new place: one of before may come after them."""
    stream = traffic.Stream(0, "www")
    for answer, times in (
        ((200, "there"), traffic.STEADY - 1),
        ((200, "here"), 1),
        ((200, "there"), traffic.STEADY - 1),
    ):
        for _ in range(times):
            stream.note(*answer)
            assert not stream.is_steady("there")
    stream.note(200, "there")
    assert stream.is_steady("there") and not stream.is_steady("here")
    stream.note(503, "there")
    assert not stream.is_steady("there")


def test_the_stream_counts_anew_once_its_first_place_is_steady():
    """Of a server that has only just been given its first configuration a process of before may answer: 404."""
    all_given = threading.Event()
    with answering([(404, "nobody"), (200, "here"), (503, "here"), (200, "here")], all_given) as port:
        stream = traffic.Stream(port, "www", expected="here")
        stream.note(404, "nobody")
        stream.failed.append((404, "nobody"))
        stream.count_anew()
        assert (stream.sent, stream.failed) == (0, [])
        stream.start()
        assert all_given.wait(30)
        stream.end()
    assert stream.failed == [(404, "nobody"), (503, "here")]


def test_nobody_to_answer_is_a_failure():
    with socket.socket() as held:  # so that nobody else comes to listen there
        held.bind(("127.0.0.1", 0))
        assert traffic.ask(held.getsockname()[1], "www")[0] == 0


@pytest.mark.parametrize(
    "answer",
    [
        Permission(True, "ok", "degraded", None),  # no bound
        Permission(True, "ok", "degraded", int(BEGAN) + 3_600),  # another bound
        Permission(False, "degraded_limit", "degraded", int(BEGAN) + 120),
    ],
)
def test_a_yes_without_its_bound_is_not_what_the_policy_says(answer):
    assert not outage._is_until(answer, BEGAN + 120)
    assert outage._is_until(Permission(True, "ok", "degraded", int(BEGAN) + 120), BEGAN + 120)


def test_a_door_without_mutual_tls_is_seen_to_be_open(tmp_path):
    """A server that asks for no certificate answers strangers, and a server that the CA does not know is an error."""
    identity = stranger.make_certificate(tmp_path / "server.pem", "localhost", datetime.now(UTC).timestamp())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    with answering([(200, "come in")]) as plain, tls_before(context, plain) as port:
        assert stranger.knocks(port, identity).startswith("HTTP/1.")
        other = stranger.make_certificate(tmp_path / "other.pem", "localhost", datetime.now(UTC).timestamp())
        with pytest.raises(ssl.SSLCertVerificationError):
            stranger.knocks(port, other)


@contextmanager
def tls_before(context, plain):
    """One connection after the other, its bytes passed on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    raw, _ = listening.accept()
                except OSError:
                    return
                try:
                    with (
                        context.wrap_socket(raw, server_side=True) as tls,
                        socket.create_connection(("127.0.0.1", plain)) as behind,
                    ):
                        behind.sendall(tls.recv(4096))
                        while piece := behind.recv(4096):  # its head may come before its body
                            tls.sendall(piece)
                except OSError:
                    continue

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_a_claim_that_does_not_hold_names_itself_and_what_was_seen():
    said = []
    proof = Proof(said.append, lambda: None)
    proof.begin("1  A step")
    proof.that("one is one", True)
    with pytest.raises(NotProved, match="one is two; seen: 1"):
        proof.that("one is two", False, 1)
    with pytest.raises(NotProved, match=r"it comes \(waited 0 s\); seen: nothing"):
        proof.wait("it comes", lambda: False, 0, lambda: "nothing")
    assert said == ["one is one"]
    assert proof.claims == {"1  A step": ["one is one"]}


def test_what_goes_wrong_in_a_way_that_nobody_thought_of_is_no_success(tmp_path):
    """The outermost edge: exit 1, the step, the trace; nothing left behind."""
    program = (
        "import sys; from examples.demo import __main__ as demo, story\n"
        "def broken(world): raise ZeroDivisionError('of ours')\n"
        "story.STEPS = (story.Step('A broken step', '', broken),)\n"
        "sys.argv = ['demo', '--without-nginx']; sys.exit(demo.main())"
    )
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "NOT PROVED, in step 1  A broken step: of ours" in done.stdout
    assert "ZeroDivisionError" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_node_is_told_of_in_a_sentence():
    active = {"config_version": 3}
    scopes = {
        "route_policy": {"active": active, "last_rejected": {"reason": "validator_refused"}},
        "qos_policy": {"active": None, "last_rejected": None},
    }

    class Known(Node):
        def status(self):
            return {"state": "active", "scopes": scopes}

    known = Known("gw", ROOT, None)
    assert known.in_words() == "gw is active, route_policy 3 (refused: validator_refused), qos_policy -"
    assert Node("gw", ROOT / "nowhere", None).in_words() == "gw is not running"
