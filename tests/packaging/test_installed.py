"""What each package holds: all that its programs import, from Debian packages that it depends on, and no more."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache

import pytest

from holdfast.ctl import operator
from holdfast.ctl.socket import REFUSED
from holdfast.node import command
from tests import trees
from tests.citations import ROOT
from tests.packaging.installed import DEB, LIBRARIES, REMOVED, install
from wire.version import VERSION

RULES = (DEB / "rules").read_text()
OURS = {"snapshot", "wire", "store", "agent", "coordinator", "holdfast"}
DEBIANS = {  # name in Python -> Debian package
    "alembic": "python3-alembic",
    "click": "python3-click",
    "cryptography": "python3-cryptography",
    "h11": "python3-h11",
    "httpx": "python3-httpx",
    "jsonschema": "python3-jsonschema",
    "jwt": "python3-jwt",
    "lmdb": "python3-lmdb",
    "msgpack": "python3-msgpack",
    "nacl": "python3-nacl",
    "prometheus_client": "python3-prometheus-client",
    "psycopg": "python3-psycopg",
    "referencing": "python3-referencing",
    "rich": "python3-rich",
    "sqlalchemy": "python3-sqlalchemy",
    "trio": "python3-trio",
    "yaml": "python3-yaml",
}
USED_WHERE_THERE_IS = {"orjson": "python3-orjson"}  # Debian 12 has none
# What holdfastctl needs where a coordinator is made, and has from holdfast-coordinator, which depends on it.
WITH_A_COORDINATOR = {
    "alembic",
    "h11",
    "jsonschema",
    "jwt",
    "msgpack",
    "nacl",
    "prometheus_client",
    "referencing",
    "sqlalchemy",
    "trio",
}
BY_URL = {"python3-psycopg"}  # SQLAlchemy imports it, for postgresql+psycopg://
PROGRAMS = {
    "holdfast-agent": [
        "agent.command",
        "agent.run",
        "agent.served",
        "agent.upstream",
        *(module for module, *_ in command.COMMANDS.values()),
    ],
    "holdfast-coordinator": ["coordinator.command", "coordinator.run"],
    "holdfastctl": sorted({module for module, *_ in operator.COMMANDS.values()}),
    "python3-holdfast": ["holdfast.client"],
}
# The folder of the package first, then the tests' own libraries; each import is said.
LOADED = """
import importlib, json, sys
sys.path[:0] = [sys.argv[1]]
sys.path += json.loads(sys.argv[2])
for name in json.loads(sys.argv[3]):
    importlib.import_module(name)
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""


def paragraphs():
    """Of debian/control, by package."""
    found = {}
    for paragraph in (DEB / "control").read_text().split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): *((?:.*)(?:\n .*)*)", paragraph, re.MULTILINE))
        found[fields.get("Package", "")] = fields
    return found


def depends(package, field="Depends"):
    """Debian package -> the least version, or an empty string."""
    words = [word.strip() for word in paragraphs()[package][field].split(",")]
    libraries = [word for word in words if not word.startswith(("${", "python3:any", "holdfastctl"))]
    found = [re.fullmatch(r"(\S+)(?: \(>= (\S+)\))?", word) for word in libraries]
    return {each[1]: each[2] or "" for each in found}


def imported(folder):
    """The names at the top of everything that any of its modules imports, also late."""
    found = set().union(*(imported_by(path.read_text()) for path in folder.rglob("*.py")))
    return found - set(sys.stdlib_module_names) - {"__future__"}


@cache
def imported_by(source):
    """Packages share most of their modules."""
    found = set()
    for node in trees.statements(trees.parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", LIBRARIES)
def test_it_depends_on_what_it_imports_and_on_nothing_else(package, tmp_path):
    """Also for what an operator would meet only later, in a command that is seldom used"""
    theirs = imported(install(package, tmp_path)) - OURS
    theirs -= WITH_A_COORDINATOR if package == "holdfastctl" else set()
    assert {DEBIANS[name] for name in theirs - USED_WHERE_THERE_IS.keys()} == depends(package).keys() - BY_URL
    optional = {USED_WHERE_THERE_IS[name] for name in theirs & USED_WHERE_THERE_IS.keys()}
    assert optional == (depends(package, "Suggests").keys() & {*USED_WHERE_THERE_IS.values()} if optional else set())


@pytest.mark.parametrize("package", LIBRARIES)
def test_its_programs_need_no_module_that_it_lacks(package, tmp_path):
    """The other package's modules are not there: an agent's disk holds nothing that signs (rules S40)"""
    folder = install(package, tmp_path)
    libraries = [path for path in sys.path if path and "site-packages" in path]
    names = json.dumps(PROGRAMS[package])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADED, str(folder), json.dumps(libraries), names],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert all(file.startswith(str(tmp_path)) for name, file in loaded.items() if name.split(".")[0] in OURS and file)
    others = {"holdfast-agent": ["coordinator"], "holdfast-coordinator": ["store", "holdfast"]}
    others["holdfastctl"] = ["store", "agent", *WITH_A_COORDINATOR]
    assert not any(name.split(".")[0] in others.get(package, []) for name in loaded)


def test_a_coordinator_has_its_operators_command_of_the_same_version():
    assert "holdfastctl (= ${binary:Version})" in paragraphs()["holdfast-coordinator"]["Depends"]


def test_an_operators_machine_may_be_debian_12():
    has = {"click": "8.1.3", "cryptography": "38.0.4", "httpx": "0.23.3", "rich": "13.3.1", "yaml": "6.0"}
    for name, version in depends("holdfastctl").items():
        assert _numbers(version) <= _numbers(has[name.removeprefix("python3-")]), name


def test_what_makes_a_coordinator_says_that_it_needs_one(tmp_path):
    """Where the coordinator's libraries are not: one sentence, and nothing is made"""
    folder = install("holdfastctl", tmp_path / "root")
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in sorted(WITH_A_COORDINATOR))
    libraries = [path for path in sys.path if path and "site-packages" in path]
    begin = f"import sys\n{hidden}sys.path[:0] = [{str(folder)!r}]\nsys.path += {libraries!r}\n"
    code = f"{begin}from holdfast.ctl.operator import main\nsys.argv[0] = 'holdfastctl'\nmain()"
    asked = ["init", "raven", "--url", "https://localhost:7443", "--state", "state", "--root-keys-to", "roots"]
    command = [sys.executable, "-I", "-S", "-c", code, *asked]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == REFUSED
    assert "holdfast-coordinator" in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_services_need_nothing_but_python():
    assert depends("python3-holdfast") == {}


@pytest.mark.parametrize("package", REMOVED)
def test_what_is_taken_out_is_what_the_rules_take_out(package):
    variable = {"holdfast-agent": "$(AGENT)", "holdfastctl": "$(CTL)"}[package]
    (folder,) = re.findall(rf"rm --recursive {re.escape(variable)}/(\S+)", RULES)
    assert f"{LIBRARIES[package]}/{folder}" == REMOVED[package]


def test_both_stand_on_one_machine(tmp_path):
    """No file is in two packages"""
    installed = []
    for package in LIBRARIES:
        install(package, tmp_path / package)
        root = tmp_path / package
        installed += [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    assert len(installed) == len({*installed})


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    latest = re.match(r"holdfast \((\S+)\)", (DEB / "changelog").read_text())[1]
    assert latest == project["version"] == VERSION


def test_least_versions_are_the_projects():
    """A package asks for no older library than the project does"""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["coordinator"]]
    asked += project["optional-dependencies"]["fast"]
    least = {re.split(r"[><\[]", each)[0].lower(): re.search(r">=([\d.]+)", each)[1] for each in asked}
    names = {"pyyaml": "yaml", "pyjwt": "jwt", "pynacl": "nacl"}
    least = {f"python3-{names.get(name, name)}": version for name, version in least.items()}
    for package in ("holdfast-agent", "holdfast-coordinator", "holdfastctl"):
        suggested = {name: least_of for name, least_of in depends(package, "Suggests").items() if least_of}
        for name, version in {**depends(package), **suggested}.items():
            assert _numbers(version) >= _numbers(least[name]), name


def _numbers(version):
    """Of the version that its makers gave it: what stands behind `-` is Debian's."""
    return [int(part) for part in version.partition("-")[0].split(".")]


def test_the_format_that_preinst_knows_is_taken_from_the_code():
    """rules L37: debian/rules puts it there, and fails where it finds none"""
    assert re.findall(r"sed -n '(.*?)' store/base/migration.py", RULES) == [r"s/^FORMAT = \([0-9]*\)$$/\1/p"]
    assert len(re.findall(r"^FORMAT = [0-9]+$", (ROOT / "store/base/migration.py").read_text(), re.MULTILINE)) == 1
    assert "KNOWN_FORMAT=@FORMAT@" in (DEB / "holdfast-agent.preinst").read_text()
