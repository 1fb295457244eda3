"""HTTP requests through the gateway, as a client sends them: one at a time, and a steady stream beside everything."""

import http.client
import threading
from dataclasses import dataclass, field

EVERY_S = 0.05
STEADY = 20  # answers
TIMEOUT_S = 30.0


def ask(port: int, host: str) -> tuple[int, str]:
    """Status and body; (0, why) where nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/", headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()


@dataclass
class Stream:
    """Twenty requests a second, from `start` to `end`; `failed` are the answers that were not what is expected.

    `expected`: the body; None while either of two may come. `alike`: how many answers were the same as the last one.
    """

    port: int
    host: str
    expected: str | None = None
    sent: int = 0
    alike: int = 0
    last: tuple[int, str] = (0, "")
    failed: list[tuple[int, str]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def note(self, status: int, body: str) -> None:
        self.sent += 1
        self.alike = self.alike + 1 if (status, body) == self.last else 1
        self.last = status, body

    def is_steady(self, body: str) -> bool:
        """Whether nothing else came for a while: a server that reads its configuration anew has processes of before,
        which may take a last request after others have answered by the new one.
        """
        return self.last == (http.client.OK, body) and self.alike >= STEADY

    def count_anew(self) -> None:
        """What was asked before this is nobody's claim."""
        self.sent, self.failed = 0, []

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            expected = self.expected
            status, body = ask(self.port, self.host)
            self.note(status, body)
            if status != http.client.OK or expected not in (None, body):
                self.failed.append((status, body))
