"""Secret references that nothing which comes with Holdfast resolves: said as they are applied, and never refused."""

import pytest

from coordinator.declared import contents
from coordinator.declared.kinds import Config, ConfigFile, FileContent, Selector, Service
from coordinator.publishing import unresolved
from holdfast.launch import secret_references
from tests.coordinator.daemon import running
from tests.coordinator.founding import Founded

SELECTED = Selector(nodes=("n",))


def service(settings: dict[str, object]) -> Service:
    return Service("web", organization="acme", runs_on=SELECTED, settings=settings)


def said(*resources: Service | Config, **files: bytes) -> list[str]:
    kept = {contents.digest(each): each for each in files.values()}
    return unresolved.sentences(resources, kept.__getitem__)


def config(path: str, data: bytes, origin: str = "file x") -> Config:
    content = FileContent(len(data), (contents.digest(data),), origin=origin)
    return Config("app", to=SELECTED, files={path: ConfigFile(content=content)})


def test_the_resolvers_are_those_of_the_launcher() -> None:
    assert set(unresolved.RESOLVERS) == secret_references.RESOLVERS.keys()


def test_what_exec_resolves_is_not_mentioned() -> None:
    known = [{"secret_ref": "credential:db"}, {"secret_ref": "file:/etc/app/key"}]
    assert said(service({"db": known[0], "all": known})) == []


def test_another_resolver_is_named_with_its_place_and_the_way_out() -> None:
    """The path behind it is not repeated."""
    (told,) = said(service({"db": [{"user": "a", "login": {"secret_ref": "credentials:hunter2"}}]}))
    assert told.startswith("Service web, settings.db[0].login: holdfast exec resolves no 'credentials', it knows")
    assert "credential: and file:" in told and "correct the reference" in told and "hunter2" not in told


@pytest.mark.parametrize(("path", "origin"), [("env", "json"), ("env.json", "file env.json")])
def test_a_config_of_json_is_looked_at(path: str, origin: str) -> None:
    data = b'{\n  "DB": {"secret_ref": "vault:kv/db"}\n}'
    (told,) = said(config(path, data, origin), data=data)
    assert told.startswith(f"Config app, files.{path}.DB: holdfast exec resolves no 'vault'")


@pytest.mark.parametrize("data", [b'{"secret_ref": ', b"[" * 100_000 + b'"secret_ref"', b'\xff"secret_ref"', b"{}"])
def test_what_is_no_json_is_another_programs(data: bytes) -> None:
    assert said(config("a.json", data), data=data) == []
    assert said(config("a.conf", b'{"x": {"secret_ref": "vault:x"}}'), data=b'{"x": {"secret_ref": "vault:x"}}') == []


def test_many_are_counted() -> None:
    told = said(service({f"s{number}": {"secret_ref": "vault:x"} for number in range(50)}))
    assert len(told) == unresolved.MOST_NAMED + 1 and told[-1] == "30 more references like these"


async def test_an_apply_warns_and_goes_through(founded: Founded) -> None:
    text = """
{kind: Organization, id: acme}
---
{kind: Node, id: n, spec: {roles: [egress_service], organizations: [acme]}}
---
{kind: Service, id: web, spec: {organization: acme, runs_on: {nodes: [n]}, settings: {db: {secret_ref: "vault:db"}}}}
---
{kind: Config, id: app, spec: {to: {nodes: [n]}, files: {env: {json: {DB: {secret_ref: "vault:db"}}}}}}
"""
    async with running(founded) as at:
        done = await at.apply(text)
        assert done["outcome"] == "applied"
        found = [each for each in done["warnings"] if "vault" in each]
        assert [each.partition(":")[0] for each in found] == ["Config app, files.env.DB", "Service web, settings.db"]
        again = await at.apply(text)
        assert again["warnings"] == []
