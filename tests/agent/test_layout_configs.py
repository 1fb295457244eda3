"""Configs as files: what is signed is what a program reads, with its bytes and modes (format.md 11; protocol.md 4)."""

import os
import shutil
import stat
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.access.access import Access, AccessRule
from agent.files.file_access import FileAccess
from agent.files.generations import Generations, Permissions
from agent.files.layout import ProjectedScope
from agent.files.projection import Projection
from coordinator.declared import increments
from coordinator.keys.signer import entry_of
from snapshot import canonical
from snapshot.config_files import MODES
from snapshot.secrets import find_shape
from tests.examples import examples
from tests.fakes.cluster import NOW, Cluster
from tests.fakes.config_document import FileContent, config_sections

WEB = "config/web"
FILES = {
    "nginx.conf": FileContent(b"worker_processes 1;\n"),
    "bin/check": FileContent(b"#!/bin/sh\n", "0755"),
    "conf.d/a/flags.json": FileContent(b'{"on":true}', "0600", is_json=True),
    "empty": FileContent(b"", "0640"),
}


def shown(files, name=WEB, part_bytes=7, **changes):
    made = config_sections(files, part_bytes)
    entries = {section: entry_of(data, is_raw=section in made.raw) for section, data in made.sections.items()}
    given = {"expires_at": NOW + 60, "grade": "fresh", "read": made.sections.__getitem__}
    return ProjectedScope(name, 1, 1, "sha256:" + "ab" * 32, sections=entries, **(given | changes))


def projection(folder, permissions=None, access=None):
    files = FileAccess(permissions or Permissions(), access)
    return Projection(Generations(folder, "active", files.top), files)


def files_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and mode by path, of one config."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(one.relative_to(folder)): (one.read_bytes(), stat.S_IMODE(one.stat().st_mode)) for one in found}


def names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def wanted(files, most):
    return {path: (file.data, int(file.mode, 8) & most) for path, file in files.items()}


@pytest.mark.parametrize(
    ("configured", "most"), [(0o640, 0o750), (0o644, 0o755), (0o600, 0o700), (0o440, 0o550)], ids=oct
)
def test_files_have_their_paths_and_modes_and_none_wider_than_configured(tmp_path, configured, most):
    made = projection(tmp_path, Permissions(configured, 0o750))
    assert made.project(1, [shown(FILES), shown({"motd": FileContent(b"x")}, "config/other")], 0.0)
    assert files_in(tmp_path / "active/config/web") == wanted(FILES, most)
    assert files_in(tmp_path / "active/config/other") == {"motd": (b"x", 0o644 & most)}
    folders = {str(one.relative_to(tmp_path / "active")) for one in (tmp_path / "active").rglob("*") if one.is_dir()}
    assert {"config", "config/web", "config/web/conf.d", "config/web/conf.d/a"} <= folders
    assert {stat.S_IMODE((tmp_path / "active" / one).stat().st_mode) for one in folders} == {0o750}
    index = canonical.loads((tmp_path / "active/index.json").read_bytes())
    assert index["scopes"][WEB]["path"] == "config/web"


def test_what_has_not_changed_is_linked_and_what_has_another_mode_is_not(tmp_path):
    made = projection(tmp_path)
    made.project(1, [shown(FILES)], 0.0)
    place = tmp_path / "active/config/web"
    before = {path: (place / path).stat().st_ino for path in FILES}
    after = FILES | {
        "nginx.conf": FileContent(b"worker_processes 2;\n"),
        "bin/check": FileContent(b"#!/bin/sh\n", "0700"),
    }
    made.project(2, [shown(after, part_bytes=3)], 0.0)
    assert files_in(place) == wanted(after, 0o750)
    same = {path for path in FILES if (place / path).stat().st_ino == before[path]}
    assert same == {"conf.d/a/flags.json", "empty"}


def test_a_new_process_takes_over_what_is_right_and_writes_the_rest_anew(tmp_path):
    projection(tmp_path).project(1, [shown(FILES)], 0.0)
    target = (tmp_path / "active").readlink()
    assert not projection(tmp_path).project(1, [shown(FILES)], 0.0)
    assert (tmp_path / "active").readlink() == target
    place = tmp_path / "active/config/web"
    (place / "empty").chmod(0o600)
    (place / "nginx.conf").write_bytes(b"worker_processes 9;\n")
    (place / "conf.d/strange").write_bytes(b"")
    untouched = (place / "bin/check").stat().st_ino
    assert projection(tmp_path).project(1, [shown(FILES)], 0.0)
    place = tmp_path / "active/config/web"
    assert files_in(place) == wanted(FILES, 0o750)
    assert (place / "bin/check").stat().st_ino == untouched


def test_a_config_goes_and_others_stay(tmp_path):
    made = projection(tmp_path)
    made.project(1, [shown(FILES), shown(FILES, "config/other")], 0.0)
    made.project(2, [shown(FILES, "config/other")], 0.0)
    assert names_in(tmp_path / "active/config") == ["other"]
    made.project(3, [], 0.0)
    assert names_in(tmp_path / "active") == ["index.json"]


def test_each_config_is_for_those_who_may_read_it(tmp_path):
    """By access lists on its folder and all below it; the folder of all configs is to get through."""
    rules = tuple(AccessRule(frozenset({uid}), scopes=(name,)) for uid, name in ((1234, WEB), (4321, "config/other")))
    made = projection(tmp_path, Permissions(0o640, 0o750), Access(rules))
    made.project(1, [shown(FILES), shown({"motd": FileContent(b"x")}, "config/other")], 0.0)
    active = tmp_path / "active"
    assert names_in(active / ".index") == ["config@other.json", "config@web.json"]
    lists = {one: os.getxattr(active / one, "system.posix_acl_access") for one in FOR_WEB}
    assert all((1234).to_bytes(4, "little") in each for each in lists.values())
    assert not any((4321).to_bytes(4, "little") in each for each in lists.values())
    both = os.getxattr(active / "config", "system.posix_acl_access")
    assert all(uid.to_bytes(4, "little") in both for uid in (1234, 4321))
    assert stat.S_IMODE((active / "config").stat().st_mode) & 0o077 == 0o010
    assert not projection(tmp_path, Permissions(0o640, 0o750), Access(rules)).project(
        1, [shown(FILES), shown({"motd": FileContent(b"x")}, "config/other")], 0.0
    )


FOR_WEB = ["config/web", "config/web/conf.d", "config/web/conf.d/a", "config/web/nginx.conf", "config/web/bin/check"]


def test_a_file_larger_than_a_section_is_written_a_part_at_a_time(tmp_path):
    """Memory stays bounded by sections (rules S8)."""
    part = 256 << 10
    made = config_sections({"big": FileContent(bytes(64 * part))}, part)
    entries = {section: entry_of(data, is_raw=section in made.raw) for section, data in made.sections.items()}
    index, size = made.sections["files"], 64 * part
    del made

    def read(name):
        return index if name == "files" else bytes(part)

    one = ProjectedScope(
        WEB,
        1,
        1,
        "sha256:" + "ab" * 32,
        NOW + 60,
        "fresh",
        entries,
        read,
    )
    tracemalloc.start()
    try:
        projection(tmp_path).project(1, [one], 0.0)
        projection(tmp_path).project(1, [one], 0.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "active/config/web/big").stat().st_size == size
    assert peak < 8 * part


PARTS = st.text("abAB01._-", min_size=1, max_size=9).filter(lambda part: part not in (".", ".."))
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
# Some are what stands in the source, such as the first line of a key: test_raw_secrets has what becomes of those.
BYTES = st.binary(max_size=60).filter(lambda data: find_shape(data.decode("latin-1")) is None)
CONTENTS = st.builds(FileContent, BYTES, st.sampled_from(MODES)) | st.builds(
    lambda value, mode: FileContent(canonical.dumps(value), mode, is_json=True),
    st.dictionaries(st.text("abc"), st.integers(0, 9)),
    st.sampled_from(MODES),
)


def without_conflicts(files):
    """No path is another one's folder."""
    folders = {"/".join(path.split("/")[:count]) for path in files for count in range(1, path.count("/") + 1)}
    return {path: file for path, file in files.items() if path not in folders}


ANY_FILES = st.dictionaries(PATHS, CONTENTS, max_size=8).map(without_conflicts)


def snapshot_of(cluster, content):
    return cluster.snapshot(content.sections, WEB, raw=content.raw)


def increment_of(cluster, content):
    """As the coordinator makes one: from what is held, JSON by patches where these are shorter."""
    base = cluster.states[WEB]
    delta = increments.changes(
        base.base().sections, base.sections.__getitem__, content.sections, content.raw, {"files"}
    )
    sets = {name for name, change in delta.changes.items() if change.op == "set"}
    return cluster.increment(
        WEB,
        sets={name: content.sections[name] for name in sets},
        removes=[name for name, change in delta.changes.items() if change.op == "remove"],
        patches={name: canonical.loads(delta.brought[name]) for name, change in delta.changes.items()
                 if change.op == "patch"},
        raw=sets & content.raw,
    )  # fmt: skip


@examples(60)
@given(
    st.lists(st.tuples(ANY_FILES, st.sampled_from([snapshot_of, increment_of])), min_size=1, max_size=4),
    st.integers(1, 40),
)
def test_any_files_signed_verified_and_projected_are_the_same_files(versions, part_bytes):
    """One version after the other, by snapshot and by increment, in one folder: either way the state is that of the
    whole document.
    """
    cluster = Cluster()
    node = cluster.node()
    folder = Path(tempfile.mkdtemp())
    try:
        made = projection(folder)
        for generation, (files, sign) in enumerate(versions, start=1):
            content = config_sections(files, part_bytes)
            before = cluster.states.get(WEB)
            is_change = before is not None and dict(before.sections) != dict(content.sections)
            node.take((sign if is_change else snapshot_of)(cluster, content))
            held = node.holder.active[WEB]
            assert {name: held.read(name) for name in held.sections} == dict(content.sections)
            assert {name for name, entry in held.sections.items() if entry.is_raw} == content.raw
            one = ProjectedScope(WEB, 1, generation, held.content_hash, NOW + 60, "fresh", held.sections, held.read)
            made.project(generation, [one], 0.0)
            assert files_in(folder / "active/config/web") == wanted(files, 0o750)
    finally:
        shutil.rmtree(folder)
