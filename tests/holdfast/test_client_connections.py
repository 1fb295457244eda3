"""Which connections the client library uses: what is kept between calls, and what is not."""

import os
import socket
import threading
from contextlib import contextmanager
from itertools import takewhile

import pytest

from holdfast.client import AgentDown, Client

ANSWER = b"HTTP/1.1 200 \r\nholdfast-generation: 4\r\ncontent-length: 2\r\n\r\n{}"


class Agent:
    """Answers each connection so many requests with a section `{}`, and ends it at the next: unseen, or unheard."""

    def __init__(self, path, answers, hears):
        self.path, self.connections, self._threads = path, 0, []
        self._answers, self._hears = answers, hears
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)

    def run(self):
        with self._listener:
            while True:
                caller, _ = self._listener.accept()
                if not caller.recv(1, socket.MSG_PEEK):
                    caller.close()
                    break
                self.connections += 1
                self._threads.append(threading.Thread(target=self._serve, args=(caller,)))
                self._threads[-1].start()
        for thread in self._threads:
            thread.join()

    def _serve(self, caller):
        with caller, caller.makefile("rb") as said:
            for _ in range(self._answers):
                if not read_request(said):
                    return
                caller.sendall(ANSWER)
            if self._hears:
                read_request(said)

    def end(self):
        """No client is left."""
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.path))


def read_request(said):
    """Head and body, which may come one after the other; nothing where the connection has ended."""
    lines = list(takewhile(lambda line: line not in {b"", b"\r\n"}, said))
    length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    return b"".join(lines) + said.read(length)


@contextmanager
def agent(folder, answers=1000, hears=True):
    made = Agent(folder / "agent.sock", answers, hears)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        with Client(made.path, folder / "files") as client:
            yield made, client
    finally:
        made.end()
        thread.join()


def test_calls_go_over_one_connection(tmp_path):
    with agent(tmp_path) as (made, client):
        assert [client.get("route_policy", "routes").value for _ in range(5)] == [{}] * 5
        assert client.request("POST", "/v1/may").value == {}  # a question as well
        assert made.connections == 1
        client.close()
        assert client.get("route_policy", "routes").value == {}
        assert made.connections == 2


@pytest.mark.parametrize("hears", [False, True])
def test_a_connection_that_the_agent_ended_is_replaced(tmp_path, hears):
    """Also at the moment at which it is used."""
    with agent(tmp_path, answers=2, hears=hears) as (made, client):
        assert [client.get("route_policy", "routes").value for _ in range(6)] == [{}] * 6
        assert made.connections == 3


def test_what_may_not_be_asked_twice_has_a_connection_of_its_own(tmp_path):
    with agent(tmp_path) as (made, client):
        client.get("route_policy", "routes")
        client.request("POST", "/v1/trust/confirm", b"{}")
        assert made.connections == 2


def test_an_agent_that_answers_nothing_is_asked_once_more_and_no_longer(tmp_path):
    with agent(tmp_path, answers=0) as (made, client):
        with pytest.raises(AgentDown):
            client.request("GET", "/v1/status")
        assert made.connections == 1


def test_a_process_that_was_forked_has_its_own(tmp_path, monkeypatch):
    with agent(tmp_path) as (made, client):
        client.get("route_policy", "routes")
        mine = os.getpid()
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(os, "getpid", lambda: mine + 1)
            client.get("route_policy", "routes")
            client.get("route_policy", "routes")
            assert made.connections == 2


def test_several_threads_share_a_client(tmp_path):
    with agent(tmp_path) as (made, client):
        found = []
        threads = [
            threading.Thread(target=lambda: found.extend(client.get("a", "b").value for _ in range(50)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [{}] * 400
        assert made.connections <= 8
