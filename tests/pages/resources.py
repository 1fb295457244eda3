"""docs/resources.md, from the kinds themselves."""

from dataclasses import Field
from typing import Any

from coordinator.declared.fields import (
    ListForm,
    MappingForm,
    PathMapping,
    RecordForm,
    default_of,
    is_required,
    members,
    name_of,
)
from coordinator.declared.kinds import KINDS, Resource

_HEAD = """\
# Declared resources

What the cluster is to be stands in YAML files, applied as a whole: `holdfastctl apply -f DIR` shows what would change,
asks, and then changes it in one transaction. `--dry-run` and `holdfastctl diff` are the same code, stopped before the
commit. With `--prune`, what no file declares is deleted; without it, it stays.

A file holds one or more documents, separated by `---`, each with exactly three members:

```yaml
kind: Organization
id: acme
spec:
  name: Acme, Ltd.
```

- An `id` has 1 to 64 of `a-z 0-9 . _ -`, begins and ends with a letter or digit, and is unique within its kind.
- The YAML is plain: no anchors, aliases or tags, no name twice. `true`, `false`, `null` and numbers as in JSON are what
  they look like; everything else is text, so `no`, `22:30` and `0755` need no quotes.
- A directory stands for every `*.yaml` and `*.yml` below it, links followed. Names that begin with a dot are passed
  over, since editors and version control keep files of their own there; such a file is read when it is named itself.
  Of those nothing is left out: a link that leads nowhere, a FIFO, a device, what may not be read and what is not UTF-8
  is an error, else `--prune` would delete what it declares.
- An error names file, line, field and remedy, and nothing is applied while there is one.
- A secret never stands in a file. Where a service needs one, write `{secret_ref: "<resolver>:<path>"}`: the node is
  told no more than that. `holdfast exec` resolves `credential:NAME` and `file:/PATH` as the service starts, in its own
  process ([local API](local-api.md#a-programs-settings-and-secrets)); any other resolver is the service's own,
  and `apply` says so in a warning.
  What looks like a password, a private key or a token is refused, by the same detector as on the nodes and by a wider
  table of values; the threat model says which families, how surely, and how the table is
  brought up to date. What it takes wrongly for a secret in a service's `settings`, `exempt` lets through, with a reason
  that the audit log keeps (`resource.exempt`); nothing exempts what nodes refuse. A member that another program has
  given a secret's name (`password: ask`) is refused too: give that program's file as one text, in which names are not
  looked at (`settings: {file: "password: ask"}`).
- `query_grants`, `audit_authority`, `policy_mutations` and `user_directory` are refused: no node is ever given these.
- Who on a node may read what it holds is not declared here: `[access]` in its own `agent.toml` names users and groups
  of that machine, for whole scopes. It opens nothing to other nodes and hides no single section.
- A *selector* chooses nodes: those named in `nodes`, and those that have one of `roles` and all of `labels` (of what is
  given). Left out where that is allowed, it chooses every node.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD, *(_kind(kind) for kind in KINDS)]
    return "\n".join(parts)


def _kind(kind: type[Resource]) -> str:
    tables = [_table("", kind)]
    for name, record in _records(kind):
        tables.append(_table(f"`{name}`:", record))
    return f"## {kind.KIND}\n\n{kind.ABOUT}\n\n" + "\n".join(tables)


def _table(title: str, of: type[Any]) -> str:
    rows = [_row(each) for each in members(of)]
    table = "| member | form | default | meaning |\n|---|---|---|---|\n" + "".join(rows)
    return f"{title}\n\n{table}" if title else table


def _row(each: "Field[Any]") -> str:
    form = each.metadata["form"]
    return f"| `{name_of(each)}` | {form.description} | {_default(each)} | {each.metadata['about']} |\n"


def _default(each: "Field[Any]") -> str:
    if is_required(each):
        return "required"
    value = default_of(each)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, (int, str)) and value != "" else "none"


def _records(of: type[Any]) -> list[tuple[str, type[Any]]]:
    """The mappings within a kind, each with the name of the member that holds it."""
    found = []
    for each in members(of):
        form = each.metadata["form"]
        inner = form.each if isinstance(form, (ListForm, MappingForm)) else form
        if isinstance(inner, RecordForm):
            suffix = {ListForm: "[]", MappingForm: ".<id>", PathMapping: ".<path>"}.get(type(form), "")
            found.append((f"{name_of(each)}{suffix}", inner.of))
    return found
