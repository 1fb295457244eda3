"""What local services see, built from the configuration: the API, the files, and who is told of a change."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent.access.access import Access, group_id
from agent.base.generation import Generation
from agent.base.threads import Threads
from agent.config.configuration import AgentSettings, LocalTable, ServiceTable
from agent.config.units import VALIDATE, Verb
from agent.files.file_access import FileAccess
from agent.files.generations import Generations, Permissions
from agent.files.projection import Projection
from agent.local.decisions import Decisions
from agent.local.listening import socket_group
from agent.local.local_api import LocalApi
from agent.local.local_backend import Front
from agent.local.watching import Watching as WatchApi
from agent.services.allowed_units import find_missing_units, log_missing_units
from agent.services.checks import CommandCheck, HttpCheck, ServiceCheck, UnitCheck
from agent.services.notifiers import Command, Notifier, NotifierWatch, RequestedVerb
from agent.services.probation import CheckedService, Probation
from agent.services.publishing import Publishing
from agent.services.running import Running
from agent.services.services import LocalService, Services
from agent.services.unit_states import read_state
from agent.services.validator_units import ValidatorUnit
from agent.services.validators import Judge, Validator, ValidatorCommand, Validators
from agent.state.node import RunningNode
from agent.state.view import Views
from snapshot.frozen import frozen
from store.base.tables import Name
from wire.limits import LOCAL
from wire.server import Server
from wire.unix import UnixTransport

LINK = "active"


@frozen
class Local:
    """`active` follows the store, `published` the files."""

    front: Front
    active: Generation
    publishing: Publishing
    watching: WatchApi
    services: Services
    validators: Validators
    api: LocalApi
    server: Server
    log_missing_units: Callable[[], Awaitable[None]]
    probation: Probation


def build(
    settings: AgentSettings, node: RunningNode, views: Views, folder: Path, socket_trouble: Callable[[], str] = str
) -> Local:
    """`folder` is the agent's alone, for candidates that validators look at. `socket_trouble`: why nobody can connect,
    or nothing. ValueError names an unknown account.
    """
    active, published = Generation(), Generation()
    units = {service.name: service.unit for service in settings.services if service.unit is not None}
    running = Running(node, units, read_state)
    front = Front(node, Decisions(node), running)
    access = Access.from_configuration(settings.access, socket_group(settings.local))
    publishing = Publishing(
        views,
        _projection(settings.local, access),
        node.threads,
        active,
        published,
        node.now,
        lambda: node.standing().state == "revoked",
    )
    services = Services(
        tuple(_service(service, settings.local) for service in settings.services),
        views,
        node.store.table(Name.SERVICES),
        node.threads,
        published,
        node.now,
        random.uniform,
        on_told=lambda name: _note_answer(name, services, running, node),
        on_remembered=node.tell_news,
        may_tell=node.has_confirmed_roots,
    )
    watching = WatchApi(views, node.threads, active)
    limits = settings.limits.documents()
    judges = {service: _judge(service, settings, folder) for service in settings.services}
    asked = [Validator(service.name, service.scopes, judge) for service, judge in judges.items() if judge is not None]
    validators = Validators(asked, node.threads)
    api = LocalApi(
        *(front, views, node.threads, access, services, publishing, watching, node.now, limits, socket_trouble),
        validators.sees,
    )
    local_limits = replace(LOCAL, deadline_s=float(settings.intervals.local_request_s))
    server = Server("local", api.routes(), UnixTransport(), local_limits, first=access.first)
    missing = partial(log_missing_units, settings.services, read_state)
    checked = [_checked_service(service, running, node.threads) for service in settings.services]
    probation = Probation(
        node, [service for service in checked if service.checks], services, publishing, random.uniform
    )
    return Local(front, active, publishing, watching, services, validators, api, server, missing, probation)


async def find_missing(settings: AgentSettings) -> list[str]:
    """Units that root has not enabled, and how that is done."""
    return [str(warning) for warning in await find_missing_units(settings.services, read_state)]


def _projection(local: LocalTable, access: Access) -> Projection | None:
    if local.projection_directory is None:
        return None
    gid = group_id(local.projection_group) if local.projection_group else None
    given = Permissions(local.projection_file_mode, local.projection_directory_mode, gid)
    whose = FileAccess.from_configuration(local.projection_access, given, access)
    most = local.projection_bytes
    return Projection(Generations(local.projection_directory, LINK, whose.top, most_bytes=most), whose)


def _note_answer(name: str, services: Services, running: Running, node: RunningNode) -> None:
    """That a command told it well shows that it runs; that it watches by itself shows nothing."""
    notifier = next(service.notifier for service in services.services if service.name == name)
    if isinstance(notifier, Command) and services.notified[name].ok:
        running.note_command(name)
    node.tell_news()


def _service(one: ServiceTable, local: LocalTable) -> LocalService:
    return LocalService(one.name, one.scopes, _notifier(one, local))


def _notifier(one: ServiceTable, local: LocalTable) -> Notifier:
    if one.notify == "command":
        return Command(one.command, one.timeout_s)
    if one.notify == "none" or one.unit is None:
        return NotifierWatch()
    requests, answers = local.reload_directory, local.reload_answers_directory
    return RequestedVerb(Verb(one.notify), one.unit, requests, answers, one.timeout_s, one.signal)


def _checked_service(one: ServiceTable, running: Running, threads: Threads) -> CheckedService:
    timeout_s = float(one.check_interval_s)
    checks: list[ServiceCheck] = [CommandCheck(one.check, timeout_s)] if one.check else []
    checks += [HttpCheck(one.check_http, timeout_s, threads)] if one.check_http is not None else []
    checks += [UnitCheck(one.unit, read_state, running.last_state)] if one.unit is not None else []
    return CheckedService(one.name, one.scopes, tuple(checks), timeout_s)


def _judge(one: ServiceTable, settings: AgentSettings, folder: Path) -> Judge | None:
    if one.validate:
        return ValidatorCommand(one.validate, one.validate_timeout_s, folder)
    if one.validate_unit is None:
        return None
    local = settings.local
    requests = local.reload_directory.with_name(VALIDATE)
    answers = local.reload_answers_directory.with_name(f"holdfast-{VALIDATE}")
    label, timeout_s = settings.node.cluster_id, one.validate_timeout_s
    return ValidatorUnit(one.validate_unit, label, requests, local.candidates_directory, answers, timeout_s, read_state)
