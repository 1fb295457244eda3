"""The code blocks of pages, and what each of them shows: commands, what these print, files, fragments."""

import re
import textwrap
from dataclasses import dataclass

from tests.citations import ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
PROGRAMS = frozenset(
    ["apt", "apt-get", "cat", "cd", "curl", "export", "git", "holdfast", "holdfast-agent", "holdfast-coordinator",
     "holdfastctl", "journalctl", "kill", "make", "mkdir", ".", "mv", "pip", "python3", "rm", "shred", "sudo",
     "systemctl"]
)  # fmt: skip

_FENCED = r"^```(?P<kind>[a-z]*)\n(?P<inside>(?:.*\n)*?)^```"
_INDENTED = r"(?P<indented>(?:^ {4}.*\n?(?:^\n(?=^ {4}))*)+)"
_BLOCK = re.compile(f"{_FENCED}|{_INDENTED}", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_JOINED = re.compile(r"\s*\\\n\s*")


@dataclass(frozen=True)
class Block:
    """`text` without its indentation; `kind` as the fence says it: `yaml`, `toml`, or empty; `section`: the
    heading that it stands under.
    """

    page: str
    kind: str
    text: str
    section: str = ""

    @property
    def name(self) -> str:
        """Its first line: what the table of test_documented_blocks.py calls it."""
        return self.text.splitlines()[0].strip()

    def typed(self) -> list[str]:
        """Its commands: the lines after a prompt, or, without one, those that begin with a program and no space."""
        lines = self._lines()
        if any(line.startswith("$ ") for line in lines):
            return [line[2:].strip() for line in lines if line.startswith("$ ")]
        return [line for line in lines if _program(line) in PROGRAMS or line.startswith("examples/")]

    def shown(self) -> list[str]:
        """What it says that is printed; `...` alone stands for any lines."""
        typed = {*self.typed(), *(f"$ {one}" for one in self.typed())}
        return [line.strip() for line in self._lines() if line not in typed and line.strip() not in ("", "...")]

    def _lines(self) -> list[str]:
        return [line.rstrip() for line in _JOINED.sub(" ", self.text).splitlines()]


def blocks(page: str) -> list[Block]:
    found = []
    whole = (ROOT / page).read_text()
    for match in _BLOCK.finditer(whole):
        indented = match["indented"]
        text = match["inside"] if indented is None else re.sub(r"^ {4}", "", indented, flags=re.MULTILINE)
        if text.strip():
            above = _HEADING.findall(whole, 0, match.start())
            section = above[-1] if above else ""
            found.append(Block(page, match["kind"] or "", textwrap.dedent(text).strip("\n") + "\n", section))
    return found


def _program(line: str) -> str:
    return line.partition(" ")[0]
