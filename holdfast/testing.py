"""An agent for tests: `holdfast dev` over files of the test's own, on a socket of its own. Standard library only.

    from holdfast.testing import Agent

    def test_my_service():
        with Agent({"services/web/settings.json": {"workers": 4}}) as agent:
            assert my_service(agent.client()).workers == 4
            agent.write("services/web/settings.json", {"workers": 8})
            ...

It is a process, so it goes with any test runner and any event loop; `agent.environment` has the variables by which
other processes find it. What it answers is what an agent answers, but nothing is signed.
"""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.client import Client, HoldfastError

WITHIN_S = 30.0
LOOK_S = 0.05
COMMAND = "from holdfast.node.command import main; main(prog_name='holdfast')"


class Agent:
    """A context manager. `files`: JSON values, or bytes as they are, by their path as `holdfast dev` has them."""

    def __init__(self, files: Mapping[str, Any] | None = None, *, within_s: float = WITHIN_S) -> None:
        self._given = dict(files or {})
        self._within_s = within_s
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            root = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="hf-", ignore_cleanup_errors=True)))
            self._root = root
            self.folder.mkdir()
            for path, value in self._given.items():
                self._put(path, value)
            ends.callback(self._stop)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-c", COMMAND, "dev", str(self.folder), *self._options],
                stdout=subprocess.PIPE,
                stderr=ends.enter_context(self._log.open("wb")),
            )
            self._wait_until_it_answers()
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    @property
    def folder(self) -> Path:
        """The plain files, which may be changed by any means; `write` waits until it is seen."""
        return self._root / "plain"

    @property
    def socket(self) -> Path:
        return self._root / "agent.sock"

    @property
    def files(self) -> Path:
        """The projected files, as under /run/holdfast/active."""
        return self._root / "active"

    @property
    def environment(self) -> Mapping[str, str]:
        """This process's, with the variables by which Client() and `holdfast` find this agent."""
        return {**os.environ, "HOLDFAST_SOCKET": str(self.socket), "HOLDFAST_FILES": str(self.files)}

    def client(self) -> Client:
        return Client(self.socket, self.files)

    def write(self, path: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
        """Changes a file, or takes it away (None), and waits until that is what the agent answers. HoldfastError with
        the agent's words where it is not taken.
        """
        before = self._looks()
        self._put(path, value)
        end = time.monotonic() + self._within_s
        while self._looks() < before + 2:  # the look that is running may have passed it by
            if time.monotonic() > end:
                raise TimeoutError(f"{path} was not seen within {self._within_s} s")
            time.sleep(LOOK_S)
        fault = self.client().status()["store"]["fault"]
        if fault:
            raise HoldfastError("not_taken", fault)

    @property
    def _log(self) -> Path:
        return self._root / "log"

    @property
    def _options(self) -> list[str]:
        return ["--socket", str(self.socket), "--files", str(self.files)]

    def _put(self, path: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
        target = self.folder / path
        if value is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = target.with_name(f".{target.name}")  # so that nobody reads half of it
        whole.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())  # noqa: TID251 - a plain file
        whole.replace(target)

    def _looks(self) -> int:
        looks: int = self.client().status()["counters"]["looks"]
        return looks

    def _wait_until_it_answers(self) -> None:
        """It says so by its first line."""
        output = self._process.stdout
        with selectors.DefaultSelector() as selector:
            if output is not None:
                selector.register(output, selectors.EVENT_READ)
            if output is not None and selector.select(self._within_s) and output.readline():
                return
        self._process.kill()
        self._process.communicate()
        said = self._log.read_text(errors="replace").strip()
        raise HoldfastError("not_started", said or f"it did not answer within {self._within_s} s")

    def _stop(self) -> None:
        process = getattr(self, "_process", None)
        if process is None:
            return
        process.terminate()
        try:
            process.communicate(timeout=self._within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
