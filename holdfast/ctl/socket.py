"""The coordinator as an operator asks it, and what a refusal says and does (docs/admin-api.md)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import click
import httpx
from click.core import ParameterSource

from coordinator.base.refusal import Code, Refused
from coordinator.keys.signing_key import UnusableKeyError
from holdfast.ctl.endpoint import CONNECT_S, LONG_S, AdminEndpoint, Afar, Socket, UnusablePlaceError
from holdfast.terminal.shown import say, say_json, shown
from holdfast.terminal.starting import wait_for
from snapshot.codes import Area, explain
from wire.answer_message import AnswerMessage, AnswerPage
from wire.messages import BadMessageError, Message
from wire.operators.operator_answers import OperatorRefusal

Read = TypeVar("Read", bound=AnswerMessage)
Paged = TypeVar("Paged", bound=AnswerPage)
Shown = TypeVar("Shown")

SOCKET = Path("/run/holdfast-coordinator/admin.sock")
DIFFERENT, UNANSWERED, NOT_FOUND, UNCONFIRMED, REFUSED = 1, 3, 4, 5, 6
NOT_DONE = 7  # a change ended otherwise than done
HELD_S = 90.0  # of a question that is held until something is new
NOT_WRITTEN = 74  # sysexits(3): EX_IOERR
_NOT_FOUND = frozenset({"not_found", "unknown_site"})


class Failed(click.ClickException):
    """Ends the command with a line that names the remedy, and an exit status."""

    def __init__(self, message: str, status: int, *, code: str = "", more: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.more = tuple(more)  # a line each
        self.exit_code = status  # type: ignore[misc]  # click asks the instance
        self.code = code

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - as click has it
        say(f"holdfastctl: {self.message}", *self.more, err=True)


@dataclass(frozen=True)
class CoordinatorClient:
    """One coordinator, and how its answers are shown."""

    place: AdminEndpoint
    as_json: bool

    @property
    def is_afar(self) -> bool:
        return isinstance(self.place, Afar)

    @cached_property
    def _listening(self) -> AdminEndpoint:
        """The place, where one that is being started was waited for: by the first request, not by a command without."""
        if isinstance(self.place, Socket):  # whoever starts a coordinator is on its machine
            wait_for(self.place.path)
        return self.place

    def get(self, kind: type[Read], /, *segments: str, **query: object) -> Read:
        return self._ask(kind, "GET", segments, query=query)

    def wait(self, kind: type[Read], /, *segments: str, **query: object) -> Read:
        """Of a question that is held for a while, no answer is none sooner than of others."""
        return self._ask(kind, "GET", segments, query=query, read_s=HELD_S)

    def pages(self, kind: type[Paged], name: str, /, **query: object) -> Iterator[Paged]:
        """A list that is told by pages, all of them."""
        after = None
        while True:
            page = self.get(kind, name, after=after, **query)
            yield page
            after = page.next
            if after is None:
                return

    def post(self, kind: type[Read], *segments: str, body: Message) -> Read:
        return self._ask(kind, "POST", segments, body=body.to_value())

    def send(self, kind: type[Read], *segments: str, content: bytes, media_type: str) -> Read:
        return self._ask(kind, "POST", segments, content=content, media_type=media_type)

    def delete(self, kind: type[Read], *segments: str) -> Read:
        return self._ask(kind, "DELETE", segments)

    def show(self, answer: Shown, render: Callable[[Shown], None]) -> None:
        """The answer as JSON for scripts, or rendered for people."""
        if self.as_json:
            say_json(answer.to_value() if isinstance(answer, Message) else answer)
        else:
            render(answer)

    def say(self, answer: object, *lines: str) -> None:
        self.show(answer, lambda _: say(*lines))

    def _ask(
        self,
        kind: type[Read],
        method: str,
        segments: Sequence[str],
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        content: bytes | None = None,
        media_type: str = "",
        read_s: float = LONG_S,
    ) -> Read:
        headers = {} if content is None else {"content-type": media_type}
        path = "/v1/" + "/".join(quote(segment, safe="") for segment in segments)
        given: list[tuple[str, str | int | float | bool | None]] = [
            (name, str(item)) for name, value in (query or {}).items() for item in _each(value)
        ]
        try:
            with self._listening.client() as client:
                within = httpx.Timeout(read_s, connect=CONNECT_S)
                answer = client.request(
                    method, path, params=given, json=body, content=content, headers=headers, timeout=within
                )
        except UnusablePlaceError as error:
            raise Failed(str(error), UNANSWERED) from None
        except (httpx.HTTPError, OSError) as error:
            detail = str(error) or type(error).__name__
            raise Failed(f"{self.place}: {detail}; {self.place.remedy(error)}", UNANSWERED) from None
        try:
            if answer.is_success:
                return kind.read(answer.content)
            raise failure_of(OperatorRefusal.read(answer.content))
        except BadMessageError as error:
            remedy = "is it the admin socket, and of a coordinator of this version?"
            raise Failed(f"{self.place}: not a coordinator's answer: {error}; {remedy}", UNANSWERED) from None


def _each(value: object) -> Sequence[object]:
    """A member of a query may stand there several times, once, or not at all."""
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def asks_the_coordinator(function: Callable[..., None]) -> Callable[..., None]:
    """A command's body that is given an `CoordinatorClient`."""

    @click.option(
        "--socket",
        type=click.Path(path_type=Path, readable=False),  # `_unanswered` has the remedy
        default=SOCKET,
        show_default=True,
        envvar="HOLDFAST_ADMIN_SOCKET",
        help="The coordinator's admin socket.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
    @wraps(function)
    @says_what_is_wrong
    def wrapper(socket: Path, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - the command's own options
        function(CoordinatorClient(_place(click.get_current_context(), socket), as_json), **given)

    return wrapper


def _place(ctx: click.Context, socket: Path) -> AdminEndpoint:
    """`--url` says where, unless --socket is given here and the URL comes from the environment."""
    afar: dict[str, Any] = ctx.find_root().obj or {}
    if not afar.get("url"):
        return Socket(socket)
    if ctx.get_parameter_source("socket") is ParameterSource.COMMANDLINE:
        if ctx.find_root().get_parameter_source("url") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--url and --socket name two places; give one of them")
        return Socket(socket)
    missing = [f"--{name}" for name, value in afar.items() if not value]
    if missing:
        raise click.UsageError(f"--url needs {', '.join(missing)} too")
    try:
        return Afar(**afar)
    except UnusablePlaceError as error:
        raise click.UsageError(str(error)) from None


def says_what_is_wrong(function: Callable[..., None]) -> Callable[..., None]:
    """What is refused on this side of the socket ends the command likewise, and is printed in the same form."""

    @wraps(function)
    def wrapper(**given: Any) -> None:  # noqa: ANN401 - the command's own options
        try:
            function(**given)
        except Refused as refused:
            raise failure_of(_answer_of(refused)) from None
        except UnusableKeyError as error:
            raise Failed(f"{Code.BAD_KEY}: {error}", REFUSED, code=Code.BAD_KEY.value) from None
        except BrokenPipeError:
            raise  # who read the answer has gone; click ends without a word
        except OSError as error:
            if error.filename is None:
                raise Failed(f"the answer could not be written: {error.strerror}", NOT_WRITTEN) from None
            raise Failed(f"{error.filename}: {error.strerror}; nothing was changed", REFUSED) from None

    return wrapper


def _answer_of(refused: Refused) -> OperatorRefusal:
    remedy = f" ({refused.remedy})" if refused.remedy else ""
    return OperatorRefusal(refused.code.value, f"{refused.detail}{remedy}", None, refused.lines or None)


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`; anything but a yes ends the command with nothing changed."""
    if yes:
        return
    try:
        agreed = click.confirm(shown(question), err=True)
    except click.Abort:
        raise Failed("nobody answered; give --yes where nobody can be asked", UNCONFIRMED) from None
    if not agreed:
        raise Failed("not confirmed; nothing was changed", UNCONFIRMED)


def failure_of(said: OperatorRefusal) -> Failed:
    code, message = said.code, said.message
    lines = list(said.lines or ())
    if said.problems is not None:
        lines = [
            f"{problem.file}:{problem.line}: {problem.field}: {problem.message} ({problem.remedy})"
            for problem in said.problems
        ]
        message = f"{len(lines)} problems; nothing was changed"
    elif not message.endswith(")") and (found := explain(code, Area.REQUEST, Area.LISTENER)) is not None:
        message += f" ({found.clause})"  # where it names no remedy of its own
    return Failed(f"{code}: {message}", NOT_FOUND if code in _NOT_FOUND else REFUSED, code=code, more=lines)
