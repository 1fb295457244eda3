"""`holdfastctl backup` and `restore`: all of this machine's coordinator in one file, and back (docs/operating.md).

Both work on the files and the database themselves, as `init` does: a backup is most wanted when nothing answers.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from coordinator.base.places import DEFAULT_PATH
from coordinator.setup import configuration
from holdfast.ctl import output
from holdfast.ctl.socket import UNANSWERED, Failed, says_what_is_wrong
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say, say_json

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_PATH = click.Path(path_type=Path)
_CONFIGURATION = click.option("--configuration", "path", type=_PATH, default=DEFAULT_PATH, show_default=True,
                              help="The coordinator's configuration, which names all else.")  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


@click.group(invoke_without_command=True)
@click.option("--to", type=_PATH, help="The file; or a directory, in which it is named by its time.")
@click.option("--keep", type=click.IntRange(1, 10_000),
              help="In a directory: so many of this coordinator's backups stay, the oldest go.")  # fmt: skip
@click.option("--without-keys", is_flag=True, help="Leave private keys out: without them it is no coordinator.")
@_CONFIGURATION
@_JSON
@says_what_is_wrong
def backup(**given: Any) -> None:  # noqa: ANN401 - the options
    """Write database, keys, certificates and configuration into one file, while the coordinator works.

    Of the machine's database a consistent copy; PostgreSQL by pg_dump. It is read again and checked before it gets its
    name. THE FILE HOLDS PRIVATE KEYS: who has it can publish in the cluster's name. It holds no root key.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if given["to"] is None:
        raise click.UsageError("Missing option '--to'.")
    if given["keep"] and not given["to"].is_dir():
        raise click.UsageError("--keep needs --to with a directory")
    from coordinator.setup import backup as backups  # noqa: PLC0415 - the database's library: no other command waits for it

    wanted = backups.BackupRequest(
        configuration.load(given["path"]), given["path"].absolute(), given["to"].absolute(),
        not given["without_keys"], given["keep"],
    )  # fmt: skip
    with _telling_of_the_database():
        made = backups.make(wanted, actor=f"uid:{os.getuid()}", now=wall_clock())
    answer = {"file": str(made.file), "size": made.size, "removed": list(made.removed), **_about(made.manifest)}
    _show(answer, given["as_json"])
    if not given["as_json"]:
        say("It holds private keys." if answer["keys"] else "It holds no private keys: keep those elsewhere.")
        _warn_of(answer["lacks"], is_meant=not wanted.with_keys)


@backup.command()
@click.argument("file", type=_FILE)
@_JSON
@says_what_is_wrong
def verify(file: Path, as_json: bool) -> None:
    """Read all of a backup: every hash, and whether its database is sound."""
    from coordinator.setup import backup as backups  # noqa: PLC0415 - likewise

    answer = {"file": str(file), "size": file.stat().st_size, **_about(backups.verify(file))}
    _show(answer, as_json)
    if not as_json:
        _warn_of(answer["lacks"], is_meant=not answer["keys"])


@click.command()
@click.argument("file", type=_FILE)
@_CONFIGURATION
@_JSON
@says_what_is_wrong
def restore(file: Path, path: Path, as_json: bool) -> None:
    """Put a backup back, on a machine where no coordinator is. Nothing is overwritten.

    A configuration that is there already says where everything goes; otherwise the backup's is written.
    """
    from coordinator.setup import restore as restores  # noqa: PLC0415 - likewise

    with _telling_of_the_database():
        made = restores.restore(file, path)
    answer = {**_about(made.manifest), "configuration": str(made.configuration), "database": made.database,
              "files": [str(file) for file in made.files]}  # fmt: skip
    _show(answer, as_json)
    if not as_json:
        say("Next: systemctl start holdfast-coordinator, then holdfastctl status. Nodes that have seen newer "
                   "versions say so, and nothing is signed until the epoch is raised.")  # fmt: skip
        _warn_of(answer["lacks"])


def _about(manifest: Any) -> dict[str, Any]:  # noqa: ANN401 - its type is of a module that is loaded late
    from coordinator.setup.backup_files import is_secret, lacking  # noqa: PLC0415 - likewise

    return {
        "cluster": manifest.cluster_id,
        "coordinator": manifest.coordinator_id,
        "made_at": manifest.made_at,
        "keys": any(is_secret(name) for name in manifest.members),
        "members": sorted(manifest.members),
        "left_out": list(manifest.left_out),
        "lacks": lacking(manifest.left_out),
    }


def _warn_of(lacks: Sequence[str], *, is_meant: bool = False) -> None:
    """The last line, for whoever reads no other."""
    if lacks and not is_meant:
        say(
            f"INCOMPLETE: what is restored from it signs nothing before it has {', '.join(lacks)} again. A ready "
            "coordinator of the cluster gives that by itself; where none is left, the share of one owner does: "
            "holdfastctl coordinators recover --share FILE --key FILE. Have one of the two."
        )


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say_json(answer)
    else:
        output.facts((name.replace("_", " "), value) for name, value in answer.items() if name != "lacks")


@contextmanager
def _telling_of_the_database() -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - likewise

    from coordinator.database.database_fault import line_of  # noqa: PLC0415 - likewise

    try:
        yield
    except SQLAlchemyError as error:
        raise Failed(f"the database does not answer: {line_of(error)}; nothing was changed", UNANSWERED) from None
