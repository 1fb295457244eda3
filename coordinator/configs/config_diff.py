"""How a Config differs from what it was, for people: texts line by line, everything else by size and hash. Pure.

lines(before, after, read)    None where there is none; `read` gives the bytes of a part
"""

import difflib
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from coordinator.declared.contents import ReadPart
from coordinator.declared.kinds import Config, ConfigFile
from coordinator.declared.plans import changed_members

TEXT_BYTES = 256 << 10  # of one file that is shown by its lines
COMPARED_LINES = 10_000  # of one file: comparing grows with their square where they repeat
MOST_LINES = 200  # of one file, told
_AROUND = 3


def lines(before: Config | None, after: Config | None, read: ReadPart) -> Iterator[str]:
    """What is not about files first, as of any resource; then each file that is another."""
    if before is not None and after is not None:
        yield from changed_members(replace(before, files={}).spec(), replace(after, files={}).spec())
    old, new = (version.files if version is not None else {} for version in (before, after))
    for path in sorted(old.keys() | new.keys()):
        yield from (f"    {line}" for line in _of_file(path, old.get(path), new.get(path), read))


def _of_file(path: str, old: ConfigFile | None, new: ConfigFile | None, read: ReadPart) -> Iterator[str]:
    if old is None or new is None:
        found = new or old
        if found is not None:
            yield f"{'+' if old is None else '-'} {path}: {_about(found)}"
        return
    if _compared_facts(old) == _compared_facts(new):
        return
    texts = _text(old, read), _text(new, read)
    if texts[0] is None or texts[1] is None or texts[0] == texts[1]:
        yield f"~ {path}: {_about(old)} -> {_about(new)}"
        return
    yield f"~ {path}:" + (f" {_how(old)} -> {_how(new)}" if _how(old) != _how(new) else "")
    differing = difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), n=_AROUND, lineterm="")
    told = list(islice(differing, 2, None))  # without the names
    yield from (f"    {line}" for line in told[:MOST_LINES])
    if len(told) > MOST_LINES:
        yield f"    ... {len(told) - MOST_LINES} more lines"


def _compared_facts(file: ConfigFile) -> tuple[object, ...]:
    return file.stored_content.parts, file.stored_content.size, _how(file)


def _how(file: ConfigFile) -> str:
    return f"mode {file.mode}" + (", a template" if file.template else "")


def _about(file: ConfigFile) -> str:
    digest = file.stored_content.parts[0][:16] + (
        "" if len(file.stored_content.parts) == 1 else f" and {len(file.stored_content.parts) - 1} parts"
    )
    return f"{file.stored_content.size} bytes, sha256 {digest}, {_how(file)}"


def _text(file: ConfigFile, read: ReadPart) -> str | None:
    """None of what is no text, too long to be compared, or kept no more."""
    if file.stored_content.size > TEXT_BYTES:
        return None
    try:
        text = read(file.stored_content.parts[0]).decode()
    except (UnicodeDecodeError, KeyError):
        return None
    return None if "\0" in text or text.count("\n") > COMPARED_LINES else text
