"""The first declared state of a cluster, as `holdfastctl init` writes it: a file that `apply` takes as it is.

It has what no cluster should begin without: where nodes check in, and a policy for outages. Without a policy every node
stops with its head, half an hour after the coordinator goes. It is written out with its reasons, since it is the
operator's from then on.
"""

FOLDER, NAME = "fabric", "cluster.yaml"

_TEXT = """\
# What the cluster is to be. `holdfastctl init` began this file; it is yours now. After each change:
#
#     holdfastctl apply -f {folder}
#
# What else can stand here: docs/resources.md.

kind: Cluster
id: {cluster_id}
spec:
  # Where nodes check in, in this order.
  coordinators: ["{url}"]
---
# What a node may go on doing while no coordinator answers. Its head, which says what it is to hold, lasts half an hour;
# after that only what stands here goes on, and nothing new begins. Each number is a bound, and the tightest wins.
#
#     holdfastctl drill outage 72h        which node stops what, when and why
kind: DegradedModePolicy
id: standard
spec:
  # No `applies_to`: it is for every node that no policy of a higher `priority` selects.
  allow:
    - continue_services       # what ran goes on
    - preserve_routes         # routes that stand are kept
    - reconnect_peers         # known peers are connected to again
    - validate_peers          # and judged by the keys that are known
    - use_storage_endpoints   # documents are fetched from mirrors
    - report_degraded         # what happened is told afterwards
  # Three days: a long weekend. A node that is revoked meanwhile learns of it only when this is over; 7 days at most.
  max_duration_s: 259200
  route_ttl_s: 86400
  session_ttl_s: 3600
  # After a power cut a node goes on by its own disk. Say false for machines that may be stolen, or whose disk may be
  # restored to an earlier day: these stop at a restart until they have reached a coordinator.
  allow_unconfirmed_start: true
"""


def text(cluster_id: str, url: str) -> str:
    return _TEXT.format(cluster_id=cluster_id, url=url, folder=FOLDER)
