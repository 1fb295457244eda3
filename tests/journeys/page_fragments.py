"""Fragments that pages show, and who reads them: the product's own readers, or what the fragment speaks of."""

import base64
import configparser
import re
import textwrap
import time
import tomllib
from dataclasses import fields

import pytest
import yaml

from agent.config import configuration as agents
from agent.config import toml_form
from coordinator.base import storage_access
from coordinator.declared import resources as declared
from coordinator.setup import configuration as coordinators
from store.base.journal import MOST_EVENTS
from store.fsck.quarantine import MOST_BYTES, MOST_COPIES
from tests.citations import ROOT
from tests.documented_commands import fault
from tests.source import PACKAGES
from wire.certificate import make_identity
from wire.messages import Heartbeat

CONSUMERS = ROOT / "examples/consumers"


def agent_toml(text: str) -> agents.AgentSettings:
    return agents.parse(tomllib.loads(text.partition("\nsystemctl")[0]))


def peer_toml(text: str) -> None:
    """With a certificate in the place of the one that the page leaves out."""
    der = make_identity("ulm-1", 1_800_000_000.0).der
    read = agent_toml(text.replace("MIIB...", base64.b64encode(der).decode()))
    assert [(peer.node_id, peer.relay, peer.certificate) for peer in read.peers.bootstrap] == [("ulm-1", True, der)]


def manual_toml(text: str) -> None:
    """Of a pair by hand, as it stands on the side that is attended."""
    der = make_identity("hall-2", 1_800_000_000.0).der
    read = agent_toml(text.replace("MIIB...", base64.b64encode(der).decode()))
    assert [(peer.node_id, peer.certificate, peer.automatic_refresh) for peer in read.manual_peers] == [
        ("hall-2", der, False)
    ]


def relay_toml(text: str) -> None:
    read = agent_toml(text)
    assert read.peers.relay and read.peers.listen and read.node.direct_url


def service_table(text: str) -> None:
    assert service(text).validate


def service_on_probation(text: str) -> None:
    """All that a service can be asked by while what it runs has to prove itself."""
    read = service(text)
    assert read.check and read.check_http and read.unit
    assert (read.check_interval_s, read.probation_s) == (5, 60)


def service_with_limits(text: str) -> None:
    """Asked before and afterwards, and with room for so much."""
    read = service(text)
    assert read.validate and read.check and read.limits is not None
    assert (read.limits.entries, read.limits.removed_percent) == (200, 50)


def service(text: str) -> agents.ServiceTable:
    node = {"cluster_id": "raven", "node_id": "gw-1"}
    coordinator = {"urls": ["https://localhost:7443"], "ca_file": "/etc/holdfast/ca.pem"}
    (read,) = agents.parse({**tomllib.loads(text), "node": node, "coordinator": coordinator}).services
    return read


def resources(text: str) -> None:
    assert declared.read({"page.yaml": text})


def unit(text: str) -> None:
    """A unit or a drop-in: sections and keys of systemd's, and a command of ours that can be typed."""
    made = configparser.ConfigParser(strict=False, comment_prefixes=("#",))
    made.optionxform = str
    made.read_string(text)
    keys = {key for section in made.sections() for key in made[section]}
    known = {"LoadCredentialEncrypted", "SupplementaryGroups", "SystemCallFilter", "Requires", "After", "ExecStart"}
    assert keys and keys <= known and set(made.sections()) <= {"Unit", "Service"}
    if command := made.get("Service", "ExecStart", fallback=""):
        assert fault(command.removeprefix("/usr/bin/")) == ""


def file_of_a_consumer(text: str) -> None:
    """As it lies in the example, which tests/systemd/consumers.py runs."""
    assert text in [path.read_text() for path in CONSUMERS.rglob("*") if path.is_file()]


def commands_of_a_consumer(text: str) -> None:
    assert any(textwrap.indent(text, "    ") in path.read_text() for path in CONSUMERS.glob("*/README.md"))


def drop_in_of_a_further_cluster(text: str) -> None:
    """What the shipped unit says of the first cluster's folder, of another's."""
    shipped = (ROOT / "packaging/systemd/holdfast-validate@.service").read_text().splitlines()
    assert "-CLUSTER" in text
    assert [line for line in text.replace("-CLUSTER", "").splitlines() if line not in shipped] == []


def cron(text: str) -> None:
    fields = text.split(maxsplit=6)
    assert re.fullmatch(r"(\d+|\*)( (\d+|\*)){4}", " ".join(fields[:5])) and fields[5] == "root"
    assert fault(re.split(r" [>|]", fields[6])[0]) == ""


def targets(text: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = [word for line in text.splitlines() for word in re.split(r"\s{2,}", line)[0].split()[1:]]
    assert [word for word in named if not re.search(rf"^{word}:", makefile, re.MULTILINE)] == []


def packages(text: str) -> None:
    assert tuple(line.partition("/")[0] for line in text.splitlines()) == PACKAGES


def modules_named(text: str) -> None:
    """Each line names one, and says something of it."""
    lines = [line.split(maxsplit=1) for line in text.splitlines()]
    assert [path for path, _ in lines if not (ROOT / path).is_file()] == []


def heartbeat(text: str) -> None:
    """Each member of the message, and no other at its outermost level."""
    assert {each.name for each in fields(Heartbeat)} <= set(re.findall(r"\w+", text))


def scraping(text: str) -> None:
    """Places that the daemons listen at as they are installed, and rules that the packages carry."""
    value = yaml.safe_load(text)
    targets_of = {job["job_name"]: job["static_configs"][0]["targets"] for job in value["scrape_configs"]}
    assert targets_of["holdfast-coordinator"] == [coordinators.OPTIONAL["listen", "probes"]]
    assert targets_of["holdfast-agent"]
    (rules,) = value["rule_files"]
    installed = (ROOT / "packaging/deb/holdfast-coordinator.install").read_text()
    assert rules.rpartition("/")[0].removeprefix("/") in installed


def disk_of_a_node(text: str) -> None:
    """The numbers that the product has."""
    assert f"journal ({MOST_EVENTS:,} events" in text
    assert f"at most {MOST_COPIES} copies, {MOST_BYTES >> 30} GiB" in text


def share_of_a_core(text: str) -> None:
    """Each line is what its figures come to (`nodes / interval / a second`, or `* milliseconds`), the last the sum."""
    *parts, together = text.strip().splitlines()
    assert sum(_share(part) for part in parts) == pytest.approx(_percent(together)[0], abs=0.06)


def _share(line: str) -> float:
    found = re.search(r"([\d,]+) / (\d+) +([/*]) ([\d,.]+)", line)
    assert found is not None, line
    nodes, interval, figure = (float(found[one].replace(",", "")) for one in (1, 2, 4))
    share = nodes / interval * (1 / figure if found[3] == "/" else figure / 1000)
    assert share * 100 == pytest.approx(_percent(line)[0], abs=0.06), line
    return share * 100


def _percent(line: str) -> list[float]:
    return [float(each) for each in re.findall(r"([\d.]+) %", line)]


def stores(text: str) -> None:
    """Tables of coordinator.toml that say how stores are written to."""
    tables = tomllib.loads(text)["storage"]
    assert list(storage_access.access_faults(tables)) == []
    assert len(storage_access.read_access(tables)) == len(tables)


def storage_node(text: str) -> None:
    """A table of agent.toml; the certificate that it leaves out is put there."""
    shown = make_identity("coordinator-1", time.time()).certificate_pem.decode().strip()
    whole = re.sub(r"-----BEGIN.*-----END CERTIFICATE-----", shown, text, flags=re.DOTALL)
    problems: list[str] = []
    read = toml_form.read_table(agents.StorageTable, tomllib.loads(whole)["storage"], "storage", problems)
    assert problems == [] and read is not None and read.writers[0].coordinator_id == "coordinator-1"
