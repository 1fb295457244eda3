"""agent.toml: everything that is wrong is said, with the key and the remedy."""

import base64
import json
import ssl
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import configuration
from agent.config.configuration import ConfigurationError, IntervalsTable, parse
from agent.config.toml_form import file_mode, number
from snapshot.identifiers import SCOPE_TYPES
from wire.certificate import make_identity

GOOD = """
[node]
cluster_id = "raven-1"
node_id = "node-a"
[coordinator]
urls = ["https://c1.example:7443"]
ca_file = "/etc/holdfast/ca.pem"
"""


def settings(text=""):
    return parse(tomllib.loads(GOOD + text))


def problems(text, base=GOOD):
    with pytest.raises(ConfigurationError) as caught:
        parse(tomllib.loads(base + text))
    return caught.value.problems


def test_the_least_that_is_needed():
    found = settings()
    assert found.intervals == IntervalsTable()
    assert found.node.state_directory == Path("/var/lib/holdfast")
    assert found.limits.documents().section_bytes == 1 << 20


def test_an_unknown_key_names_the_nearest_known_one():
    assert problems("[intervals]\nheartbeat_intervals_s = 30\n") == [
        "intervals.heartbeat_intervals_s is not a setting: did you mean heartbeat_interval_s?"
    ]
    assert problems("[interval]\nx = 1\n") == ["interval is not a setting: did you mean intervals?"]


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [("heartbeat_interval_s", 5, 300), ("backoff_cap_s", 30, 3600), ("poll_wait_s", 1, 300)],
)
def test_numbers_out_of_range_are_refused(key, least, most):
    """rules J39"""
    for value in (least, most):
        assert getattr(settings(f"[intervals]\n{key} = {value}\n").intervals, key) == value
    for value in (least - 1, most + 1, "true", '"30"', "30.0"):
        (problem,) = problems(f"[intervals]\n{key} = {value}\n")
        assert problem.startswith(f"intervals.{key} must be an integer from {least} to {most}")


def test_the_map_of_the_store_has_its_range():
    """rules J39"""
    assert problems("[limits]\nmap_bytes = 1\n")
    assert settings(f"[limits]\nmap_bytes = {256 << 20}\n").limits.map_bytes == 256 << 20


def test_numbers_at_odds_are_refused():
    """rules J39"""
    text = "[limits]\nsection_bytes = 4194304\ncontent_bytes = 1048576\n"
    assert problems(text) == ["limits.section_bytes must not exceed limits.content_bytes"]


NODE = '[node]\ncluster_id = "raven-1"\nnode_id = "node-a"\n'
MANUAL = '[[manual.source]]\nurl = "https://m.example:443"\nca_file = "/ca.pem"\n'
INSTALLED = '[trust]\nbundle_file = "/etc/holdfast/trust.hfs"\n'


def test_a_node_has_coordinators_or_a_manual_map():
    """rules K2, K3"""
    assert problems("", NODE) == ["a node has [coordinator] or [manual], and neither is there"]
    assert problems(MANUAL + INSTALLED) == ["a node has [coordinator] or [manual], and both are there"]
    found = parse(tomllib.loads(NODE + MANUAL + INSTALLED))
    assert not found.manual[0].automatic_refresh
    assert problems(MANUAL, NODE) == [
        "[manual] needs trust.bundle_file: without a coordinator the first trust bundle is a file"
    ]


@pytest.mark.parametrize("table", ["database", "listen", "tls", "keys"])
def test_an_agent_is_no_coordinator(table):
    """rules K8, K9: both settings are named"""
    (problem,) = problems(f"[{table}]\nx = 1\n")
    assert table in problem
    assert "[node]" in problem


@pytest.mark.parametrize("name", ["", " raven", "Raven", "raven/1", "a..b", "../x"])
def test_identifiers_are_never_trimmed_or_folded(name):
    """rules J25"""
    assert problems("", GOOD.replace('"raven-1"', f'"{name}"'))


@pytest.mark.parametrize("url", ["http://c:1", "https://c", "https://c:1/x", "https://u@c:1", "https://C:1"])
def test_urls_are_host_and_port_and_nothing_more(url):
    """rules K4"""
    assert problems("", GOOD.replace("https://c1.example:7443", url))


def test_a_token_is_looked_for_where_it_is_configured_named_or_given(tmp_path):
    """rules K14: the configured file alone; else the one of the environment, the default one, systemd's credential"""
    default = Path("/etc/holdfast/join.token")
    assert settings().token_files({}) == (default,)
    assert settings().token_files({"HOLDFAST_TOKEN_PATH": "/run/x"}) == (Path("/run/x"), default)
    given = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert settings().token_files(given) == (default,)
    (tmp_path / "holdfast.join-token").touch()
    assert settings().token_files(given) == (default, tmp_path / "holdfast.join-token")
    found = parse(tomllib.loads(GOOD + 'token_file = "/t"\n'))
    assert found.token_files({"HOLDFAST_TOKEN_PATH": "/run/x", **given}) == (Path("/t"),)


def test_services_say_how_they_are_told():
    good = settings('[[service]]\nname = "web"\nscopes = ["route_policy/*"]\nnotify = "reload"\nunit = "web.service"\n')
    assert good.services[0].timeout_s == 30
    base = '[[service]]\nname = "web"\nscopes = ["route_policy"]\n'
    for verb in ("reload", "restart", "signal"):
        told = settings(base + f'notify = "{verb}"\nunit = "web@1.service"\n').services[0]
        assert (told.notify, told.unit) == (verb, "web@1.service")
        assert problems(base + f'notify = "{verb}"\n') == [f'service web: notify = "{verb}" needs a unit']
        assert problems(base + f'notify = "{verb}"\nunit = "../web"\n')
    assert problems(base + 'notify = "command"\n') == ['service web: notify = "command" needs a command']
    assert problems(base + base) == ["service web is there twice"]
    assert problems(base + 'notify = "shout"\n')
    assert problems('[[service]]\nname = "web"\nscopes = []\n')


def test_access_is_by_scope_pattern():
    found = settings('[access."route_policy/*"]\ngroups = ["web"]\n[access."*"]\nusers = ["root"]\n')
    assert found.access["route_policy/*"].groups == ("web",)
    assert not found.access["*"].expired
    assert problems('[access."Route Policy"]\nusers = ["root"]\n')
    assert settings('[access.head]\nusers = ["root"]\n').access  # it is read as scopes are
    assert problems('[access."route_polcy/*"]\nusers = ["root"]\n') == [
        "access.\"route_polcy/*\" names no scope type, 'route_polcy': did you mean route_policy?"
    ]


def test_a_group_for_all_files_beside_an_access_table_has_to_be_meant():
    """threats U11: it would read what the table keeps from it"""
    text = '[local]\nprojection_group = "web"\n{}[access."route_policy"]\nusers = ["root"]\n'
    (problem,) = problems(text.format(""))
    assert problem.startswith("local.projection_group would give all files to a group beside [access]")
    assert 'projection_access = "group"' in problem
    assert settings(text.format('projection_access = "group"\n')).local.projection_access == "group"
    assert problems('[local]\nprojection_access = "everybody"\n')


def test_a_scope_type_that_there_is_not_is_an_error():
    """Such a service would never be told, and its validator never asked."""
    for misspelt in ("service_asignment", "service_asignment/*", "service_asignment/a,b"):
        assert problems(f'[[service]]\nname = "web"\nscopes = ["qos_policy", "{misspelt}"]\n') == [
            "service[0].scopes names no scope type, 'service_asignment': did you mean service_assignment?"
        ]
    assert "there are config, degraded_mode_policy, " in problems('[[service]]\nname = "web"\nscopes = ["x"]\n')[0]
    assert problems('[[service]]\nname = "web"\nscopes = ["head"]\n')
    assert problems('[[service]]\nname = "web"\nscopes = ["route_policy/a/*"]\n')
    for scope in SCOPE_TYPES:
        for named in (scope, f"{scope}/*", f"{scope}/a,b", "*"):
            assert settings(f'[[service]]\nname = "web"\nscopes = ["{named}"]\n').services[0].scopes == (named,)


def test_all_that_is_wrong_is_said_at_once():
    text = '[intervals]\nheartbeat_interval_s = 1\npol_wait_s = 1\n[log]\nlevel = "loud"\n'
    assert len(problems(text)) == 3


def test_a_file_is_named_in_its_problems(tmp_path):
    path = tmp_path / "agent.toml"
    for content, words in ((b"[node", "agent.toml"), (b"\xff", "agent.toml"), (b"[node]\n", "node.cluster_id")):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=words):
            configuration.load(path)
    with pytest.raises(ConfigurationError, match="No such file"):
        configuration.load(tmp_path / "missing.toml")


@given(st.integers(-10, 400))
def test_a_range_is_closed_at_both_ends(value):
    read = number(5, 300)
    if 5 <= value <= 300:
        assert read(value) == value
    else:
        with pytest.raises(ValueError, match="from 5 to 300"):
            read(value)


def test_modes_are_octal_words():
    assert file_mode("0660") == 0o660
    for wrong in (432, "660", "0o660", "0888", True):
        with pytest.raises(ValueError, match="octal"):
            file_mode(wrong)


def test_no_setting_lets_an_unsigned_document_in():
    """rules L16: what is pinned is asked for, and nothing switches that off"""
    tables = (*configuration._SINGLE.values(), configuration.MapEntry, configuration.ServiceTable)
    names = {name for table in tables for name in table.__dataclass_fields__}
    words = {word for name in names for word in name.split("_")}
    assert words.isdisjoint({"insecure", "unsigned", "unverified", "skip", "verify", "signature", "force", "trusted"})


PEER = """
[[peers.bootstrap]]
node_id = "gw-2"
url = "https://gw-2.example:7445"
certificate = '''
{certificate}'''
"""


def test_a_bootstrap_peer_is_pinned_by_what_show_certificate_prints():
    """rules L21, K48: PEM, or the base64 in it; the numbers of the peer sets are those of the rules"""
    der = make_identity("gw-2", 1_800_000_000.0).der
    pem, bare = ssl.DER_cert_to_PEM_cert(der), base64.b64encode(der).decode()
    for text in (pem, bare):
        (peer,) = settings(PEER.format(certificate=text)).peers.bootstrap
        assert (peer.node_id, peer.url, peer.certificate) == ("gw-2", "https://gw-2.example:7445", der)
    sizes = settings().peers
    assert (sizes.active, sizes.warm, sizes.cold, sizes.bootstrap) == (4, 12, 3, ())


@pytest.mark.parametrize("text", ["", "sha256:00", "MIIB", "{pem}{pem}"])
def test_what_is_no_certificate_pins_nobody(text):
    pem = ssl.DER_cert_to_PEM_cert(make_identity("gw-2", 1_800_000_000.0).der)
    text = text.format(pem=pem)
    (problem,) = problems(PEER.format(certificate=text))
    assert problem.startswith("peers.bootstrap must be a table of")
    assert "certificate must be a certificate, as `holdfast show-certificate` prints it" in problem


def test_bootstrap_peers_at_odds():
    """rules J39"""
    text = PEER.format(certificate=base64.b64encode(make_identity("gw-2", 1_800_000_000.0).der).decode())
    assert problems(text * 2) == ["peers.bootstrap names gw-2 twice"]
    many = "".join(text.replace("gw-2", f"gw-{number}") for number in range(17))
    assert problems(many) == ["peers.bootstrap names 17 peers, at most 16"]
    own = text.replace('"gw-2"', '"node-a"')
    assert problems(own) == ["peers.bootstrap names node-a, which is this node itself"]


def manual_peer(node_id="node-b", **members):
    said = {"node_id": node_id, "url": f"https://{node_id}.example:7447", "certificate": ENCODED} | members
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items() if value is not None]
    return "\n".join(["[[manual.peer]]", *lines, ""])


REACHED = 'direct_url = "https://node-a.example:7447"\n[peers]\nlisten = "0.0.0.0:7447"\n'
ENCODED = base64.b64encode(make_identity("node-b", 0).der).decode()
OTHER = base64.b64encode(make_identity("node-c", 0).der).decode()


def test_a_manual_map_names_peers_and_who_fetches():
    """rules K2, K5, K6, K7: nothing is refreshed unattended unless it says so"""
    found = parse(tomllib.loads(NODE + REACHED + INSTALLED + manual_peer() + manual_peer("node-c", certificate=OTHER)))
    assert found.manual == ()
    assert [(peer.node_id, peer.type, peer.automatic_refresh) for peer in found.manual_peers] == [
        ("node-b", "mutual-pull", False),
        ("node-c", "mutual-pull", False),
    ]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (manual_peer(type="push"), "manual.peer[0].type must be one of pull"),
        (manual_peer(url=None), 'manual.peer node-b has type = "mutual-pull" and no url'),
        (manual_peer(type="allow-pull", automatic_refresh=True), "manual.peer node-b has automatic_refresh and type"),
        (manual_peer() * 2, "manual.peer node-b is there twice"),
        (manual_peer("node-a"), "manual.peer node-a is this node itself"),
        (manual_peer() + manual_peer("node-c"), "manual.peer: two peers have the same certificate"),
    ],
)
def test_a_manual_map_at_odds_is_refused(entries, problem):
    """rules K5, K6, K7, K34"""
    found = problems(REACHED + INSTALLED + entries, NODE)
    assert any(problem in words for words in found), found


def test_who_is_to_be_fetched_from_listens():
    """rules K4, K6"""
    (problem,) = problems(INSTALLED + manual_peer(), NODE)
    assert problem.startswith('manual.peer node-b has type = "mutual-pull", and nobody listens')
    assert problems('[peers]\nlisten = "0.0.0.0:7447"\n')[0].startswith("peers.listen needs node.direct_url")


def test_a_manual_map_and_a_coordinator_exclude_each_other():
    """rules K2"""
    assert "a node has [coordinator] or [manual], and both are there" in problems(INSTALLED + manual_peer(type="pull"))
