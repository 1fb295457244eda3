"""What `holdfastctl export` and `import` do: options become what is wanted, it is made, and that is said."""

from pathlib import Path
from typing import Any

from coordinator.keys import keystore
from coordinator.setup import configuration, export_reader
from coordinator.setup import export as exports
from coordinator.setup import import_cluster as imports
from coordinator.setup.configuration import Configuration
from coordinator.setup.export import ExportRequest, MadeExport
from coordinator.setup.import_cluster import ImportedCluster, ImportRequest
from holdfast.ctl import output
from holdfast.ctl.setup import agrees, as_actor, configuration_text, say_made, telling_of_the_database, would_start
from holdfast.ctl.signing import ca_passphrase
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say, say_json


def export(at: Configuration, given: dict[str, Any]) -> None:
    wanted = ExportRequest(at, given["to"].absolute(), given["recipient"].read_bytes(), given["url"])
    with telling_of_the_database():
        made = exports.make(wanted, actor=as_actor(), now=wall_clock())
    say_made(made, given, _render_export)


def cancel(at: Configuration, *, as_json: bool) -> None:
    with telling_of_the_database():
        gone_to = exports.cancel(at, actor=as_actor(), now=wall_clock())
    if as_json:
        say_json({"cancelled": gone_to.coordinator_id})
        return
    name = gone_to.coordinator_id
    say(f"The cluster is decided here again. Destroy the file, and what {name} has made of it: it must never start.")


def import_(given: dict[str, Any]) -> None:
    """All of it is there afterwards, or nothing."""
    state, path = Path(given["state"]).absolute(), Path(given["path"])
    given = {**given, "database_url": given["database_url"] or f"sqlite:///{state}/coordinator.db"}
    named = {**given, "coordinator_id": export_reader.recipient_of(given["file"])}
    text = configuration_text(named, state, given["database_url"])
    would_start(text)
    agrees(path, text)
    ca = Path(given["ca"]).absolute() if given["ca"] else None
    wanted = ImportRequest(
        state=state,
        ca=ca,
        passphrase=ca_passphrase(ca, given["passphrase_files"]) if ca else _passphrase(given["passphrase_files"]),
        configuration=None if path.exists() else (path, text),
        notes=path.absolute().parent,
        **{name: given[name] for name in ("file", "cluster_id", "url", "database_url", "hosts", "sha256")},
        despite_age=given["despite_age"],
    )
    with telling_of_the_database():
        made = imports.import_(wanted, actor=as_actor(), now=wall_clock())
    say_made(made, given, _render_import)
    if wanted.configuration is None and set(configuration.load(path).roots.key_ids) != set(made.root_keys):
        say(f"{path} pins other root keys, or none: put these into its [trust], or it believes no other coordinator",
            f'  root_key_ids = "{", ".join(made.root_keys)}"', err=True)  # fmt: skip


def _render_export(made: MadeExport) -> None:
    output.facts(
        [
            ("cluster", made.cluster_id),
            ("file", f"{made.file}, {made.size} bytes"),
            ("SHA-256", made.sha256),
            ("history", f"up to link {made.link}"),
            ("to", f"{made.to.coordinator_id}, {made.to.url}"),
            ("identity", made.to.identity_sha256),
            *(("left out", name) for name in made.left_out),
        ]
    )
    say("Only that coordinator can open it. Here nothing can be changed from now on; nodes are looked after meanwhile.")
    say(f"Next, there: holdfastctl import {made.file.name} --cluster {made.cluster_id} --url {made.to.url}")


def _render_import(made: ImportedCluster) -> None:
    output.facts(
        [
            ("cluster", made.cluster_id),
            ("coordinator", made.coordinator_id),
            ("came from", ", ".join(made.came_from)),
            ("history", f"verified, {made.link} links, {made.rows} rows"),
            *(("config key", key_id) for key_id in made.config_keys),
            *(("root key", key_id) for key_id in made.root_keys),
            ("certificate", made.certificate_sha256),
            ("CA for nodes", made.authority),
            ("configuration", made.configuration or "there already; not touched"),
        ]
    )
    say("Next: systemctl start holdfast-coordinator, then, with root keys: holdfastctl epoch raise")
    say("Nothing is signed before that.")


def _passphrase(files: tuple[Path, ...]) -> bytes | None:
    """Of a CA key that is in the export."""
    return keystore.read_passphrase(files[0]) if files else None
