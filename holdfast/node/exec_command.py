"""`holdfast exec -- COMMAND`: a program with its settings and its secrets, as `ExecStart=` of a service."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

import click

from holdfast.client import FROM_FILES, Client, Facts
from holdfast.launch.process_variables import NotVariablesError, variables
from holdfast.launch.rendered_file import NotPrivateError, write_private
from holdfast.launch.secret_references import UnresolvedError, resolve
from holdfast.launch.variables_file import DEFAULT_FILE, NoVariablesFileError, read_variables
from holdfast.node.agent_options import asks_the_agent_or_files, fail, note
from holdfast.terminal import completion
from snapshot import canonical

NOT_CONFIGURED = 78  # sysexits(3): EX_CONFIG, as systemd names it
NOT_EXECUTABLE, NO_SUCH_COMMAND = 126, 127  # as env(1)
FILE_VARIABLE = "HOLDFAST_CONFIG_FILE"

EXITS = (
    "\b\nExit status: that of COMMAND; without it 2 wrong usage, 3 nobody answers,\n"
    "4 not found or not readable, 5 expired, 6 refused,\n"
    "78 a secret or a setting cannot be given, 126 and 127 as of env(1)."
)


@click.command(
    "exec",
    epilog=EXITS,
    context_settings={"allow_interspersed_args": False},
)
@click.option("--service", metavar="ID", shell_complete=completion.services, help="A service, for its settings.")
@click.option(
    "--config", metavar="ID[/PATH]", help=f"A Config, for what its file PATH says; {DEFAULT_FILE} if left out."
)
@click.option("--file", "file_name", metavar="NAME", help="Give them as a JSON file instead of environment variables.")
@click.option("--expired", is_flag=True, help="Also when they have expired.")
@click.argument("words", metavar="COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@asks_the_agent_or_files
def command(
    client: Client,
    service: str | None,
    config: str | None,
    file_name: str | None,
    expired: bool,
    words: tuple[str, ...],
) -> None:
    """Run COMMAND in place of this process, with a service's settings, or what a Config's file says, or both, as
    environment variables.

    Each member is a variable of its name; what the environment has already stays, and none may be in both. A Config's
    file is a JSON object, or *.env with a NAME=VALUE a line. With --file they are one JSON file of mode 0600 in
    $RUNTIME_DIRECTORY (else $XDG_RUNTIME_DIR), which must be a tmpfs, and HOLDFAST_CONFIG_FILE names it.

    {"secret_ref": "credential:NAME"} is replaced by the credential that the unit has loaded (LoadCredential=),
    {"secret_ref": "file:/PATH"} by the file's content. Neither agent nor coordinator ever has these.
    """
    if file_name is not None and ("/" in file_name or file_name in ("", ".", "..")):
        raise click.UsageError("--file is a name, and no path: it lies in $RUNTIME_DIRECTORY")
    environment = dict(os.environ)
    sources = list(_sources(client, service, config, expired=expired))
    if not sources or (file_name is not None and len(sources) > 1):
        raise click.UsageError("say --service ID or --config ID[/PATH]; with --file one of them")
    given: dict[str, str] = {}
    for source in sources:
        try:
            value = resolve(source.value(), environment)
            if file_name is None:
                _add(given, variables(value, environment))
            else:
                given[FILE_VARIABLE] = str(write_private(file_name, canonical.dumps(value), environment))
        except (NoVariablesFileError, UnresolvedError, NotVariablesError, NotPrivateError) as error:
            fail(f"{source.name}: {error}", NOT_CONFIGURED)
        except OSError as error:
            fail(f"{source.name}: its file cannot be written: {error.strerror}", NOT_CONFIGURED)
    _become(words, environment | given)


@dataclass(frozen=True)
class VariableSource:
    """Where variables come from, as messages call it. `value` raises NoVariablesFileError."""

    name: str
    value: Callable[[], object]


def _sources(client: Client, service: str | None, config: str | None, *, expired: bool) -> Iterator[VariableSource]:
    if service is not None:
        found = client.service(service, expired=expired)
        _note(found.facts)
        yield VariableSource(f"service {service}", lambda: found.settings)
    if config is not None:
        config_id, _, path = config.partition("/")
        path = path or DEFAULT_FILE
        file = client.file(config_id, path, expired=expired)
        _note(file.facts)
        yield VariableSource(f"config {config_id}", lambda: read_variables(path, file))


def _add(given: dict[str, str], found: Mapping[str, str]) -> None:
    if twice := sorted(given.keys() & found.keys()):
        raise NotVariablesError(f"{twice[0]} is a setting of the service as well: leave it out in one of them")
    given.update(found)


def _note(facts: Facts) -> None:
    if facts.source == FROM_FILES:
        note(f"the agent could not be asked: settings are from its files, version {facts.version}, {facts.grade}")


def _become(words: tuple[str, ...], environment: dict[str, str]) -> NoReturn:
    """Python ignores these two signals, and a program inherits what is ignored."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(words[0], words, environment)  # noqa: S606 - that is what was asked for
    except FileNotFoundError:
        fail(f"{words[0]}: there is no such command", NO_SUCH_COMMAND)
    except OSError as error:
        fail(f"{words[0]}: {error.strerror}", NOT_EXECUTABLE)
