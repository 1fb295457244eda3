"""The pages that a package carries: all that they link is in the package, by the name that they link it by."""

import re
from pathlib import Path

import pytest

from tests.citations import ROOT
from tests.packaging.installed import DEB
from tests.packaging.manual import MANUAL

PACKAGES = ("holdfast-agent", "holdfast-coordinator", "holdfastctl")
NEEDED = {"operating.md", "reasons.md", "configuration.md", "local-api.md", "keys.md", "installing.md", "monitoring.md"}
LINK = re.compile(r"\]\(([^)\s]+?)(?:#[^)]*)?\)")
CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def carried(package: str) -> dict[str, Path]:
    """Its pages by the name below /usr/share/doc/<package>."""
    patterns = (DEB / f"{package}.docs").read_text().split()
    return {path.name: path for pattern in patterns for path in ROOT.glob(pattern)}


def links(page: Path) -> set[str]:
    """To other files; not those of the web, and not what code looks like."""
    text = CODE.sub("", page.read_text())
    return {target for target in LINK.findall(text) if not re.match(r"[a-z]+:|#", target)}


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_page_links_is_carried(package: str) -> None:
    pages = carried(package)
    assert pages.keys() >= NEEDED
    missing = {
        (name, target)
        for name, page in pages.items()
        if name.endswith(".md")
        for target in links(page)
        if target not in pages
    }
    assert missing == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_pages_have_one_name(package: str) -> None:
    """All of them lie in one folder there"""
    patterns = (DEB / f"{package}.docs").read_text().split()
    found = [path.name for pattern in patterns for path in ROOT.glob(pattern)]
    assert len(found) == len({*found})


def test_pages_keep_their_names() -> None:
    """Compressed they would have others; manual pages have to be."""
    kept = re.findall(r"--exclude=(\S+)", (DEB / "rules").read_text())
    carried_names = {name for package in PACKAGES for name in carried(package)}
    assert [name for name in carried_names if not any(each in name for each in kept)] == []
    assert [path.name for path in MANUAL.iterdir() if any(each in path.name for each in kept)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_manual_pages_name_pages_that_there_are(package: str) -> None:
    """`name(section)` of ours, as SEE ALSO has them; and the paths of what a package carries"""
    ours = {path.name for path in MANUAL.iterdir() if path.suffix != ".in"}
    for line in (DEB / f"{package}.manpages").read_text().split():
        text = (ROOT / line).read_text()
        named = re.findall(r"^\.BR (\S+) \((\d)\)", text, re.MULTILINE)
        found = {f"{name}.{section}".replace("\\-", "-") for name, section in named}
        assert {each for each in found if each.startswith(("holdfast", "agent", "coordinator"))} <= ours
        paths = re.findall(r"/usr/share/doc/(\S+?)/(\S+)", text.replace("\\-", "-"))
        assert all(name in carried(folder) for folder, name in paths), paths
