"""The blocks of every page, in the order of the page, and how each is held against the real thing.

HOW A NEW BLOCK IS COVERED: add one line here to its page, at the block's place, named by how its first line begins.
(Without it test_documented_blocks.py fails, and says which block nobody executes.)

    Runs()                    its commands are typed into the page's World (page_world.py), one after the other: each
                              succeeds, and every line that the block shows is printed, but for ids, hashes, times,
                              counts and `...`. What has to be typed at a question stands in page_world.QUESTIONS.
      before=function         what has to be so first (page_scenes.py); it gets the World
      values={...}            what is another in every cluster: text of the page -> function of the World
      statuses={...}          commands, by how they begin, that end with another status than 0
      signs=True              what the page says between its commands: each request is signed and imported
      but={...}               commands, by how they begin, that are run elsewhere -> the file that does it
      prints="file"           what it shows needs another world (its clock, a fault): this file has the words
    Prints("command")         it shows what this command prints; without one, what the block before it has printed
    Computes("name", "word")  Python, run against a real agent: `name` then holds something with `word` in it
    Reads(function)           a fragment: `function` (page_fragments.py) gives its text to the product's own reader
    Boots("file.step", ...)   a booted machine does it: these steps of tests/systemd
    Elsewhere("file", ...)    another test does it: this file, where these words stand
    OnMachines()              test_documented_coordinators.py types it, on machines of their own
"""

from tests.journeys.page_fragments import (
    agent_toml,
    commands_of_a_consumer,
    cron,
    disk_of_a_node,
    drop_in_of_a_further_cluster,
    file_of_a_consumer,
    heartbeat,
    manual_toml,
    modules_named,
    packages,
    peer_toml,
    relay_toml,
    resources,
    scraping,
    service_on_probation,
    service_table,
    service_with_limits,
    share_of_a_core,
    storage_node,
    stores,
    targets,
    unit,
)
from tests.journeys.page_kinds import Boots, Computes, Elsewhere, Kind, OnMachines, Prints, Reads, Runs
from tests.journeys.page_scenes import (
    BAD,
    BUNDLES,
    CONTEXT,
    GOOD,
    VECTORS,
    another_node,
    bundles_exported,
    ca_beside,
    certificate,
    cluster,
    cluster_of_its_own,
    copied,
    edges,
    examples_alone,
    examples_beside,
    expected,
    fabric,
    first_config_key,
    joined_anew,
    joins_with_a_token,
    last_config_key,
    mail_revoked_by_a_bundle,
    mended,
    n7_joined,
    next_ca_confirmed,
    no_request,
    no_token,
    plain_files,
    plan_hash,
    second_root_file,
    second_root_key,
    secrets_lost,
    token_brought,
    two_checkouts,
    value,
    whole_node,
)

SUPPLY_CHAIN = "tests/packaging/test_supply_chain.py"
TOUR = Elsewhere("tests/journeys/test_tour.py", "pasted")
RETIRING = {"holdfastctl rotate retire": 6, "holdfastctl rotate remove": 6}  # their dates have not come, and it says so
CERTIFICATE = {"sha256:5f3e56bd9fca47214ae846df1e549a7b7045fd690b38fa371504aebd88284e16": certificate}
KEY, LAST_KEY = {"61657dcd17cc": first_config_key}, {"61657dcd17cc": last_config_key}
ROOT_KEY, ROOTS = {"0ec87bb19787": second_root_key}, {"ROOTS": value("/media/usb/roots")}
ANOTHER_CLUSTER = {"holdfast verify": 1}
"""The context is the vectors' own: none could be shown for a cluster that was made a minute ago."""
HALTED = {"holdfastctl apply": 7}
TOO_MUCH = {"holdfastctl apply -f fabric --prune": 6}
ENDLESS = {"journalctl": "tests/systemd/arrival.py", "holdfast status --watch": "tests/holdfast/test_status_command.py"}
BACKUP = "tests/journeys/test_backup.py"
HISTORY = "tests/holdfast/test_operator_audit.py"
SIBLINGS = "tests/journeys/test_storage_siblings.py"
BY_HAND = "tests/journeys/test_pair_by_hand.py"
LEAVING = "tests/holdfast/test_operator_leaving.py"
COORDINATORS = "tests/holdfast/test_operator_coordinators.py"
MOVE = "tests/journeys/test_move.py"
MOVING = (
    *("holdfastctl coordinators identity", "holdfastctl export --to", "holdfastctl import", "holdfastctl epoch raise"),
    *("systemctl restart holdfast-agent", "holdfastctl coordinators status", "holdfastctl coordinators remove"),
    "holdfastctl export --cancel",
)
CONSUMERS = Boots("consumers.programs_live_by_what_is_declared")
INSTALLED_BY_APT = "arrival.agent_is_installed_by_apt_with_what_it_depends_on"

COVERED: dict[str, list[tuple[str, Kind]]] = {
    "ARCHITECTURE.md": [
        ("snapshot/", Reads(packages)),
        ("holdfast/ctl/apply.py", Reads(modules_named)),
        ("agent/update/refresh.py", Reads(modules_named)),
        ("agent/report/heartbeat.py", Reads(modules_named)),
    ],
    "CONTRIBUTING.md": [("make check", Reads(targets))],
    "SECURITY.md": [
        ("make deb", Elsewhere(SUPPLY_CHAIN, "packaging/sign", '"--sign", "--local-user"')),
        ("gpgv --keyring", Elsewhere(SUPPLY_CHAIN, "gpgv", "sha256sum", "verify-tag")),
    ],
    "README.md": [
        ("make demo", Reads(targets)),
        ("$ git clone", TOUR),
        ("$ holdfastctl init raven", TOUR),
        ("kind: Organization", TOUR),
        ("$ holdfastctl apply", TOUR),
        ("[local]", TOUR),
        ("$ holdfast-agent --config agent.toml", TOUR),
        ("$ holdfast get route_policy", TOUR),
        ("$ kill %1", TOUR),
        ("$ mkdir -p /tmp/ten/fleet", TOUR),
        ("kind: Config", TOUR),
        ("kind: RolloutPolicy", TOUR),
        ("$ holdfastctl apply -f fabric -f fleet", TOUR),
        ('$ echo "workers = 8"', TOUR),
        ("make deb", Boots("arrival.coordinator_begins_a_cluster", INSTALLED_BY_APT)),
        ("holdfast verify --context", Runs(values={"CONTEXT.json": value(CONTEXT), "FILE...": value(GOOD)})),
        ("REJECTED  documents/", Prints(f"cd {VECTORS} && holdfast verify --context {CONTEXT} {BAD}")),
        ("make help", Reads(targets)),
    ],
    "docs/admin-api.md": [
        ("holdfastctl operators key alice", Runs(before=cluster)),
        ("holdfastctl --url https://coord.example:7445", Runs(before=ca_beside)),
    ],
    "docs/changes.md": [
        ("$ sed -i 's/www", Runs(before=edges)),
        ("$ holdfastctl changes list", Runs()),
        ("kind: RolloutPolicy", Reads(resources)),
        ("kind: RolloutPolicy", Reads(resources)),
        ("$ sed -i 's/shop", Runs()),
        ("$ sed -i 's/new", Runs(statuses=HALTED)),
        ("[[service]]", Reads(service_with_limits)),
        ("$ sed -i 's/forbidden", Runs(statuses=HALTED)),
        ("$ holdfastctl apply -f fabric -f campaign", Runs(before=mended, statuses=TOO_MUCH)),
        ("$ holdfastctl apply -f fabric --prune", Runs(values={"PLAN_HASH": plan_hash})),
        ("kind: Expectation", Reads(resources)),
        ("$ holdfastctl test -f fabric", Runs(before=expected)),
        ("$ holdfastctl changes revert", Runs()),
        ("kind: RolloutPolicy", Reads(resources)),
        (
            "$ holdfastctl operators add alice",
            Elsewhere("tests/journeys/test_apply_wait.py", '"operators", "add"', '"approve"', "--certificate"),
        ),
    ],
    "docs/configuration.md": [("[node]", Reads(agent_toml))],
    "docs/format.md": [
        ("array(4) [", Elsewhere("tests/snapshot/test_container.py", "envelope", "manifest")),
        ("patch of that one section", Elsewhere("tests/snapshot/test_patch.py", "remove", "replace", "test")),
        ("length of the envelope", Elsewhere("tests/snapshot/test_container_example.py", "format.md")),
    ],
    "docs/installing.md": [
        ("apt install ./holdfast-coordinator_", Boots("arrival.coordinator_begins_a_cluster")),
        ("apt install ./holdfastctl_", Boots("arrival.coordinator_begins_a_cluster")),
        ("apt install ./holdfast-agent_", Boots(INSTALLED_BY_APT)),
        ("$ holdfast status", Boots("arrival.first_start_says_unenrolled_and_what_to_do")),
        ("holdfastctl tokens create --site", Elsewhere("tests/journeys/test_join_file.py", '"--uses"', '"--nodes"')),
        ("# systemctl edit holdfast-agent", Reads(unit)),
        ("from holdfast.client import Client", Computes("routes", "web-in", before=whole_node)),
        ("# systemctl edit holdfast-agent", Reads(unit)),
        ("systemctl enable --now holdfast-reload@", Boots("reading.another_unit_is_reloaded_by_way_of_a_path_unit")),
        ("# web.service", Boots("reading.service_that_must_wait_starts_once_its_configuration_is_active")),
        ("# systemctl edit holdfast-agent-wait@web", Reads(unit)),
        ("# /etc/holdfast/agent-NAME.toml", Reads(agent_toml)),
        ("holdfast-agent: /var/lib/holdfast has", Boots("change.downgrade_below_the_format_of_the_store_is_refused")),
    ],
    "docs/keys.md": [
        ("holdfastctl init prod", Runs()),
        ("holdfastctl init prod", Elsewhere("tests/holdfast/test_operator_init.py", '"--ca-key-to", stick')),
        ("holdfastctl coordinators certificate", Elsewhere("tests/holdfast/test_operator_init.py", '"--ca", stick')),
        ("holdfastctl trust export-request --root-key", Runs(before=cluster_of_its_own)),
        ("holdfastctl trust export-request --request renew.json", Runs()),
        ("holdfastctl trust show-request", Runs(values={"root-1.pem": value("/media/usb/roots")})),
        ("holdfastctl trust import renew.json", Runs(before=copied)),
        (
            "holdfastctl trust show",
            Elsewhere("tests/journeys/test_first_use.py", '"trust", "show"', '"trust", "confirm"'),
        ),
        ("holdfastctl due", Runs()),
        ("holdfastctl rotate status", Runs()),
        ("holdfastctl rotate add --request", Runs(values=KEY, statuses=RETIRING, signs=True)),
        ("holdfastctl trust new-key", Runs(values={"root-0ec87bb19787": second_root_file} | ROOT_KEY, signs=True)),
        ("holdfastctl revoke key 61657dcd17cc", Runs(values=KEY, signs=True)),
        ("holdfastctl revoke key 61657dcd17cc", Runs(values=LAST_KEY, before=no_request, signs=True)),
        ("holdfastctl epoch raise", Runs(signs=True)),
        ("holdfastctl revoke key 61657dcd17cc", Runs(values=LAST_KEY, signs=True)),
        ("holdfastctl revoke key 0ec87bb19787", Runs(values=ROOT_KEY, signs=True)),
        ("holdfastctl revoke node n7", Runs(before=n7_joined, values=CERTIFICATE)),
        ("holdfastctl trust export-request --restore", Runs(before=mail_revoked_by_a_bundle, signs=True)),
        ("holdfastctl nodes versions n1", Elsewhere("tests/journeys/test_keys.py", '"nodes", "versions"', '"recover"')),
        ("holdfastctl trust import trust_bundle-4.hfs", Runs(before=bundles_exported, values=BUNDLES | ROOTS)),
        ("holdfastctl operators key alice", Runs()),
        ("holdfastctl status", Runs(values={"contexts/node.json": value(CONTEXT)}, statuses=ANOTHER_CLUSTER)),
    ],
    "docs/monitoring.md": [
        ("scrape_configs:", Reads(scraping)),
        ("holdfastctl fleet", Runs(before=whole_node, values={"gw-1": value("gateway")})),
    ],
    "docs/sites.md": [
        ("kind: Site", Reads(resources)),
        ("[node]", Reads(relay_toml)),
        ("[node]", Reads(peer_toml)),
        ("kind: Node", Elsewhere(SIBLINGS, '"kind: Node"')),
        ("[storage]", Elsewhere(SIBLINGS, '"[storage]"')),
        ("holdfast may validate_peers", Runs(before=whole_node, statuses={"holdfast may": 1})),
        ("holdfast show-certificate", Elsewhere(BY_HAND, '"show-certificate"')),
        ("[node]", Reads(manual_toml)),
        ("holdfast import", Elsewhere(BY_HAND, '"import"')),
    ],
    "docs/operating.md": [
        ("holdfastctl init prod", Runs()),
        ("cluster        prod", Prints()),
        ("systemctl enable --now holdfast-coordinator", Runs()),
        ("holdfastctl apply -f fabric --dry-run", Runs(before=fabric)),
        ("holdfastctl allow add gateway --join-file", Runs()),
        ("holdfastctl allow add gateway", Runs()),
        ("holdfast join", Runs(before=token_brought)),
        ("holdfastctl explain gateway", Runs()),
        ("holdfastctl fleet", Runs()),
        ("holdfastctl due", Runs(prints="holdfast/ctl/due.py")),
        ("7 6 * * *", Reads(cron)),
        ("node     scope  ", Elsewhere("tests/holdfast/test_operator_fleet.py", "has refused")),
        ("holdfastctl trust show", Runs()),
        ("holdfastctl rotate status", Runs(values=KEY, statuses=RETIRING, signs=True)),
        ("holdfastctl revoke node gateway", Runs(before=another_node, values=KEY)),
        ("REVOKED  gateway in prod", Prints("holdfast status")),
        ("holdfastctl revoke restore service_ids web", Runs(but={"holdfastctl nodes readmit": "docs/keys.md"})),
        ("holdfastctl nodes readmit gateway", Runs(signs=True)),
        ("holdfastctl nodes drain gateway", Elsewhere(LEAVING, '"nodes", "drain"')),
        ("holdfastctl nodes remove gateway --reason", Elsewhere(LEAVING, '"nodes", "remove"', "not_draining")),
        (
            "holdfastctl nodes remove gateway --force",
            Elsewhere(LEAVING, '"--force"', '"trust", "sign"', "is no member"),
        ),
        ("holdfastctl nodes trim --dry-run", Elsewhere(LEAVING, '"nodes", "trim", "--dry-run"')),
        ("holdfastctl nodes trim --all-due", Elsewhere(LEAVING, '"nodes", "trim", "--all-due"')),
        ("holdfastctl nodes readmit gateway", Elsewhere("tests/coordinator/test_trimming.py", "readmit")),
        ("systemctl stop holdfast-agent.socket", Runs(before=joined_anew)),
        ("holdfastctl tokens create --node gateway", Runs(before=no_token)),
        ("holdfast store check", Runs(before=joins_with_a_token)),
        ("holdfastctl tokens create --node gateway", Runs(before=no_token)),
        ("holdfastctl nodes show gateway", Runs()),
        ("holdfastctl coordinators prepare", OnMachines()),
        ("holdfastctl coordinators set", OnMachines()),
        ("systemctl start holdfast-coordinator", OnMachines()),
        ("holdfastctl status", Runs()),
        ("holdfastctl trust import trust_bundle-4.hfs", Runs(before=bundles_exported, values=BUNDLES)),
        ("holdfast store export trust_bundle", Runs()),
        ("holdfastctl backup --to", Elsewhere(BACKUP, '"backup", "--to"')),
        ("systemctl enable --now holdfast-backup", Boots("arrival.coordinator_is_backed_up_by_its_timer")),
        ("holdfastctl backup verify", Elsewhere(BACKUP, '"backup", "verify"')),
        ("holdfast-coordinator: database_missing", Elsewhere(BACKUP, "database_missing")),
        ("systemctl stop holdfast-coordinator", Elsewhere(BACKUP, '"restore"')),
        ("[database]", Elsewhere("tests/coordinator/test_database_url.py", "db-1:5432,db-2:5432")),
        (
            "the database does not answer",
            OnMachines(),
        ),
        ("holdfastctl coordinators status", OnMachines()),
        ("holdfastctl status", OnMachines()),
        ("systemctl stop holdfast-coordinator", OnMachines()),
        ("holdfastctl epoch raise", OnMachines()),
        ("holdfastctl audit verify", Runs()),
        ("holdfastctl coordinators begin-history", Elsewhere(HISTORY, '"coordinators", "begin-history"')),
        ("holdfastctl coordinators owner-key", Runs()),
        ("holdfastctl init prod", OnMachines()),
        ("holdfastctl coordinators set", Runs()),
        ("holdfastctl coordinators prepare", OnMachines()),
        ("holdfastctl coordinators status", Runs(before=secrets_lost, statuses={"holdfastctl coordinators status": 1})),
        ("holdfastctl coordinators recover", Runs()),
        ("holdfastctl trust sign recover.json", Runs()),
        ("holdfastctl status", Elsewhere("tests/coordinator/test_run.py", "clock_jumped")),
        ("holdfastctl epoch raise --request", Runs(before=no_request)),
        ("holdfast status", Elsewhere("tests/holdfast/test_may_command.py", "continue_services", "start_service")),
        ("holdfastctl drill outage", Runs()),
        ("[storage.mirror]", Reads(stores)),
        ("[storage.mirror]", Reads(stores)),
        ("holdfastctl storage", Runs()),
        ("[storage]", Reads(storage_node)),
        ("kind: StorageEndpoint", Reads(resources)),
        *((begin, Elsewhere(MOVE, "Move to other hardware", "typed(")) for begin in MOVING),
        ("holdfastctl coordinators certificate", Runs()),
        ("holdfastctl coordinators ca begin", Runs()),
        ("holdfastctl coordinators ca use", Runs(before=next_ca_confirmed)),
        ("holdfastctl coordinators ca finish", Runs()),
        ("ca_in_use:", Elsewhere("tests/coordinator/test_ca_exchange.py", "members have not confirmed the next CA")),
        ("holdfastctl trust show", Runs()),
        ("holdfastctl coordinators prepare", OnMachines()),
        ("holdfastctl coordinators set coordinator-1 coordinator-2", OnMachines()),
        ("systemctl start holdfast-coordinator", OnMachines()),
        ("holdfastctl coordinators status", Runs()),
        ("holdfastctl coordinators remove coordinator-2", OnMachines()),
        ("holdfastctl coordinators set", OnMachines()),
        ("holdfastctl coordinators pin", Elsewhere(COORDINATORS, '"coordinators", "pin"')),
        ("endpoint_in_use:", Elsewhere("tests/journeys/test_coordinators.py", "endpoint_in_use")),
        ("holdfastctl publish --to /media", Runs()),
        ("holdfast import /media", Runs()),
        ("journalctl -u", Runs(but=ENDLESS)),
    ],
    "docs/protocol.md": [("{node_id, cluster_id", Reads(heartbeat))],
    "docs/programs.md": [
        ("$ holdfast get config/edge", Runs(before=plain_files)),
        ("$ holdfast exec --config app", Runs()),
        (
            "from holdfast.client import Client",
            Computes("said", "True fresh ['bin/check', 'nginx.conf']", before=plain_files),
        ),
        ("holdfast dev app", Elsewhere("tests/journeys/page_scenes.py", '"dev"', "SERVED")),
        ("from holdfast.testing import Agent", Computes("after", "worker_processes 8;", before=plain_files)),
    ],
    "docs/resources.md": [("kind: Organization", Reads(resources))],
    "docs/sizing.md": [("3 x content", Reads(disk_of_a_node)), ("heartbeats", Reads(share_of_a_core))],
    "examples/fabric/README.md": [("holdfastctl apply -f examples/fabric", Runs(before=examples_beside))],
    "docs/consumers.md": [
        ("kind: Config", Reads(file_of_a_consumer)),
        ("include /run/holdfast/active", Reads(file_of_a_consumer)),
        ("[[service]]", Reads(file_of_a_consumer)),
        ("[Service]", Reads(file_of_a_consumer)),
        ("[Unit]", Reads(file_of_a_consumer)),
        ("cp node/holdfast.conf", Reads(commands_of_a_consumer)),
    ],
    "docs/local-api.md": [
        ("systemctl edit", CONSUMERS),
        ("TemporaryFileSystem=", Reads(drop_in_of_a_further_cluster)),
        ("[[service]]", Reads(service_on_probation)),
    ],
    "examples/consumers/nginx/README.md": [("cp node/holdfast.conf", CONSUMERS)],
    "examples/consumers/haproxy/README.md": [("install -D -m 0644 node/validate.conf", CONSUMERS)],
    "examples/consumers/unbound/README.md": [("cp node/holdfast.conf", CONSUMERS)],
    "examples/consumers/environment/README.md": [("cp node/banner.service", CONSUMERS)],
    "examples/consumers/prometheus/README.md": [("cp node/prometheus.default", CONSUMERS)],
    "examples/consumers/python/README.md": [("install -m 0755 node/limits.py", CONSUMERS)],
    "examples/consumers/shell/README.md": [("install -m 0755 node/networks.sh", CONSUMERS)],
    "examples/consumers/exec/README.md": [("install -m 0755 node/greeter.py", CONSUMERS)],
    "examples/gateway/README.md": [("[[service]]", Reads(service_table))],
    "examples/expectations/README.md": [
        ("holdfastctl test", Runs(before=examples_alone)),
        ("git worktree add", Runs(before=two_checkouts)),
    ],
    "examples/import/README.md": [
        ("apt-get install", Elsewhere("tests/journeys/test_import_example.py", "icann")),
        ("examples/import/public_suffixes.py", Elsewhere("tests/journeys/test_import_example.py", "private")),
    ],
}
