"""The index of a `config` document (format.md 11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.keys.signer import entry_of
from snapshot import canonical
from snapshot.config_files import MODES, check_index, is_path, parse_index
from snapshot.manifest import SectionEntry
from snapshot.reasons import Reason, Rejected
from tests.fakes.config_document import FileContent, config_sections

HEX = "ab" * 32
ENTRY = {"sections": ["a"], "size": 3, "mode": "0644"}


def refused(call, *arguments):
    with pytest.raises(Rejected) as verdict:
        call(*arguments)
    assert (verdict.value.step, verdict.value.reason) == (11, Reason.BAD_CONTENT)


PATHS = [
    "a",
    "A",
    "-",
    "_",
    "a.",
    ".a",
    "...",
    "nginx.conf",
    "conf.d/a.conf",
    "a/b/c/d/e/f/g/h",
    "x" * 128,
    "a-/.b/c_d",
]
NO_PATHS = [
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/.",
    "./a",
    "a/..",
    "a/../b",
    "a b",
    "a\n",
    "\u00e4",
    "a\\b",
    "a:b",
]
NO_PATHS += [
    "a/b/c/d/e/f/g/h/i",
    "x" * 129,
    "/".join(["x" * 127] * 2) + "/",
    "~",
    "a\0b",
    "/".join(["x" * 85] * 3)[:-1] + "yy",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path(path):
    assert is_path(path)


@pytest.mark.parametrize("path", NO_PATHS, ids=repr)
def test_no_path(path):
    assert not is_path(path)
    refused(parse_index, {path: ENTRY})


def test_a_path_has_at_most_255_bytes():
    longest = "/".join(["x" * 127, "y" * 127])
    assert len(longest) == 255
    assert is_path(longest)
    assert not is_path(longest + "y")


def test_no_path_is_another_ones_folder():
    assert parse_index({"a": ENTRY, "a.b": ENTRY, "ab/c": ENTRY, "A/b": ENTRY, "b/a": ENTRY})
    for other in ("a/b", "a/b/c"):
        refused(parse_index, {"a": ENTRY, other: ENTRY})
    refused(parse_index, {"a/b": ENTRY, "a/b/c/d": ENTRY, "x": ENTRY})


FORMS = {
    "sections": ["a", [], None, ["A"], ["a", 1], [""], {"a": 1}, ["a"] * 257],
    "size": [-1, True, 1.5, "3", None],
    "mode": ["", "644", "0666", "0777", "4755", "1644", 420, None, ["0644"], "0644\n"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in FORMS for value in FORMS[name]], ids=repr)
def test_each_member_has_a_form(name, value):
    refused(parse_index, {"a": ENTRY | {name: value}})


def test_an_entry_is_closed():
    for name in ENTRY:
        refused(parse_index, {"a": {member: value for member, value in ENTRY.items() if member != name}})
    for value in (ENTRY | {"owner": "root"}, ENTRY | {"critical.x": 1}, [], None, "a"):
        refused(parse_index, {"a": value})
    for value in ([], None, 1, "a"):
        refused(parse_index, value)


def test_at_most_10_000_files():
    assert len(parse_index({f"f{number}": ENTRY for number in range(10_000)})) == 10_000
    refused(parse_index, {f"f{number}": ENTRY for number in range(10_001)})


def entries(**sections):
    found = {name: SectionEntry(HEX, abs(size), size >= 0) for name, size in sections.items()}
    return {"files": SectionEntry(HEX, 9)} | found


def index(**files):
    return parse_index(
        {path: {"sections": names, "size": size, "mode": "0644"} for path, (names, size) in files.items()}
    )


def test_each_section_is_a_part_of_exactly_one_file():
    """A negative size is that of a JSON section."""
    check_index(index(x=(["a", "b"], 3), y=(["c"], 4)), entries(a=1, b=2, c=-4))
    check_index(index(x=(["b", "a"], 3)), entries(a=1, b=2))
    check_index({}, entries())
    check_index(index(x=(["a"], 0)), entries(a=0))
    wrong = [
        (index(x=(["a"], 1)), entries()),
        (index(), entries(a=1)),
        (index(), entries(a=-1)),
        (index(x=(["a", "a"], 2)), entries(a=1)),
        (index(x=(["a"], 1), y=(["a"], 1)), entries(a=1)),
        (index(x=(["a"], 2)), entries(a=1)),
        (index(x=(["a"], 0)), entries(a=1)),
        (index(x=(["files"], 9)), entries()),
        (index(x=(["a", "b"], 3)), entries(a=1, b=-2)),
        (index(x=(["a", "b"], 3)), entries(a=-1, b=-2)),
        (index(), {}),
        (index(), {"files": SectionEntry(HEX, 9, is_raw=True)}),
    ]
    for files, sections in wrong:
        refused(check_index, files, sections)


PARTS = st.text("abcXYZ019._-", min_size=1, max_size=12).filter(lambda part: part not in (".", ".."))
CONTENTS = st.builds(FileContent, st.binary(max_size=40), st.sampled_from(MODES)) | st.builds(
    lambda value, mode: FileContent(canonical.dumps(value), mode, is_json=True),
    st.dictionaries(st.text("abc"), st.integers(0, 9)),
    st.sampled_from(MODES),
)
FILES = st.dictionaries(PARTS.map("dir/".__add__) | PARTS.filter(lambda part: part != "dir"), CONTENTS, max_size=12)


@given(FILES, st.integers(1, 9))
def test_any_files_are_sections_and_the_same_files_again(files, part_bytes):
    made = config_sections(files, part_bytes)
    sections = {name: entry_of(data, is_raw=name in made.raw) for name, data in made.sections.items()}
    found = parse_index(canonical.loads(made.sections["files"]))
    check_index(found, sections)
    again = {path: b"".join(made.sections[name] for name in entry.sections) for path, entry in found.items()}
    assert again == {path: file.data for path, file in files.items()}
    assert {path: entry.mode for path, entry in found.items()} == {path: file.mode for path, file in files.items()}
    assert all(made.sections[name] for name in made.raw if entry_of(made.sections[name]).size)
    assert min(sections) == "files" or not made.raw or min(made.raw) > "files"
