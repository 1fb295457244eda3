"""The settings of both daemons as they stand in agent.toml(5) and coordinator.toml(5): from the tables of the code.

The same as docs/configuration.md has, in roff, so that neither can say what the code does not.
"""

import dataclasses
import re
from collections.abc import Iterator

from coordinator.base.settings import CoordinatorSettings
from coordinator.setup import configuration as coordinators
from tests.pages import configuration as page

Row = tuple[str, str, str, str]  # key, form, default, meaning


def agents() -> Iterator[str]:
    for title, cls in page.TABLES:
        yield f".SH {_text(title)}".replace('"', "")
        yield _text(" ".join((cls.__doc__ or "").split()))
        yield from _rows(page.agent_rows(cls))


def coordinators_own() -> Iterator[str]:
    yield '.SH "FIRST KEY"'
    yield from _rows([("coordinator_id", "an id", "required", coordinators.ID_ABOUT)])
    for table, keys in coordinators.TABLES.items():
        yield f".SH [{table}]"
        yield from _rows(page.coordinator_rows(table, keys))
    yield ".SH [settings]"
    yield from _rows(page.settings_rows(dataclasses.fields(CoordinatorSettings)))
    yield ".PP"
    yield _text(page.AT_ODDS)


def _rows(rows: list[Row]) -> Iterator[str]:
    for key, form, default, about in rows:
        yield ".TP"
        yield rf"\fB{_text(key)}\fR ({_text(form)}; {_default(default)})"
        yield _text(about)


def _default(default: str) -> str:
    return default if default in ("required", "none") else f"default {_text(default)}"


def _text(text: str) -> str:
    """One line of roff: what Markdown marks as code is bold, and nothing begins a request."""
    plain = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    marked = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", plain).replace("**", "")
    return rf"\&{marked}" if marked.startswith((".", "'")) else marked
