"""The pages under docs/ that are made from the code, each by one module here.

    python -m tests.pages            says which differ from the code
    python -m tests.pages --write    writes them anew

tests/test_pages.py holds every page against what the code says now.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.citations import ROOT
from tests.pages import configuration, openapi, reasons, resources, secret_rates
from tests.pages.openapi import admin, coordinator, local

APIS = {
    "local": local.api,
    "coordinator": coordinator.api,
    "admin": admin.api,
}
"""Each HTTP interface, by the name of its page."""


def _yaml(api: Callable[[], openapi.Api]) -> str:
    return openapi.text(api())


PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs/configuration.md": configuration.page,
    ROOT / "docs/reasons.md": reasons.page,
    ROOT / "docs/resources.md": resources.page,
    ROOT / "docs/threat-model.md": secret_rates.page,
    **{ROOT / f"docs/openapi-{name}.yaml": partial(_yaml, api) for name, api in APIS.items()},
}


def stale() -> list[Path]:
    """The pages that are not what the code says."""
    return [path for path, page in PAGES.items() if not path.exists() or path.read_text() != page()]
