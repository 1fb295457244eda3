"""Two sessions of a PostgreSQL server that meet in rows: one stands still at a place until another one waits for it."""

import threading
from collections.abc import Callable

from sqlalchemy import event, text

from coordinator.database.database import Database

_WAITING = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()")
LOOK_S, MOST_LOOKS = 0.01, 3_000


class Session:
    """A call in a thread of its own. With `stops_at` it stands still after the statement of which that says so, until
    it is told to `go_on`.
    """

    def __init__(self, database: Database, call: Callable[[], object], stops_at: Callable[[str], bool] | None = None):
        self._database, self._call, self._stops_at = database, call, stops_at
        self._stands, self._goes_on = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> "Session":
        if self._stops_at is not None:
            event.listen(self._database.engine, "after_cursor_execute", self._look)
        self._thread.start()
        if self._stops_at is not None:
            assert self._stands.wait(30), self._error or "it did not come there"
        return self

    def go_on(self) -> None:
        self._goes_on.set()

    def end(self) -> None:
        """The error of the call, where there was one."""
        self._thread.join(60)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - raised by `end`
            self._error = error
            self._stands.set()

    def _look(self, _connection, _cursor, statement: str, *_rest: object) -> None:
        is_ours = threading.current_thread() is self._thread
        if is_ours and not self._stands.is_set() and self._stops_at is not None and self._stops_at(statement):
            self._stands.set()
            assert self._goes_on.wait(60)


def until_waiting(database: Database, sessions: int = 1) -> None:
    """Until so many sessions wait for a lock, which the server tells nobody by itself."""
    for _ in range(MOST_LOOKS):
        with database.engine.connect() as connection:
            if connection.execute(_WAITING).scalar_one() >= sessions:
                return
        threading.Event().wait(LOOK_S)
    raise AssertionError("nobody waits")


def writes(table: str) -> Callable[[str], bool]:
    """Whether a statement writes a table."""
    return lambda statement: statement.split(" ", 2)[:2] == ["UPDATE", table] or statement.split(" ", 3)[2] == table


def deletes(table: str) -> Callable[[str], bool]:
    return lambda statement: statement.split(" ", 3)[:3] == ["DELETE", "FROM", table]
