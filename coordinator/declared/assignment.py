"""Who is told of a service, of a route, and of files (format.md 9, 10). Pure."""

from coordinator.declared.kinds import Config, EntryPolicy, Route, Service
from coordinator.declared.model import Subject, selects


def runs(service: Service, subject: Subject) -> bool:
    return (
        "egress_service" in subject.roles and subject.serves(service.organization) and selects(service.runs_on, subject)
    )


def is_assigned(service: Service, subject: Subject) -> bool:
    """Whether the node is told of a service at all."""
    return runs(service, subject) or is_projected(service, subject)


def is_given(config: Config, subject: Subject) -> bool:
    """Whether the node holds a Config: it is selected, and where that is somebody's, serves the organization."""
    if subject.member.kind == "witness" or (config.organization and not subject.serves(config.organization)):
        return False
    return selects(config.to, subject)


def is_projected(service: Service, subject: Subject) -> bool:
    """An ingress node learns where the exposed endpoints are, and nothing else of a service."""
    exposed = any(endpoint.exposed for endpoint in service.endpoints)
    return exposed and "ingress" in subject.roles and subject.serves(service.organization)


def enters(policy: EntryPolicy, subject: Subject) -> bool:
    """Whether clients come in there by a policy."""
    return "ingress" in subject.roles and subject.serves(policy.organization) and selects(policy.enters_at, subject)


def takes(route: Route, service: Service | None, subject: Subject) -> bool:
    """Whether a node has to know a route, for any of its roles."""
    if not subject.serves(route.organization):
        return False
    if "core_mesh" in subject.roles or "thin" in subject.roles:
        return True
    if "ingress" in subject.roles and selects(route.enters_at, subject):
        return True
    return service is not None and runs(service, subject)
