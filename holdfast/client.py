"""The configuration of this node, for services: a small client of the agent's Unix socket, standard library only.

    from holdfast.client import Client

    client = Client()
    settings = client.service("web").settings
    for web in client.watch_service("web"):     # what there is, and then each change of it
        ...
    nginx_conf = client.file("edge", "nginx.conf")           # bytes, of the Config `edge`
    for found in client.watch_files("edge"):                 # which files there are, and each change of one
        ...
    routes = client.routes().routes             # by id
    policies = client.get("qos_policy", "policies").value
    for change in client.watch("qos_policy"):
        ...                                     # read again what change.scopes names
    if client.may("start_service", resource="web").allowed:
        ...

Large maps are signed and kept in parts (`routes.2c`, `routes.3f`), and a reader need not know: by the map's own name
`get` gives all of it, by a part's name the part as it was signed. Socket and files are those of the environment
(HOLDFAST_SOCKET, HOLDFAST_FILES), else the packages'.

While the agent is down, `get` and `watch` answer from the files that it left (/run/holdfast/active), and say so by
`source == "files"`; their grade is then never better than `stale`. `may` and `status` have no such answer: they raise
AgentDown, and what `may` was asked about counts as not allowed. Every other refusal is an error with a stable `code`.
"""

import hashlib
import http.client
import json
import os
import re
import select
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

SOCKET = Path("/run/holdfast/agent.sock")
FILES = Path("/run/holdfast/active")
AGENT, FROM_FILES = "agent", "files"
STALE, EXPIRED = "stale", "expired"

TIMEOUT_S = 15.0
WAIT_S = 55
LOOK_EVERY_S = 1.0
PIECE_BYTES = 256 << 10
MOST_IDS_BYTES = 180  # longer ids of a scope are given by their hash, in a file's path
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # which need not be readable to go through it
_SERVICE, _ROUTES = "service_assignment/", "route_policy"
_OF_SERVICE = ("organization_id", "workload", "endpoints", "settings", "resources")
_MAY = "/v1/may"
_PART = re.compile(r"(.+)\.[0-9a-f]{2,}")
_CONFIG = "config/"
_FILE_PART_BYTES = 1 << 20  # of a larger file the ETag is a hash over the hashes of its parts


class HoldfastError(Exception):
    """`code` is stable; the text is for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class AgentDown(HoldfastError):
    """Nobody answers at the socket, or it may not be opened."""


class NotFound(HoldfastError):
    """There is no such scope or section, or it is not for this caller."""


class Expired(HoldfastError):
    """The scope is over. `facts`: of the version that there was."""

    def __init__(self, code: str, text: str, facts: "Facts") -> None:
        super().__init__(code, text)
        self.facts = facts


class AgentRefused(HoldfastError):
    """Any other answer than the one asked for. `status` is HTTP's; `step`: where a document's verification ended."""

    def __init__(self, code: str, text: str, status: int, step: int | None = None) -> None:
        super().__init__(code, text)
        self.status = status
        self.step = step


@dataclass(frozen=True)
class Facts:
    """What is known of an answer. Times are Unix seconds; what does not apply is None.

    `grade`: `fresh` (confirmed by the coordinator lately), `stale` or `expired`. `source`: `agent`, `files`, or
    `development` where plain files are served (`holdfast dev`).
    """

    source: str
    generation: int
    grade: str
    version: int | None = None
    epoch: int | None = None
    expires_at: int | None = None
    age_s: int | None = None
    etag: str | None = None


@dataclass(frozen=True)
class Section:
    """A section's bytes, as they were signed."""

    data: bytes
    facts: Facts

    @property
    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        return json.loads(self.data)


@dataclass(frozen=True)
class ConfiguredService:
    """What this node knows of a service; None for what it is not told, as `settings` where it only leads to it.
    `resources`: what it goes out by, by id, without what is revoked.

    Two are equal when they say the same, whatever version they are of.
    """

    id: str
    settings: Any
    endpoints: Any
    workload: str | None
    organization_id: str | None
    resources: Any
    facts: Facts = field(compare=False)

    @property
    def value(self) -> dict[str, Any]:
        """The members as JSON."""
        return {name: getattr(self, name) for name in _OF_SERVICE}


@dataclass(frozen=True)
class ConfiguredRoutes:
    """All routes by id. Two are equal when they say the same."""

    routes: Mapping[str, Any]
    facts: Facts = field(compare=False)


@dataclass(frozen=True)
class ConfiguredRoute:
    """A route. Two are equal when they say the same."""

    id: str
    value: Mapping[str, Any]
    facts: Facts = field(compare=False)


class FileBytes(bytes):
    """A file of a Config, and what is known of it."""

    facts: Facts

    def __new__(cls, data: bytes, facts: Facts) -> "FileBytes":
        made = super().__new__(cls, data)
        made.facts = facts
        return made


@dataclass(frozen=True)
class OpenFile:
    """A file as it comes: a piece at a time, so that its size costs no memory."""

    size: int
    facts: Facts
    pieces: Iterator[bytes]


@dataclass(frozen=True)
class ListedFile:
    """A file of a Config. `mode` as `0644`; `hash`: `sha256:...` of its bytes, of more than 1 MiB over the hashes of
    the parts in which it is signed. In quotes it is the ETag of the file.
    """

    size: int
    mode: str
    hash: str


@dataclass(frozen=True)
class ConfiguredFiles:
    """Which files a Config has, by path. Two are equal when all of their files are."""

    id: str
    files: Mapping[str, ListedFile]
    facts: Facts = field(compare=False)


@dataclass(frozen=True)
class Change:
    """What has changed up to this generation: section names by scope, and which services and routes these are, by id;
    `*` is every route. It may name more than has changed.
    """

    generation: int
    scopes: Mapping[str, tuple[str, ...]]
    source: str = AGENT
    services: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Permission:
    """`until`: Unix seconds; ask again then."""

    allowed: bool
    reason: str
    mode: str
    until: int | None


class Client:
    """It may be used from several threads, and goes on in a process that is forked.

    A connection is kept between calls, for each that ran at the same time: a call over it takes a third of the time
    that it takes over one of its own. The agent ends connections that rest where others need the room; the next call
    notices, and goes over a new one. `close`, the end of a `with` block, and the last reference give them back.
    """

    def __init__(
        self, socket_path: Path | str | None = None, files: Path | str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`socket_path`, else HOLDFAST_SOCKET, else where the packages have it; of `files` the same."""
        self._resting: list[_Connection] = []
        self._process = os.getpid()
        self._socket = Path(socket_path or os.environ.get("HOLDFAST_SOCKET") or SOCKET)
        self._files = Path(files or os.environ.get("HOLDFAST_FILES") or FILES)
        self._timeout_s = timeout_s

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """What rests is given back. The client may be used again."""
        while (connection := self._take_resting()) is not None:
            connection.close()

    # ---- services and routes, by their ids

    def service(self, service_id: str, *, expired: bool = False) -> ConfiguredService:
        """NotFound; Expired, unless `expired` asks for it all the same."""
        found = self._service(service_id, None, 0, expired=expired)
        if found is None:
            raise AgentRefused("bad_answer", "nothing new, though nothing was held", http.client.NOT_MODIFIED)
        return found

    def services(self) -> Mapping[str, Any]:
        """Version, expiry and grade of each service that this caller may read."""
        try:
            found: Mapping[str, Any] = self.request("GET", "/v1/services").value["services"]
        except AgentDown:
            held = self._index()["scopes"]
            found = {name.removeprefix(_SERVICE): _entries(held[name]) for name in held if name.startswith(_SERVICE)}
        return found

    def routes(self, *, expired: bool = False) -> ConfiguredRoutes:
        """All of them. NotFound, Expired as `service`."""
        section = self.get(_ROUTES, "routes", expired=expired)
        return ConfiguredRoutes(section.value, section.facts)

    def route(self, route_id: str, *, expired: bool = False) -> ConfiguredRoute:
        """NotFound, Expired as `service`."""
        try:
            answer = self.request("GET", f"/v1/routes/{quote(route_id, safe='')}{_allowing(expired)}")
            return ConfiguredRoute(route_id, answer.value["route"], answer.facts)
        except AgentDown:
            held = self.routes(expired=expired)
        if route_id not in held.routes:
            raise NotFound("not_found", f"there is no route {route_id} here")
        return ConfiguredRoute(route_id, held.routes[route_id], held.facts)

    def watch_service(self, service_id: str, *, wait_s: int = WAIT_S) -> Iterator[ConfiguredService]:
        """The service as it is, and again each time that it says something else. NotFound where there is none, or none
        any more; Expired once it is over.
        """
        return _follow(lambda etag: self._service(service_id, etag, wait_s))

    def watch_routes(self, *, wait_s: int = WAIT_S) -> Iterator[ConfiguredRoutes]:
        """All routes, and again each time that one has changed. NotFound, Expired as `watch_service`."""
        return _follow(lambda etag: self._routes(etag, wait_s))

    def _service(
        self, service_id: str, etag: str | None, wait_s: int, *, expired: bool = False
    ) -> ConfiguredService | None:
        """None where it is what `etag` stands for still."""
        path = f"/v1/services/{quote(service_id, safe='')}"
        try:
            answer = self._wait(path + _allowing(expired), etag, wait_s)
        except AgentDown:
            return self._service_from_files(service_id, expired=expired)
        return None if answer is None else _service_of(service_id, answer.value, answer.facts)

    def _routes(self, etag: str | None, wait_s: int) -> ConfiguredRoutes | None:
        try:
            answer = self._wait("/v1/routes", etag, wait_s)
        except AgentDown:
            return self.routes()
        return None if answer is None else ConfiguredRoutes(answer.value["routes"], answer.facts)

    def _wait(self, path: str, etag: str | None, wait_s: int) -> "Answer | None":
        """The answer once it is another than `etag` stands for, None where it is not in that time."""
        if etag is None:
            return self.request("GET", path)
        query = f"{'&' if '?' in path else '?'}wait={wait_s}"
        answer = self.request("GET", path + query, wait_s=wait_s, headers={"If-None-Match": etag})
        return None if answer.status == http.client.NOT_MODIFIED else answer

    # ---- files of a Config

    def file(self, config: str, path: str, *, known: FileBytes | None = None, expired: bool = False) -> FileBytes:
        """All of a file. With `known`, as it was read before, nothing is sent again that is still so. NotFound;
        Expired, unless `expired` asks for it all the same.
        """
        with self.open_file(config, path, known=known, expired=expired) as found:
            data = b"".join(found.pieces)
        etag = found.facts.etag or f'"{_hash_of(iter((data,)))}"'
        return FileBytes(data, replace(found.facts, etag=etag))

    @contextmanager
    def open_file(
        self, config: str, path: str, *, known: FileBytes | None = None, expired: bool = False
    ) -> Iterator[OpenFile]:
        """As `file`, a piece at a time. AgentDown also where the answer breaks off: what came before it is not all."""
        if {"", ".", ".."}.intersection(path.split("/")):
            raise _no_file(config, path)
        asked = f"/v1/config/{quote(config, safe='')}/{quote(path)}{_allowing(expired)}"
        etag = None if known is None else known.facts.etag
        try:
            connection, response = self._ask("GET", asked, headers={} if etag is None else {"If-None-Match": etag})
        except AgentDown:
            descriptor, facts = self._open_in_files(config, path, expired=expired)
            with os.fdopen(descriptor, "rb") as file:
                yield OpenFile(os.fstat(descriptor).st_size, facts, _pieces_of(file))
            return
        with self._keeping(connection, response):
            answer = _answer(response, b"")
            if known is not None and response.status == http.client.NOT_MODIFIED:
                yield OpenFile(len(known), answer.facts, iter((known,)))
            else:
                size = _size_of(response)
                yield OpenFile(size, answer.facts, _receive(response, size))

    def files(self, config: str, *, expired: bool = False) -> ConfiguredFiles:
        """Which files there are. NotFound, Expired as `file`."""
        found = self._config_files(config, None, 0, expired=expired)
        if found is None:
            raise AgentRefused("bad_answer", "nothing new, though nothing was held", http.client.NOT_MODIFIED)
        return found

    def watch_files(self, config: str, *, wait_s: int = WAIT_S) -> Iterator[ConfiguredFiles]:
        """Which files there are, and again each time that one is another, has come or gone: read those whose `hash`
        differs. NotFound, Expired as `watch_service`.
        """
        return _follow(lambda etag: self._config_files(config, etag, wait_s))

    def _config_files(
        self, config: str, etag: str | None, wait_s: int, *, expired: bool = False
    ) -> ConfiguredFiles | None:
        try:
            answer = self._wait(f"/v1/config/{quote(config, safe='')}{_allowing(expired)}", etag, wait_s)
        except AgentDown:
            return self._look_at_files(config, etag, expired=expired)
        if answer is None:
            return None
        return ConfiguredFiles(
            config, {path: ListedFile(**entry) for path, entry in answer.value["files"].items()}, answer.facts
        )

    def _look_at_files(self, config: str, etag: str | None, *, expired: bool) -> ConfiguredFiles | None:
        """None, after a while, where they are what `etag` stands for still: then none of them is read."""
        with self._generation(f"{_CONFIG}{config}", expired=expired) as held:
            if held.etag != etag:
                found = dict(_files_below(held.folder, held.path))
                return ConfiguredFiles(config, found, replace(held.facts, etag=held.etag))
        time.sleep(LOOK_EVERY_S)
        return None

    def _open_in_files(self, config: str, path: str, *, expired: bool) -> tuple[int, Facts]:
        with self._generation(f"{_CONFIG}{config}", expired=expired) as held:
            try:
                descriptor = os.open(f"{held.path}/{path}", _FILE, dir_fd=held.folder)
            except (FileNotFoundError, NotADirectoryError):
                raise _no_file(config, path) from None
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise _no_file(config, path)
            return descriptor, held.facts

    # ---- configuration

    def get(self, scope: str, section: str | None = None, *, expired: bool = False) -> Section:
        """A section; without one, all of the scope as one object by section name. A map that is kept in parts is one
        section, of one version. NotFound; Expired, unless `expired` asks for it all the same.
        """
        if section is None:
            return self._all_in_one(scope, expired=expired)
        try:
            return self._section(scope, section, expired=expired)
        except NotFound:
            for name, parts in self.whole(scope, expired=expired):
                if name == section:
                    return join_parts(parts)
            raise

    def whole(self, scope: str, *, expired: bool = False) -> Iterator[tuple[str, Iterator[Section]]]:
        """As `sections`, those that are parts of one map under its name: name, and the parts of it as they come."""
        plain: set[str] = set()
        sections = self.sections(scope, expired=expired)
        for name, found in groupby(sections, lambda each: _map_of(each[0], each[1], plain)):
            yield name, (section for _, section in found)

    def _all_in_one(self, scope: str, *, expired: bool) -> Section:
        every = {name: join_parts(parts) for name, parts in self.whole(scope, expired=expired)}
        members = [_quote(name) + b":" + section.data for name, section in every.items()]
        known = [section.facts for section in every.values()] or [self._facts(scope, expired=expired)]
        return Section(b"{" + b",".join(members) + b"}", known[0])

    def _facts(self, scope: str, *, expired: bool) -> Facts:
        try:
            return self.request("GET", _scope_path(scope, expired=expired)).facts
        except AgentDown:
            with self._generation(scope, expired=expired) as held:
                return held.facts

    def _section(self, scope: str, section: str, *, expired: bool) -> Section:
        path = f"/v1/scopes/{quote(scope, safe='')}/sections/{quote(section, safe='')}"
        try:
            answer = self.request("GET", path + _allowing(expired))
        except AgentDown:
            return self._from_files(scope, section, expired=expired)
        return Section(answer.body, answer.facts)

    def sections(self, scope: str, *, expired: bool = False) -> Iterator[tuple[str, Section]]:
        """Every section of one version as it was signed, by name, one after the other: a large scope costs no more
        memory than its largest section. As `get`; AgentDown also where the answer breaks off, and what came before it
        is not all.
        """
        path = _scope_path(scope, expired=expired)
        try:
            connection, response = self._ask("GET", path)
        except AgentDown:
            yield from self._all_from_files(scope, expired=expired)
            return
        with self._keeping(connection, response):
            try:
                if response.status != http.client.OK:
                    _judge(_answer(response, response.read()))
                facts = _answer(response, b"").facts
                yield from ((name, Section(data, facts)) for name, data in _split(response))
            except (OSError, http.client.HTTPException) as error:
                raise _break_off(error) from error

    def document(self, scope: str, *, expired: bool = False, slot: str = "active") -> dict[str, Any]:
        """Envelope, manifest and all sections; `slot` is `active`, `previous` or `pending`. AgentDown."""
        query = {"slot": slot, **({"expired": "allow"} if expired else {})}
        found: dict[str, Any] = self.request("GET", f"/v1/scopes/{quote(scope, safe='')}?{urlencode(query)}").value
        return found

    def rejections(self, scope: str) -> list[dict[str, Any]]:
        """What was refused in a scope and why, the newest first. AgentDown, NotFound."""
        found: list[dict[str, Any]] = self.request("GET", f"/v1/scopes/{quote(scope, safe='')}/rejections").value[
            "rejections"
        ]
        return found

    def scopes(self) -> Mapping[str, Any]:
        """Version, expiry and grade of each active scope that this caller may read."""
        try:
            found: Mapping[str, Any] = self.request("GET", "/v1/scopes").value["scopes"]
        except AgentDown:
            found = self._index()["scopes"]
        return found

    def watch(self, *scopes: str, after: int | None = None, wait_s: int = WAIT_S) -> Iterator[Change]:
        """Each change of these scopes (of all, without any) after a generation, or from now on. It never ends.

        Read again what a change names; a service that has just started reads first, then watches after the
        generation that it read.
        """
        position = after
        seen: Mapping[str, Any] | None = None
        while True:
            try:
                if position is None:
                    position = self.request("GET", "/v1/scopes").facts.generation
                change = self._poll(scopes, position, wait_s)
                seen = None
            except AgentDown:
                seen, change = self._look(scopes, position, seen)
                if change is None:
                    time.sleep(LOOK_EVERY_S)
            if change is not None:
                position = change.generation
                yield change

    # ---- the node

    def may(
        self,
        action: str,
        *,
        scope: str | None = None,
        resource: str | None = None,
        running_since: float | None = None,
        certificate: str | None = None,
    ) -> Permission:
        """The gate of degraded mode. AgentDown counts as no.

        A service asks `continue_services` for itself (`resource`) at its start and again at `until`: the node goes by
        what it has seen under a fresh head. `running_since` (Unix seconds) asks about one thing that was there then.
        `validate_peers` with a `certificate` (`sha256:<hex>` of its DER) asks whether the peer (`resource`) is pinned
        by it.
        """
        asked: dict[str, object] = {
            "action": action, "scope": scope, "resource": resource, "certificate": certificate
        }  # fmt: skip
        if running_since is not None:
            asked["running_since"] = datetime.fromtimestamp(int(running_since), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {name: value for name, value in asked.items() if value is not None}
        value = self.request("POST", _MAY, json.dumps(body).encode()).value  # noqa: TID251 - a question, no document
        until = None if value["until"] is None else unix_seconds(value["until"])
        return Permission(value["allowed"], value["reason"], value["mode"], until)

    def status(self) -> dict[str, Any]:
        """State, mode, scopes, services: as `holdfast status` shows them."""
        found: dict[str, Any] = self.request("GET", "/v1/status").value
        return found

    # ---- inside

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - as http.client takes it
        *,
        wait_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> "Answer":
        """One request. AgentDown, NotFound, Expired, AgentRefused."""
        connection, response = self._ask(method, path, body, wait_s, headers)
        with self._keeping(connection, response):
            try:
                data = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise AgentDown("agent_down", _why(self._socket, error)) from error
        return _judge(_answer(response, data))

    @contextmanager
    def _keeping(self, connection: "_Connection", response: http.client.HTTPResponse) -> Iterator[None]:
        """Until the answer is read; a connection of which more would come is not kept."""
        try:
            yield
        finally:
            if response.isclosed() and not response.will_close:
                self._resting.append(connection)
            else:
                connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - as http.client takes it
        wait_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple["_Connection", http.client.HTTPResponse]:
        """The answer as far as its headers. A connection that rests is used for questions that may be asked twice: the
        agent may end it at the moment at which it is used.
        """
        timeout_s = self._timeout_s + wait_s
        kept = self._take_resting() if method == "GET" or path == _MAY else None
        try:
            if kept is not None:
                with suppress(ConnectionError):
                    return kept, kept.ask(method, path, body, timeout_s, headers)
            connection = _Connection(self._socket)
            return connection, connection.ask(method, path, body, timeout_s, headers)
        except (OSError, http.client.HTTPException) as error:
            raise AgentDown("agent_down", _why(self._socket, error)) from error

    def _take_resting(self) -> "_Connection | None":
        """One that still stands. Those of the process that this one was forked from are that one's."""
        mine, self._process = self._process == os.getpid(), os.getpid()
        while self._resting:
            with suppress(IndexError):  # another thread was faster
                connection = self._resting.pop()
                if mine and connection.stands():
                    return connection
                connection.close()
        return None

    def _poll(self, scopes: tuple[str, ...], after: int, wait_s: int) -> Change | None:
        query = urlencode(
            [("after", after), ("wait", wait_s), *(("scope", scope) for scope in scopes)], quote_via=quote
        )
        answer = self.request("GET", f"/v1/watch?{query}", wait_s=wait_s)
        if answer.status == http.client.NO_CONTENT:
            return None
        value = answer.value
        changed = {name: tuple(sections) for name, sections in value["scopes"].items()}
        return Change(value["generation"], changed, AGENT, tuple(value["services"]), tuple(value["routes"]))

    def _look(
        self, scopes: tuple[str, ...], after: int | None, seen: Mapping[str, Any] | None
    ) -> tuple[Mapping[str, Any] | None, Change | None]:
        """Another look at the files: the index, and what has changed since the last look or since `after`."""
        try:
            index = self._index(scopes)
        except AgentDown:
            return seen, None
        if seen is None and after is None:
            return index, Change(index["generation"], {}, FROM_FILES)
        before: Mapping[str, Any] = {} if seen is None else seen["scopes"]
        changed = {
            name: self._sections(index["scopes"].get(name))
            for name in sorted(before.keys() | index["scopes"].keys())
            if (not scopes or _is_named(name, scopes)) and before.get(name) != index["scopes"].get(name)
        }
        risen = after is None or index["generation"] > after
        return index, _change_of_files(index["generation"], changed) if changed and risen else None

    def _index(self, scopes: tuple[str, ...] = ()) -> Mapping[str, Any]:
        try:
            folder = os.open(self._files, _PLACE)
            try:
                found: Mapping[str, Any] = _index_at(folder, scopes)
            finally:
                os.close(folder)
        except (OSError, ValueError) as error:
            raise AgentDown("agent_down", f"{_why(self._socket)}; and there is no {self._files}/index.json") from error
        return found

    def _sections(self, entry: Mapping[str, Any] | None) -> tuple[str, ...]:
        if entry is None or entry["path"].startswith(_CONFIG):  # whose files do not say which sections they are
            return ()
        return tuple(sorted(path.name.removesuffix(".json") for path in (self._files / entry["path"]).glob("*.json")))

    def _from_files(self, scope: str, section: str, *, expired: bool) -> Section:
        with self._generation(scope, expired=expired) as held:
            _refuse_config(scope)
            if "/" in section:
                raise NotFound("not_found", f"{scope} has no section {section}")
            try:
                return Section(_read_at(held.folder, f"{held.path}/{section}.json"), held.facts)
            except FileNotFoundError:
                raise NotFound("not_found", f"{scope} has no section {section}") from None

    def _service_from_files(self, service_id: str, *, expired: bool) -> ConfiguredService:
        """All of it from one generation. The section has all that was signed, the file nothing that is revoked."""
        scope = f"{_SERVICE}{service_id}"
        with self._generation(scope, expired=expired) as held:
            try:
                entry = json.loads(_read_at(held.folder, f"{held.path}/services.json")).get(service_id)
            except FileNotFoundError:
                raise NotFound("not_found", f"{scope} has no section services") from None
            try:
                usable = json.loads(_read_at(held.folder, f"services/{service_id}/resources.json"))
            except FileNotFoundError:
                usable = {}
            told = {**entry, "resources": usable} if isinstance(entry, dict) else None
            return _service_of(service_id, told, held.facts)

    def _all_from_files(self, scope: str, *, expired: bool) -> Iterator[tuple[str, Section]]:
        with self._generation(scope, expired=expired) as held:
            _refuse_config(scope)
            inside = os.open(held.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held.folder)
            try:
                for name in sorted(entry.name.removesuffix(".json") for entry in os.scandir(inside)):
                    yield name, Section(_read_at(inside, f"{name}.json"), held.facts)
            finally:
                os.close(inside)

    @contextmanager
    def _generation(self, scope: str, *, expired: bool) -> Iterator["_HeldFolder"]:
        """Index and sections of one generation, by the folder that the link points to now."""
        try:
            folder = os.open(self._files, _PLACE)
        except OSError as error:
            raise AgentDown("agent_down", f"{_why(self._socket)}; {self._files}: {error.strerror}") from error
        try:
            index = _index_at(folder, (scope,))
            entry = index["scopes"].get(scope)
            if entry is None:
                raise NotFound("not_found", f"{scope} is not active here")
            facts = _facts_of_entry(entry, index["generation"])
            if facts.grade == EXPIRED and not expired:
                raise Expired("expired", f"{scope} has expired", facts)
            yield _HeldFolder(folder, entry["path"], facts, f'"{entry["content_hash"]}"')
        except OSError as error:
            raise AgentDown("agent_down", f"{_why(self._socket)}; {self._files}: {error.strerror}") from error
        finally:
            os.close(folder)


@dataclass(frozen=True)
class _HeldFolder:
    """A generation that the agent has left, as a descriptor: a scope's path in it, and the ETag of all of that."""

    folder: int
    path: str
    facts: Facts
    etag: str


@dataclass(frozen=True)
class Answer:
    """What the agent said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        return json.loads(self.body)

    @property
    def facts(self) -> Facts:
        expires = self.headers.get("holdfast-expires")
        return Facts(
            source=self.headers.get("holdfast-source", AGENT),
            generation=_number(self.headers.get("holdfast-generation")) or 0,
            grade=self.headers.get("holdfast-grade", ""),
            version=_number(self.headers.get("holdfast-version")),
            epoch=_number(self.headers.get("holdfast-epoch")),
            expires_at=unix_seconds(expires) if expires else None,
            age_s=_number(self.headers.get("holdfast-age")),
            etag=self.headers.get("etag"),
        )


class _HasFacts(Protocol):
    @property
    def facts(self) -> Facts: ...


_Found = TypeVar("_Found", bound=_HasFacts)


def _follow(read: Callable[[str | None], _Found | None]) -> Iterator[_Found]:
    """What `read` gives, whenever it says something else. It waits for news of the ETag that it is given; files, which
    have none, are looked at once a second.
    """
    last: _Found | None = None
    etag: str | None = None
    while True:
        found = read(etag)
        if found is None:
            continue
        if found != last:
            last = found
            yield found
        etag = found.facts.etag
        if etag is None:
            time.sleep(LOOK_EVERY_S)


def _service_of(service_id: str, entry: Any, facts: Facts) -> ConfiguredService:  # noqa: ANN401 - any JSON value
    if not isinstance(entry, dict):
        raise NotFound("not_found", f"there is no service {service_id} here")
    members = {name: entry.get(name) for name in _OF_SERVICE}
    return ConfiguredService(service_id, **members, facts=facts)


def _no_file(config: str, path: str) -> NotFound:
    return NotFound("not_found", f"{_CONFIG}{config} has no file {path}")


def _refuse_config(scope: str) -> None:
    if scope.startswith(_CONFIG):
        raise NotFound("not_found", f"the agent alone has the sections of {scope}: its files are here, by their paths")


def _size_of(response: http.client.HTTPResponse) -> int:
    """Of a file that is sent; else what the answer says instead."""
    size = _number(response.headers.get("content-length"))
    if response.status != http.client.OK or size is None:
        try:
            _judge(_answer(response, response.read()))
        except (OSError, http.client.HTTPException) as error:
            raise _break_off(error) from error
        raise AgentRefused("bad_answer", f"an answer of status {response.status} that is no file", response.status)
    return size


def _receive(response: http.client.HTTPResponse, size: int) -> Iterator[bytes]:
    """Of that size and no less."""
    while size:
        try:
            piece = _more(response)
        except (OSError, http.client.HTTPException) as error:
            raise _break_off(error) from error
        size -= len(piece)
        yield piece


def _break_off(error: Exception) -> AgentDown:
    return AgentDown("agent_down", f"the answer of the agent broke off ({error}): ask again")


def _pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(PIECE_BYTES), b"")


def _files_below(folder: int, path: str) -> Iterator[tuple[str, ListedFile]]:
    """By path below it, sorted. OSError where one of its folders cannot be read: what is left out would seem gone."""
    found = [
        (f"{place}/{name}".removeprefix(f"{path}/"), f"{place}/{name}")
        for place, _, names, _ in os.fwalk(path, onerror=_fail, dir_fd=folder)
        for name in names
    ]
    for name, place in sorted(found):
        with os.fdopen(os.open(place, _FILE, dir_fd=folder), "rb") as file:
            status = os.fstat(file.fileno())
            whole = _hash_of(_pieces_of(file))
        yield name, ListedFile(status.st_size, f"{stat.S_IMODE(status.st_mode):04o}", whole)


def _fail(error: OSError) -> None:
    raise error


def _hash_of(pieces: Iterator[bytes]) -> str:
    """As the agent gives it: what is signed in parts of 1 MiB has a hash over theirs."""
    hashes, digest, room = [], hashlib.sha256(), _FILE_PART_BYTES
    for piece in pieces:
        view = memoryview(piece)
        while len(view) > room:
            digest.update(view[:room])
            hashes.append(digest.hexdigest())
            view, digest, room = view[room:], hashlib.sha256(), _FILE_PART_BYTES
        digest.update(view)
        room -= len(view)
    hashes.append(digest.hexdigest())
    whole = hashes[0] if len(hashes) == 1 else hashlib.sha256(",".join(hashes).encode()).hexdigest()
    return f"sha256:{whole}"


def _entries(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": entry["config_version"], "expires_at": entry["expires_at"], "grade": entry["grade"]}


def _change_of_files(generation: int, changed: Mapping[str, tuple[str, ...]]) -> Change:
    """Files show no more than that a scope has changed."""
    services = tuple(name.removeprefix(_SERVICE) for name in changed if name.startswith(_SERVICE))
    return Change(generation, changed, FROM_FILES, services, ("*",) if _ROUTES in changed else ())


def join_parts(parts: Iterable[Section]) -> Section:
    """The parts of one map as one section, none of them parsed; what is no map is one part, and stays as it is."""
    first, *others = parts
    if not others:
        return first
    inside = [document.data[1:-1] for document in (first, *others) if document.data != b"{}"]
    return Section(b"{" + b",".join(inside) + b"}", first.facts)


def _map_of(name: str, section: Section, plain: set[str]) -> str:
    """The name of the map that a section is a part of, else its own. `plain` remembers those: a section that has a
    map's name itself comes before what would be its parts, and they stay what they are.
    """
    match = _PART.fullmatch(name)
    if match is not None and match[1] not in plain and section.data[:1] == b"{":
        return match[1]
    plain.add(name)
    return name


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def ask(
        self,
        method: str,
        path: str,
        body: Any,  # noqa: ANN401 - as http.client takes it
        timeout_s: float,
        headers: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        """The answer as far as its headers. OSError, HTTPException: then it is closed."""
        try:
            if self.sock is None:
                self._connect(timeout_s)
            self.sock.settimeout(timeout_s)
            with suppress(BrokenPipeError, ConnectionResetError):  # refused early: the answer says why
                self.request(method, path, body=body, headers=headers or {})
            return self.getresponse()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def _connect(self, seconds: float) -> None:
        """Waits in line while more call than the agent has accepted: with a timeout of Python's own, connect() would
        fail at once then.
        """
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        in_line = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, in_line)
        self.sock.connect(str(self._path))

    def stands(self) -> bool:
        """Whether nothing has come since the last answer: its end, or what nobody has asked for."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


def _answer(response: http.client.HTTPResponse, body: bytes) -> Answer:
    return Answer(response.status, {name.lower(): text for name, text in response.getheaders()}, body)


def _split(response: http.client.HTTPResponse) -> Iterator[tuple[str, bytes]]:
    """The sections of a streamed scope, as they come: the manifest before them says how long each is."""
    manifest, rest = _opening(response)
    for name, entry in manifest.items() if rest[:1] != b"}" else ():
        begin = f'"{name}":'.encode()
        whole = len(begin) + _size_in_json(entry) + 1  # and what parts it from the next, or ends them
        while len(rest) < whole:
            rest += _more(response)
        if not rest.startswith(begin):
            raise http.client.HTTPException(f"section {name} is not where it is said to be")
        yield name, rest[len(begin) : whole - 1]
        rest = rest[whole:]


def _size_in_json(entry: Mapping[str, Any]) -> int:
    """Bytes stand there in base64, as a string."""
    size: int = entry["size"]
    return 4 * ((size + 2) // 3) + 2 if entry.get("form") == "raw" else size


def _opening(response: http.client.HTTPResponse) -> tuple[dict[str, Any], bytes]:
    """The manifest, and what has come of the sections. A section may itself be called `sections`: whatever comes
    before the right place is an object once it is closed.
    """
    data, at, mark = b"", -1, b',"sections":{'
    while True:
        while (at := data.find(mark, at + 1)) < 0:
            at = max(-1, len(data) - len(mark))
            data += _more(response)
        with suppress(ValueError):
            return json.loads(data[:at] + b"}")["manifest"], data[at + len(mark) :]


def _more(response: http.client.HTTPResponse) -> bytes:
    piece = response.read1(PIECE_BYTES)
    if not piece:
        raise http.client.IncompleteRead(b"")
    return piece


def _judge(answer: Answer) -> Answer:
    if answer.status < http.client.MULTIPLE_CHOICES or answer.status == http.client.NOT_MODIFIED:
        return answer
    try:
        said = answer.value
        code, text = str(said["code"]), str(said["message"])
        step = said.get("step")
    except (ValueError, KeyError, TypeError):
        code, text, step = "bad_answer", f"an answer of status {answer.status} that says nothing", None
    if answer.status == http.client.GONE:
        raise Expired(code, text, answer.facts)
    if answer.status == http.client.NOT_FOUND:
        raise NotFound(code, text)
    raise AgentRefused(code, text, answer.status, step if isinstance(step, int) else None)


def _facts_of_entry(entry: Mapping[str, Any], generation: int) -> Facts:
    """Nobody confirms what the files say, so the best that they can be is stale."""
    expires_at = unix_seconds(entry["expires_at"])
    over = entry["grade"] == EXPIRED or time.time() >= expires_at  # noqa: TID251 - a service has no other clock
    return Facts(
        source=FROM_FILES,
        generation=generation,
        grade=EXPIRED if over else STALE,
        version=entry["config_version"],
        epoch=entry["authority_epoch"],
        expires_at=expires_at,
    )


def _index_at(folder: int, scopes: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON value
    """Of all scopes; of these alone, where that one is not for this account (`projection_access = "scope"`)."""
    try:
        return json.loads(_read_at(folder, "index.json"))
    except PermissionError:
        found: list[Any] = []
        for scope in scopes:
            with suppress(OSError):
                found.append(json.loads(_read_at(folder, f".index/{_folder_of(scope)}.json")))
        if not found:
            raise
        return {
            "generation": found[0]["generation"],
            "scopes": {name: entry for reading in found for name, entry in reading["scopes"].items()},
        }


def _folder_of(scope: str) -> str:
    """As the agent lays scopes out: docs/local-api.md, Files."""
    scope_type, _, ids = scope.partition("/")
    if len(ids.encode()) > MOST_IDS_BYTES:
        ids = f"sha256-{hashlib.sha256(ids.encode()).hexdigest()}"
    return f"{scope_type}@{ids}" if ids else scope_type


def _read_at(folder: int, path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _is_named(scope: str, among: tuple[str, ...]) -> bool:
    """By itself, or by its type: `service_assignment` follows every service."""
    return scope in among or ("/" in scope and scope.partition("/")[0] in among)


def _why(path: Path, error: Exception | None = None) -> str:
    if isinstance(error, PermissionError):
        return f"{path} may not be opened: join the socket's group (usermod -aG holdfast USER)"
    if isinstance(error, TimeoutError):
        return f"the agent does not answer at {path}: see journalctl -u holdfast-agent"
    return f"the agent is not there at {path}: see systemctl status holdfast-agent"


def _scope_path(scope: str, *, expired: bool) -> str:
    return f"/v1/scopes/{quote(scope, safe='')}{_allowing(expired)}"


def _allowing(expired: bool) -> str:
    return "?expired=allow" if expired else ""


def _quote(name: str) -> bytes:
    return json.JSONEncoder().encode(name).encode()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def unix_seconds(text: str) -> int:
    """Of a time as the agent writes it, YYYY-MM-DDTHH:MM:SSZ."""
    return int(datetime.fromisoformat(text).timestamp())
