"""docs/configuration.md, from agent/config/configuration.py and coordinator/setup/configuration.py."""

import dataclasses
from pathlib import Path

from agent.config import configuration as agents
from coordinator.base import storage_access
from coordinator.base.settings import CoordinatorSettings
from coordinator.setup import configuration as coordinators

HEAD = """\
# Configuration

Made from the code by `python -m tests.pages --write`; a test holds it against the code.

Two files in TOML, one for each daemon. A file is read once, at the start, and strictly. An unknown key, a value out of
its range and two keys at odds are errors. Each error names the key and the remedy, and all of them are shown at once.
A daemon with a wrong file does not start: it exits with 78. Units stand in the names: `_s` seconds, `_bytes`
bytes, `_percent` percent. Times such as `604800` are written out in full.

`required` in the column *default* means: the file must say it. `none` means: left out, nothing of the kind happens.
"""

AGENT = """\
## agent.toml

`/etc/holdfast/agent.toml`, read by `holdfast-agent`. The smallest one:

```toml
[node]
cluster_id = "raven"
node_id = "gw-1"

[coordinator]
urls = ["https://coordinator.example:7443"]
ca_file = "/etc/holdfast/ca.pem"
```

A node has `[coordinator]` or `[manual]`, never both. What belongs to a coordinator is refused here.
"""

COORDINATOR = """\
## coordinator.toml

`/etc/holdfast/coordinator.toml`, read by `holdfast-coordinator`. `holdfastctl init` writes the first one. What belongs
to an agent is refused here. `credential:NAME` stands for the file `NAME` among the credentials that the service manager
gave (`LoadCredential=` of systemd), so that a key need not lie beside the configuration.
"""

AT_ODDS = """\
What single keys cannot tell is checked over all of them: a head lifetime under 900 s needs `short_lifetimes = true`,
and without it half of the head's lifetime is at least 300 s; `snapshot_refresh_s` is below `snapshot_lifetime_s`;
`key_rollout_s` is at least `snapshot_lifetime_s`; `trim_window_s` is at least that and 300 s, and `audit_history_s`
at least that; `head_lifetime_s` does not exceed `snapshot_lifetime_s`, nor `poll_after_s` the head's lifetime.
"""

STORAGE = """\
How this machine writes to a `StorageEndpoint` of that id: to a directory, or to a bucket. One table for each; several
coordinators that reach one bucket leave it to one of them.\
"""

TABLES = (
    ("[node]", agents.NodeTable),
    ("[coordinator]", agents.CoordinatorTable),
    ("[[manual.source]]", agents.MapEntry),
    ("[[manual.peer]]", agents.ManualPeer),
    ("[trust]", agents.TrustTable),
    ("[local]", agents.LocalTable),
    ('[access."<scope>"]', agents.AccessEntry),
    ("[[service]]", agents.ServiceTable),
    ("[peers]", agents.PeersTable),
    ("[[peers.bootstrap]]", agents.BootstrapPeer),
    ("[storage]", agents.StorageTable),
    ("[[storage.writers]]", agents.StorageWriter),
    ("[intervals]", agents.IntervalsTable),
    ("[limits]", agents.LimitsTable),
    ("[log]", agents.LogTable),
)
"""Each table of agent.toml as it stands in the file, and its dataclass."""


def page() -> str:
    return "\n".join([HEAD, AGENT, *map(_agent_table, TABLES), COORDINATOR, *_coordinator_tables(), AT_ODDS])


def _agent_table(table: tuple[str, type]) -> str:
    title, cls = table
    return f"### `{title}`\n\n{' '.join((cls.__doc__ or '').split())}\n\n" + _rows(agent_rows(cls))


def agent_rows(cls: type) -> list[tuple[str, str, str, str]]:
    """Key, form, default, meaning."""
    return [
        (each.name, each.metadata["form"].description, _agent_default(each), each.metadata["about"])
        for each in dataclasses.fields(cls)
    ]


def _agent_default(each: dataclasses.Field) -> str:
    if each.default is dataclasses.MISSING:
        return "required"
    if each.name.endswith("_mode"):
        return f'`"{each.default:04o}"`'
    return _value(each.default)


def _coordinator_tables() -> list[str]:
    first = _rows([("coordinator_id", "an id", "required", coordinators.ID_ABOUT)])
    tables = [
        f"### `[{table}]`\n\n" + _rows(coordinator_rows(table, keys)) for table, keys in coordinators.TABLES.items()
    ]
    tables.append(f"### `[storage.<id>]`\n\n{STORAGE}\n\n" + _rows(storage_rows()))
    return [first, *tables, "### `[settings]`\n\n" + _rows(settings_rows(dataclasses.fields(CoordinatorSettings)))]


def coordinator_rows(table: str, keys: dict[str, str]) -> list[tuple[str, str, str, str]]:
    return [(name, _form(table, name), _optional(table, name), about) for name, about in keys.items()]


def storage_rows() -> list[tuple[str, str, str, str]]:
    return [(name, "text", _value(storage_access.DEFAULTS[name]), about) for name, about in storage_access.KEYS.items()]


def settings_rows(settings: tuple[dataclasses.Field, ...]) -> list[tuple[str, str, str, str]]:
    return [(each.name, _range(each), _value(each.default), _sentence(each)) for each in settings]


def _form(table: str, name: str) -> str:
    least, most = coordinators.RANGES.get((table, name), (None, None))
    return "text" if least is None else f"integer, {least} to {most}"


def _optional(table: str, name: str) -> str:
    default = coordinators.OPTIONAL.get((table, name))
    return "required" if default is None else _value(default)


def _range(each: dataclasses.Field) -> str:
    if "least" not in each.metadata:
        return "true or false"
    return f"integer, {each.metadata['least']} to {each.metadata['most']}"


def _sentence(each: dataclasses.Field) -> str:
    about = each.metadata["about"]
    return about[0].upper() + about[1:] + "."


def _value(default: object) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f'`"{default}"`' if isinstance(default, str | Path) else f"`{default}`"


def _rows(rows: list[tuple[str, str, str, str]]) -> str:
    lines = [f"| `{name}` | {form} | {default} | {about} |\n" for name, form, default, about in rows]
    return "| key | form | default | meaning |\n|---|---|---|---|\n" + "".join(lines)
