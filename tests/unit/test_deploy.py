"""deploy/ against the code: definitions match the structs, rights are exactly those used, pods are restricted.

What an API server says to these files is in tests/kubernetes/test_deploy.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.compat.kai.grouping.table import GROUPERS
from bayplan.config.configuration import API_VERSION, KIND, configuration_of
from bayplan.dialects.coscheduling import pod_group as coscheduling
from bayplan.dialects.kai import pod_group as kai
from bayplan.dialects.kueue import pod_set as kueue
from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.progress import Phase, Progress
from bayplan.dialects.registry import dialect_written_as
from bayplan.dialects.volcano import pod_group as volcano
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.engine.gangs.objective import Goal
from bayplan.extensions import PLACEMENT_STYLE, compat_names
from bayplan.gangs.ranks.ranks import RANK, SEGMENT
from bayplan.grouping.group import GROUPED, GroupingSettings
from bayplan.grouping.kinds import KNOWN
from bayplan.kube import resources
from bayplan.kube.resources import KAI_POD_GROUPS, KNOWN_POD_GROUPS, Resource
from bayplan.kube.volcano_annotations import DECISION
from bayplan.kube.wire.bayplan_v1alpha1 import (
    PLACEMENTS,
    GroupSpec,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodShape,
    Segment,
)
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology, Zone, ZoneResource
from bayplan.scheduling.profile import PreemptionMode
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.contents import MANAGED_BY, POD_GROUPER
from bayplan.services.scheduler.binding.annotations import NUMA_AMOUNTS, PATH
from bayplan.services.scheduler.intake import Intake
from tests.builders.bodies import Json

DEPLOY = Path(__file__).parents[2] / "deploy"
# Templates of the chart are not YAML; tests/kubernetes/test_chart.py renders them.
FILES = sorted(file for file in DEPLOY.rglob("*.yaml") if "chart" not in file.parts)
ROLES = ("Role", "ClusterRole")


def documents(folder: str) -> list[Json]:
    return [
        document
        for file in sorted((DEPLOY / folder).glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
    ]


def the(kind: str, name: str | None, folder: str = "base") -> Json:
    (found,) = (
        each for each in documents(folder) if (each["kind"], each.get("metadata", {}).get("name")) == (kind, name)
    )
    return found


def rights(*roles: str, folder: str = "base") -> set[tuple[str, str, str]]:
    """Group, resource and verb of everything that these roles allow."""
    return {
        (group, resource, verb)
        for each in documents(folder)
        if each["kind"] in ROLES and each["metadata"]["name"] in roles
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def known_resources() -> Iterator[Resource[Any]]:
    """All resources that the code can ask for."""
    for value in vars(resources).values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Resource):
                yield each


def group_of(resource: Resource[Any]) -> str:
    return resource.api_version.rpartition("/")[0]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_every_file_is_yaml_that_says_what_it_is_for(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# ")
    for document in yaml.safe_load_all(text):
        is_rule_file = set(document) == {"groups"}  # Prometheus reads it, not kubectl
        assert is_rule_file or (document["apiVersion"] and document["kind"])


def test_the_base_lists_all_its_files() -> None:
    listed = the("Kustomization", None)["resources"]
    assert sorted(listed) == sorted(
        file.name for file in (DEPLOY / "base").glob("*.yaml") if file.stem != "kustomization"
    )


def test_no_role_has_a_wildcard_or_reads_secrets() -> None:
    names = {each["metadata"]["name"] for each in documents("base") if each["kind"] in ROLES}
    allowed = rights(*names)
    assert not [right for right in allowed if "*" in right]
    assert not [right for right in allowed if right[1].startswith(("secrets", "configmaps", "serviceaccounts"))]


def test_everything_that_is_followed_may_be_read_and_nothing_else() -> None:
    stock = {"kind": KIND, "apiVersion": API_VERSION, "profiles": [{"schedulerName": "default-scheduler"}]}
    intake = Intake(Dispatcher(configuration_of(stock).profiles))
    followed = {(group_of(entry.resource), entry.resource.plural) for entry in intake.entries}
    allowed = rights("bayplan-scheduler")
    for verb in ("get", "list", "watch"):
        assert {(group, resource) for group, resource, allowed_verb in allowed if allowed_verb == verb} == followed


def test_writing_is_binding_explaining_and_nothing_else() -> None:
    reading = {"get", "list", "watch"}
    assert {right for right in rights("bayplan-scheduler") if right[2] not in reading} == {
        ("", "pods/binding", "create"),
        ("", "pods/status", "patch"),
        ("", "persistentvolumes", "patch"),
        ("", "persistentvolumeclaims", "patch"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
        *((group_of(each), f"{each.plural}/status", "patch") for each in KNOWN_POD_GROUPS.values()),
    }
    assert rights("bayplan-scheduler-release") == {("", "pods", "delete"), ("batch", "jobs", "get")}
    assert {right for right in rights("bayplan-pod-grouper") if right[2] not in reading} == {
        ("", "pods", "patch"),
        *(("bayplan.io", "podgroups", verb) for verb in ("create", "patch", "delete")),
        ("bayplan.io", "podgroups/status", "patch"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
    }
    for account in ("scheduler", "pod-grouper"):
        assert rights(f"bayplan-{account}-lease") == {
            ("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")
        }


def test_owners_of_every_kind_with_a_rule_may_be_read() -> None:
    readable = {(group, resource) for group, resource, verb in rights("bayplan-pod-grouper") if verb == "get"}
    assert {(group, f"{kind.lower()}s") for group, kind in KNOWN} <= readable


def test_only_the_progress_of_a_job_sets_jobs_is_listed() -> None:
    listing = {right for right in rights("bayplan-pod-grouper") if right[2] not in ("get", "create", "patch", "delete")}
    followed = [*GrouperCache(GroupingSettings(), ("bayplan",)).followed, KAI_POD_GROUPS]
    assert listing == {
        ("batch", "jobs", "list"),
        *((group_of(each), each.plural, verb) for each in followed for verb in ("list", "watch")),
    }


class TestKaiGrouping:
    def patches(self) -> dict[str, list[Json]]:
        written = the("Kustomization", None, "kai-grouping")["patches"]
        endings = {"Deployment": "-deployment"}
        return {
            each["target"]["name"] + endings.get(each["target"]["kind"], ""): yaml.safe_load(each["patch"])
            for each in written
        }

    def test_the_rules_that_are_patched_are_those_that_are_meant(self) -> None:
        """Patches go by numbers; one that has become another rule's would give rights away."""
        groups, change, jobs, remove = self.patches()["bayplan-pod-grouper"]
        rules = the("ClusterRole", "bayplan-pod-grouper")["rules"]
        assert [rules[1], rules[4]] == [groups["value"], jobs["value"]]
        assert (change["path"], change["value"]) == ("/rules/1/apiGroups", [group_of(KAI_POD_GROUPS)])
        assert remove == {"op": "remove", "path": "/rules/4"}

    def test_owners_of_every_kind_that_kai_knows_may_be_read_and_nothing_more(self) -> None:
        of_kai = rights("bayplan-kai-kinds", folder="kai-grouping")
        assert {verb for _, _, verb in of_kai} == {"get"}
        readable = {(group, plural) for group, plural, verb in rights("bayplan-pod-grouper") | of_kai if verb == "get"}
        assert {(group, f"{kind.lower()}s") for group, _, kind in GROUPERS if group} <= readable
        assert ("scheduling.k8s.io", "priorityclasses", "get") in of_kai

    def test_the_argument_is_one_that_bayplan_takes(self) -> None:
        from bayplan.cli.services.pod_grouper import pod_grouper

        (added,) = self.patches()["bayplan-pod-grouper-deployment"]
        assert added["value"].partition("=")[0] in {name for parameter in pod_grouper.params for name in parameter.opts}


class TestPreemption:
    def test_the_one_right_is_to_evict(self) -> None:
        assert rights("bayplan-scheduler-preemption", folder="preemption") == {("", "pods/eviction", "create")}
        binding = the("ClusterRoleBinding", "bayplan-scheduler-preemption", folder="preemption")
        assert binding["subjects"] == the("ClusterRoleBinding", "bayplan-scheduler")["subjects"]

    def test_the_configuration_is_that_of_the_base_with_preemption(self) -> None:
        base, changed = (
            yaml.safe_load(the("ConfigMap", "bayplan-scheduler", folder=folder)["data"]["config.yaml"])
            for folder in ("base", "preemption")
        )
        assert configuration_of(changed).profiles["bayplan"].preemption is PreemptionMode.ON
        del changed["profiles"][0]["preemption"]
        assert changed == base


def test_every_binding_binds_a_role_that_exists_to_the_account_it_is_named_after() -> None:
    bindings = [each for each in documents("base") if each["kind"].endswith("RoleBinding")]
    assert len(bindings) == 5
    for binding in bindings:
        account = "bayplan-pod-grouper" if "pod-grouper" in binding["metadata"]["name"] else "bayplan-scheduler"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "bayplan-system"}]
        assert the(binding["roleRef"]["kind"], binding["roleRef"]["name"])


def test_every_policy_is_bound_and_denies() -> None:
    policies = {each["metadata"]["name"] for each in documents("base") if each["kind"] == "ValidatingAdmissionPolicy"}
    bindings = [each["spec"] for each in documents("base") if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert sorted(each["policyName"] for each in bindings) == sorted(policies)
    assert all("Deny" in each["validationActions"] for each in bindings)
    assert all(the("ValidatingAdmissionPolicy", each)["spec"]["failurePolicy"] == "Fail" for each in policies)


def test_the_policies_name_the_labels_and_annotations_that_the_code_writes() -> None:
    def told(policy: str) -> str:
        return str(the("ValidatingAdmissionPolicy", policy)["spec"])

    for key in (NUMA_ZONES, NUMA_AMOUNTS, RANK, SEGMENT, PATH, DECISION):
        assert f"'{key}'" in told("bayplan-scheduler-binds")
    for key in (POD_GROUP, GROUP, RANK, GROUPED, kai.POD_GROUP, kai.SUB_GROUP):
        assert f"'{key}'" in told("bayplan-pod-grouper-labels")
    for key in (POD_GROUP, kai.POD_GROUP, coscheduling.POD_GROUP, kueue.POD_GROUP, *volcano.GROUP_NAMES):
        assert f"'{key}'" in told("bayplan-scheduler-releases")
    assert f"== '{POD_GROUPER}'" in told("bayplan-pod-grouper-groups")
    assert f"'{MANAGED_BY}'" in told("bayplan-pod-grouper-groups")


def test_the_lease_that_may_be_renewed_is_the_one_that_is_configured() -> None:
    written = the("ConfigMap", "bayplan-scheduler")["data"]["config.yaml"]
    election = configuration_of(yaml.safe_load(written)).services.leader_election
    role = the("Role", "bayplan-scheduler-lease")
    assert election.enabled
    assert ([election.name], election.namespace) == (role["rules"][0]["resourceNames"], role["metadata"]["namespace"])


def test_the_configuration_is_one_without_remarks() -> None:
    configuration = configuration_of(yaml.safe_load(the("ConfigMap", "bayplan-scheduler")["data"]["config.yaml"]))
    assert (list(configuration.profiles), configuration.services.notices) == (["bayplan"], ())


@pytest.mark.parametrize("deployment", ["bayplan-scheduler", "bayplan-pod-grouper"])
def test_the_pod_is_restricted(deployment: str) -> None:
    pod = the("Deployment", deployment)["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == deployment
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    labels = the("Namespace", "bayplan-system")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_command_line_is_one_that_bayplan_takes() -> None:
    from bayplan.cli.services.pod_grouper import pod_grouper
    from bayplan.cli.services.scheduler import scheduler

    for command in (scheduler, pod_grouper):
        deployment = the("Deployment", f"bayplan-{command.name}")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["bayplan", command.name]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {argument.partition("=")[0] for argument in container["args"]} <= known


def schema_of(definition: str, version: str) -> Json:
    versions = the("CustomResourceDefinition", definition, "crds")["spec"]["versions"]
    (schema,) = (each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == version)
    return schema["properties"]  # type: ignore[no-any-return]


def fields_of(struct: type[msgspec.Struct]) -> set[str]:
    return set(struct.__struct_encode_fields__)


def test_a_pod_group_has_the_fields_that_the_code_reads() -> None:
    """A field that the definition lacks would be dropped by the API server without a word."""
    properties = schema_of("podgroups.bayplan.io", "v1alpha1")
    spec = properties["spec"]["properties"]
    inside = spec["groups"]["items"]["properties"]
    assert set(spec) == fields_of(PodGroupSpec)
    assert set(spec["pod"]["properties"]) == fields_of(PodShape)
    assert set(spec["segments"]["items"]["properties"]) == fields_of(Segment)
    assert set(inside) == set(inside["groups"]["items"]["properties"]) == fields_of(GroupSpec)
    written = dialect_written_as(PodGroup).status_of(Progress(Phase.COMPLETE, ""))
    assert set(properties["status"]["properties"]) == set(written) >= fields_of(PodGroupStatus)


def test_a_pod_group_allows_the_words_that_the_code_knows() -> None:
    spec = schema_of("podgroups.bayplan.io", "v1alpha1")["spec"]["properties"]
    assert spec["placement"]["enum"] == list(PLACEMENTS)
    assert sorted(spec["style"]["enum"]) == ["bayplan", *compat_names(PLACEMENT_STYLE)]
    assert spec["objective"]["items"]["enum"] == [goal.value for goal in Goal]


def test_a_report_has_the_fields_that_the_code_reads() -> None:
    properties = schema_of("noderesourcetopologies.topology.node.k8s.io", "v1alpha2")
    zone = properties["zones"]["items"]["properties"]
    assert fields_of(NodeResourceTopology) <= set(properties)
    assert set(zone) == fields_of(Zone)
    assert set(zone["resources"]["items"]["properties"]) == fields_of(ZoneResource)


def test_what_the_code_asks_for_is_what_the_definitions_name() -> None:
    defined = {
        f"{each['spec']['group']}/{version['name']}": (each["spec"]["names"]["plural"], each["spec"]["scope"])
        for each in documents("crds")
        for version in each["spec"]["versions"]
    }
    asked = {
        version: (each.plural, "Namespaced" if each.namespaced else "Cluster")
        for each in known_resources()
        for version in each.api_versions
    }
    assert defined == {version: asked.get(version) for version in defined}
