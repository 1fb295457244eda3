"""How a Config differs, as people are shown it: texts by their lines, everything else by size and hash."""

import hashlib
from dataclasses import replace

from coordinator.configs import config_diff
from coordinator.declared import contents
from coordinator.declared.kinds import Config, ConfigFile, FileContent, Selector

STORE: dict[str, bytes] = {}


def file(data: bytes, **more: object) -> ConfigFile:
    parts = contents.split(data)
    hashes = tuple(hashlib.sha256(part).hexdigest() for part in parts)
    STORE.update(zip(hashes, parts, strict=True))
    return ConfigFile(content=FileContent(len(data), hashes), **more)


def config(**files: ConfigFile) -> Config:
    return Config("edge", Selector(nodes=("n",)), files)


def lines(before: Config | None, after: Config | None) -> list[str]:
    return list(config_diff.lines(before, after, STORE.__getitem__))


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def test_a_text_is_shown_by_its_lines() -> None:
    old = b"".join(b"line %d\n" % number for number in range(20))
    found = lines(config(a=file(old)), config(a=file(old.replace(b"line 9\n", b"other\n"))))
    assert found[0] == "    ~ a:"
    assert found[1] == "        @@ -7,7 +7,7 @@"
    assert [each.strip() for each in found if each[8:9] in ("+", "-")] == ["-line 9", "+other"]


def test_bytes_are_shown_by_size_and_hash() -> None:
    old, new = b"\xff\x00", b"\xff\x01\x02"
    assert lines(config(a=file(old)), config(a=file(new))) == [
        f"    ~ a: 2 bytes, sha256 {short(old)}, mode 0644 -> 3 bytes, sha256 {short(new)}, mode 0644"
    ]


def test_a_large_text_is_not_read() -> None:
    old, new = b"x" * (300 << 10), b"y" * (2 << 20)
    before, after = config(a=file(old)), config(a=file(new))
    STORE.clear()
    (found,) = lines(before, after)
    assert found.endswith(f"-> {2 << 20} bytes, sha256 {short(new[: 1 << 20])} and 1 parts, mode 0644")


def test_what_comes_and_goes() -> None:
    assert lines(config(a=file(b"1")), config(b=file(b"2", mode="0600"))) == [
        f"    - a: 1 bytes, sha256 {short(b'1')}, mode 0644",
        f"    + b: 1 bytes, sha256 {short(b'2')}, mode 0600",
    ]
    assert lines(None, config(a=file(b"1"))) == [f"    + a: 1 bytes, sha256 {short(b'1')}, mode 0644"]
    assert lines(config(a=file(b"1")), None) == [f"    - a: 1 bytes, sha256 {short(b'1')}, mode 0644"]


def test_whom_it_is_for_and_what_only_the_mode_changes() -> None:
    before = config(a=file(b"1"))
    after = replace(config(a=file(b"1", mode="0755")), to=Selector(nodes=("m",)))
    assert lines(before, after) == [
        '    spec.to.nodes: ["n"] -> ["m"]',
        f"    ~ a: 1 bytes, sha256 {short(b'1')}, mode 0644 -> 1 bytes, sha256 {short(b'1')}, mode 0755",
    ]
    renamed = config(a=ConfigFile(content=replace(before.files["a"].stored_content, origin="file other")))
    assert lines(before, renamed) == []


def test_thousands_of_lines_are_cut() -> None:
    found = lines(config(a=file(b"")), config(a=file(b"x\n" * 1_000)))
    assert len(found) == 202
    assert found[-1] == "        ... 801 more lines"


def test_texts_of_very_many_lines_are_not_compared() -> None:
    """Lines that repeat cost the square of their number."""
    old, new = b"a\n" * 20_000, b"a\nb\n" * 10_001
    (found,) = lines(config(a=file(old)), config(a=file(new)))
    assert found.startswith(f"    ~ a: {len(old)} bytes")
