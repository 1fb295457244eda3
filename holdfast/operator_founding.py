"""What `holdfastctl init` does: the options become what is wanted, it is made, and what was made is said."""

import os
from dataclasses import asdict
from pathlib import Path

import click

from coordinator import configuration, initialise
from coordinator.initialise import Made, Wanted
from coordinator.refusal import Refused
from holdfast import operator_output as output
from holdfast.clock import wall_clock
from holdfast.operator_socket import REFUSED, Failed
from holdfast.operator_trust import new_passphrase


def found(given: dict[str, object]) -> None:
    """`given`: the options by name. All of it is there afterwards, or nothing."""
    wanted = _wanted(given)
    _would_start(configuration_text(given, wanted.state, wanted.database_url))
    _agrees(Path(str(given["path"])), configuration_text(given, wanted.state, wanted.database_url))
    made = initialise.initialise(wanted, actor=f"uid:{os.getuid()}", now=wall_clock())
    if given["as_json"]:
        output.write_json({name: _plain(value) for name, value in asdict(made).items()})
    else:
        _render(made)


def _wanted(given: dict[str, object]) -> Wanted:
    state, path = Path(str(given["state"])).absolute(), Path(str(given["path"]))
    database_url = str(given["database_url"] or f"sqlite:///{state}/coordinator.db")
    names = ("cluster_id", "coordinator_id", "url", "roots", "threshold", "algorithm", "hosts")
    text = configuration_text(given, state, database_url)
    return Wanted(
        state=state,
        root_keys=Path(str(given["root_keys"])).absolute(),
        database_url=database_url,
        passphrase=new_passphrase(bool(given["encrypt"]), given["passphrase_files"]),  # type: ignore[arg-type]
        configuration=None if path.exists() else (path, text),
        **{name: given[name] for name in names},  # type: ignore[arg-type]
    )


def configuration_text(given: dict[str, object], state: Path, database_url: str) -> str:
    socket = given["admin_socket"] and Path(str(given["admin_socket"])).absolute()
    wishes = {"admin": given["listen_admin"], "probes": given["listen_probes"], "admin_socket": socket}
    further = "".join(f'{name} = "{value}"\n' for name, value in wishes.items() if value)
    return f"""\
coordinator_id = "{given["coordinator_id"]}"

[database]
url = "{database_url}"

[listen]
fleet = "{given["listen"]}"
join = "{given["listen_join"]}"
{further}
[tls]
certificate = "{state}/tls/server.pem"
key = "{state}/tls/server-key.pem"

[keys]
directory = "{initialise.keys_directory(state)}"
token = "{initialise.token_file(state)}"
"""


def _would_start(text: str) -> None:
    """The daemon's own reading of what would be written, before anything is made."""
    try:
        configuration.parse(text)
    except Refused as refused:
        remedy = "correct the options: --listen, --listen-join, --listen-admin, --listen-probes, paths without quotes"
        raise Failed(f"the coordinator would refuse its configuration: {refused.detail}; {remedy}", REFUSED) from None


def _agrees(path: Path, wanted: str) -> None:
    """A configuration that is there already names what is about to be made (rules K8, K9: and is a coordinator's)."""
    if not path.exists():
        return
    ours, theirs = configuration.parse(wanted), configuration.load(path)
    for name in ("coordinator_id", "database_url", "certificate", "key", "keys_directory", "token_key"):
        here, there = getattr(ours, name), getattr(theirs, name)
        if here != there:
            remedy = f"let the options say the same, or move {path} away"
            raise Failed(f"{path} says {name} {there}, but this would be {here}; {remedy}", REFUSED)


def _render(made: Made) -> None:
    output.facts(
        [
            ("cluster", made.cluster_id),
            *(("root key", f"{key_id}  {path}") for key_id, path in made.root_keys),
            ("config key", f"{made.config_key[0]}  {made.config_key[1]}"),
            ("certificate", f"{made.certificate_sha256}  {made.certificate}"),
            ("CA for nodes", made.authority),
            ("configuration", made.configuration or "there already; not touched"),
        ]
    )
    click.echo("Take the root keys away now, each to a place of its own: whoever has enough of them has the cluster.")
    click.echo("Next: systemctl start holdfast-coordinator, then holdfastctl allow add NODE")


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
