"""Services' settings and routes as files of their own: what they say, when they are linked, and for whom they are."""

import hashlib
import json
import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.access.access import Access, AccessRule
from agent.files.access_lists import list_of
from agent.files.entry_files import PartsSum
from agent.files.file_access import FileAccess
from agent.files.generations import FilesError, Generations, Permissions
from agent.files.layout import ProjectedScope
from agent.files.projection import Projection
from coordinator.keys.signer import entry_of
from snapshot import canonical
from snapshot.content import is_part
from snapshot.section_table import read_state, state_bytes
from tests.examples import examples
from tests.fakes.cluster import NOW

WEB = "service_assignment/web"
ENTRY = {"endpoints": [{"port": 80}], "settings": {"workers": 4, "greeting": "ä"}, "workload": None}
ROUTES = {"routes.00": {"north": {"ttl_s": 60}}, "routes.2c": {}, "routes.3f": {"a": {"ttl_s": 1}}, "other": {"x": 1}}


def projected(name, sections, reads=None, **changes):
    data = {section: canonical.dumps(value) for section, value in sections.items()}

    def read(section):
        if reads is not None:
            reads.append(section)
        return data[section]

    given = {"expires_at": NOW + 60, "grade": "fresh", "read": read}
    entries = {section: entry_of(one) for section, one in data.items()}
    return ProjectedScope(name, 1, 1, f"sha256:{hashlib.sha256(b''.join(data.values())).hexdigest()}", sections=entries,
                          **(given | changes))  # fmt: skip


def service(entry, service_id="web", **changes):
    return projected(f"service_assignment/{service_id}", {"services": {service_id: entry}}, **changes)


def projection(folder, said=None, access=None):
    whose = FileAccess.from_configuration(said, Permissions(), access or Access.of_group(os.getgid()))
    return Projection(Generations(folder, "active", whose.top), whose)


def test_each_by_what_it_is(tmp_path):
    """A service that this node only leads to has no settings to show."""
    made = projection(tmp_path)
    leads_to = service({"endpoints": []}, "mail")
    assert made.project(1, [service(ENTRY), leads_to, projected("route_policy", ROUTES)], 0.0)
    active = tmp_path / "active"
    assert (active / "services/web/settings.json").read_bytes() == canonical.dumps(ENTRY["settings"])
    assert json.loads((active / "routes.json").read_bytes()) == {"north": {"ttl_s": 60}, "a": {"ttl_s": 1}}
    assert [one.name for one in (active / "services").iterdir()] == ["web"]
    assert stat.S_IMODE((active / "services/web").stat().st_mode) == 0o750
    assert stat.S_IMODE((active / "routes.json").stat().st_mode) == 0o640
    made.project(2, [projected("route_policy", {})], 0.0)
    assert (active / "routes.json").read_bytes() == b"{}"
    assert not (active / "services").exists()
    made.project(3, [], 0.0)
    assert [one.name for one in active.iterdir()] == ["index.json"]


def test_what_is_gone_out_by_without_what_is_revoked(tmp_path):
    """format.md 5, rules S60: by a head, of the same document; also what is reached by a revoked connector"""
    made, path = projection(tmp_path), tmp_path / "active" / "services" / "web" / "resources.json"
    entries = {"office": {"type": "connector"}, "plant": {"connector_id": "office"}, "printer": {"settings": {}}}
    sections = {"services": {"web": ENTRY}, "resources": entries | {"No": {}, "no-object": 1}}
    made.project(1, [projected(WEB, sections)], 0.0)
    assert json.loads(path.read_bytes()) == entries
    made.project(2, [projected(WEB, sections, revoked=frozenset({"office"}))], 0.0)
    assert json.loads(path.read_bytes()) == {"printer": {"settings": {}}}
    made.project(3, [projected(WEB, sections, revoked=frozenset({"other"}))], 0.0)
    assert json.loads(path.read_bytes()) == entries
    made.project(4, [projected(WEB, {"services": {"web": ENTRY}})], 0.0)
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]


def test_what_says_the_same_is_linked_and_read_once(tmp_path):
    """Another endpoint, or a part that moves to another section, is no change of the file."""
    active, made, reads = tmp_path / "active", projection(tmp_path), []

    def nodes():
        return [(active / path).stat().st_ino for path in ("services/web/settings.json", "routes.json")]

    made.project(1, [service(ENTRY), projected("route_policy", ROUTES)], 0.0)
    before = nodes()
    made.project(2, [service(ENTRY | {"endpoints": []}), projected("route_policy", ROUTES | {"other": {}})], 0.0)
    assert nodes() == before
    made.project(3, [service(ENTRY | {"endpoints": []}, reads=reads, grade="stale")], 0.0)
    assert reads == []
    assert not projection(tmp_path).project(3, [service(ENTRY | {"endpoints": []}, grade="stale")], 0.0)
    made.project(4, [service({"settings": 1})], 0.0)
    assert (active / "services/web/settings.json").read_bytes() == b"1"


def test_a_restart_mends_what_somebody_wrote_into(tmp_path):
    scopes = [service(ENTRY), projected("route_policy", ROUTES)]
    projection(tmp_path).project(1, scopes, 0.0)
    active = tmp_path / "active"
    wanted = {path: (active / path).read_bytes() for path in ("services/web/settings.json", "routes.json")}
    for path, data in wanted.items():
        for harm in (lambda one: one.write_bytes(b"evil"), lambda one: one.chmod(0o666), lambda one: one.unlink()):
            harm(active / path)
            assert projection(tmp_path).project(1, scopes, 0.0)
            assert (active / path).read_bytes() == data
            assert stat.S_IMODE((active / path).stat().st_mode) == 0o640
            assert not projection(tmp_path).project(1, scopes, 0.0)


WEBS, ALL, ROUTERS = 4401, 4402, 4403
READERS = Access(
    (
        AccessRule(uids=frozenset({WEBS}), scopes=(WEB,)),
        AccessRule(uids=frozenset({ALL}), expired=True),
        AccessRule(uids=frozenset({ROUTERS}), scopes=("route_policy",)),
    )
)


def may_read(path, uid):
    """Whether this account opens it, as the kernel says."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.close(os.open(path, os.O_RDONLY))
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.parametrize("grade", ["fresh", "expired"])
def test_they_are_for_the_readers_of_their_scopes(public_folder, grade):
    """config.md 5: who reads one service reads its settings, and neither another's nor routes."""
    made = projection(public_folder, "scope", READERS)
    scopes = [service(ENTRY), service(ENTRY, "db"), projected("route_policy", ROUTES, grade=grade)]
    made.project(1, scopes, 0.0)
    active = public_folder / "active"
    found = {
        (uid, path)
        for uid in (WEBS, ALL, ROUTERS, 4404)
        for path in ("services/web/settings.json", "services/db/settings.json", "routes.json")
        if may_read(active / path, uid)
    }
    assert found == {
        (WEBS, "services/web/settings.json"),
        (ALL, "services/web/settings.json"),
        (ALL, "services/db/settings.json"),
        (ALL, "routes.json"),
        *([(ROUTERS, "routes.json")] if grade == "fresh" else []),
    }
    assert not any(may_read(active / "services", uid) for uid in (WEBS, ALL, 4404))  # to get through, not to look
    descriptor = os.open(active / "routes.json", os.O_RDONLY)
    try:
        assert list_of(descriptor)
    finally:
        os.close(descriptor)
    assert not projection(public_folder, "scope", READERS).project(1, scopes, 0.0)


def test_another_grade_of_the_routes_closes_the_file(tmp_path):
    modes = []
    made = projection(tmp_path, "scope", Access(READERS.rules[2:]))
    for generation, grade in enumerate(("fresh", "expired", "fresh")):
        made.project(generation, [projected("route_policy", ROUTES, grade=grade)], 0.0)
        modes.append(stat.S_IMODE((tmp_path / "active/routes.json").stat().st_mode))
        assert len(made.generations.labels()) == 1
    assert modes == [0o640, 0o600, 0o640]


def test_what_is_kept_of_the_routes_is_as_small_with_many_parts_as_with_one():
    """The names and hashes of ten thousand parts would stay in memory, beside the state that has them anyway."""
    parts = {f"routes.{number:05x}": {f"r{number}": {}} for number in range(50)}
    file = projected("route_policy", parts).others["routes.json"]
    kept = file.identity()
    assert kept == file
    assert (kept.made, kept.read_entry, len(kept.parts)) == (None, None, 1)
    assert projected("route_policy", parts | {"routes.00007": {"r7": {"x": 1}}}).others["routes.json"] != kept


# ---- the routes, made of those before

PARTS = [f"routes.{number:02x}" for number in range(12)]
VALUES = st.sampled_from([None, {}, {"a": 1}, {"b": {"ttl_s": 60}, "c": 2}, {"long": "x" * 300}, [1, 2], "text"])


def of_table(state, reads=None):
    """As a node has it: its sections in one string."""
    scope = projected("route_policy", state, reads)
    return replace(scope, sections=read_state(state_bytes(scope.sections))) if state else scope


@given(st.lists(st.dictionaries(st.sampled_from([*PARTS, "routes", "routes-not", "other"]), VALUES), min_size=1))
@examples(60)
def test_routes_that_are_made_of_those_before_are_as_if_made_anew(states):
    """protocol.md 4: also where the first part comes or goes, is empty, or is no object"""
    with tempfile.TemporaryDirectory() as folder:
        made, state = projection(Path(folder)), {"routes.ff": {"z": 26}}
        for generation, changes in enumerate(states, 1):
            state = {name: value for name, value in (state | changes).items() if value is not None}
            made.project(generation, [of_table(state)], 0.0)
            names = [name for name in sorted(state) if name == "routes" or name.startswith("routes.")]
            members = [canonical.dumps(state[name])[1:-1] for name in names if isinstance(state[name], dict)]
            wanted = b"{" + b",".join(filter(None, members)) + b"}"
            assert (Path(folder) / "active/routes.json").read_bytes() == wanted


@given(st.lists(st.dictionaries(st.sampled_from([*PARTS, "routes", "routes-not", "other"]), VALUES), min_size=1))
@examples(60)
def test_what_all_parts_come_to_is_what_they_are_added_up(states):
    """Whatever comes, goes or changes from one state to the next; and another key wherever a part is another one."""
    parts, state, keys = PartsSum(), {}, {}
    for changes in states:
        state = {name: value for name, value in (state | changes).items() if value is not None}
        sections = of_table(state).sections
        wanted = {name: entry for name, entry in sections.items() if is_part(name, "routes")}
        before = parts.key, wanted == keys.get(parts.key)
        for _ in range(2):
            parts.follow(sections)
            assert parts.size == sum(entry.size for entry in wanted.values())
            assert keys.setdefault(parts.key, wanted) == wanted
        assert parts.key == before[0] or not before[1], "of what stays the key stays"


def test_of_the_routes_nothing_is_read_but_what_has_changed(tmp_path):
    made, state = projection(tmp_path), {name: {name[-2:]: {"ttl_s": 60}} for name in PARTS}
    made.project(1, [of_table(state)], 0.0)
    reads = []
    made.project(2, [of_table(state | {PARTS[3]: {"03": {"ttl_s": 61}}}, reads)], 0.0)
    assert set(reads) == {PARTS[3]}
    assert json.loads((tmp_path / "active/routes.json").read_bytes())["03"] == {"ttl_s": 61}


def test_routes_that_somebody_has_cut_are_made_anew_in_the_next_round(tmp_path):
    made, state = projection(tmp_path), {name: {name[-2:]: {"ttl_s": 60}} for name in PARTS}
    made.project(1, [of_table(state)], 0.0)
    os.truncate(tmp_path / "active/routes.json", 20)
    state[PARTS[3]] = {}
    with pytest.raises(FilesError, match="files_io"):
        made.project(2, [of_table(state)], 0.0)
    assert made.project(2, [of_table(state)], 0.0)
    assert len(json.loads((tmp_path / "active/routes.json").read_bytes())) == len(PARTS) - 1
