"""deploy/agent against the code: rights are exactly those used, nothing of the node can be written, command lines are
known.

What an API server says to these files is in tests/kubernetes/test_agent.py.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import yaml

from bayplan.cli.services.agent import agent
from bayplan.cli.services.agent_gc import agent_gc
from tests.builders.bodies import Json

FOLDER = Path(__file__).parents[2] / "deploy/agent"
OPTIONAL = "numatopology-role.yaml"


def documents() -> list[Json]:
    return [document for file in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text())]


def the(kind: str, name: str | None) -> Json:
    (found,) = (each for each in documents() if (each["kind"], each.get("metadata", {}).get("name")) == (kind, name))
    return found


def rights(role: str) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for rule in the("ClusterRole", role)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_all_files_are_listed_but_the_optional_one() -> None:
    listed = the("Kustomization", None)["resources"]
    assert sorted([*listed, OPTIONAL, "kustomization.yaml"]) == sorted(file.name for file in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize(
    "role, allowed",
    [
        ("bayplan-agent", "nodes get, noderesourcetopologies create get patch"),
        ("bayplan-agent-gc", "nodes get list watch, noderesourcetopologies get list patch delete"),
        ("bayplan-agent-watch-pods", "pods list watch"),
        ("bayplan-agent-numatopology", "numatopologies create get patch"),
    ],
)
def test_rights_are_those_that_are_used(role: str, allowed: str) -> None:
    expected = {(words.split()[0], verb) for words in allowed.split(", ") for verb in words.split()[1:]}
    assert rights(role) == expected


def test_the_agent_has_no_privileges_and_can_write_nothing_on_the_node() -> None:
    pod = the("DaemonSet", "bayplan-agent")["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(mount["readOnly"] for mount in container["volumeMounts"])


def mounted() -> dict[str, str]:
    """What of the node the agent sees, and where."""
    pod = the("DaemonSet", "bayplan-agent")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in pod["containers"][0]["volumeMounts"]}


def test_the_agent_sees_only_socket_configuration_and_state_of_the_kubelets_folder() -> None:
    """Not pki/ with the kubelet's certificate, not the mounts of CSI, not the volumes of pods."""
    folder = "/var/lib/kubelet"
    assert set(mounted().values()) == {
        "/sys",
        f"{folder}/pod-resources",
        f"{folder}/config.yaml",
        f"{folder}/cpu_manager_state",
        f"{folder}/memory_manager_state",
    }
    assert all(path == f"/host-{source[1:]}" for path, source in mounted().items())


def test_the_files_that_the_agent_is_told_to_read_are_mounted() -> None:
    (container,) = the("DaemonSet", "bayplan-agent")["spec"]["template"]["spec"]["containers"]
    told = dict(argument.split("=", 1) for argument in container["args"] if "=" in argument)
    assert {told["--kubelet-config"], f"{told['--kubelet-state-dir']}/pod-resources", told["--sysfs-root"]} <= set(
        mounted()
    )


def test_who_wants_the_whole_folder_says_so_and_volumes_of_pods_stay_hidden() -> None:
    overlay = yaml.safe_load((FOLDER.parent / "agent-state-folder/kustomization.yaml").read_text())
    (patch,) = overlay["patches"]
    test, mounts, volumes = yaml.safe_load(patch["patch"])
    assert (
        test["value"]
        == the("DaemonSet", "bayplan-agent")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["name"]
    )
    hidden = {mount["mountPath"] for mount in mounts["value"] if mount["name"] == "nothing"}
    assert hidden == {"/host-var/lib/kubelet/pods", "/host-var/lib/kubelet/plugins"}
    assert {"name": "nothing", "emptyDir": {"sizeLimit": "1Mi"}} in volumes["value"]
    assert all(mount["readOnly"] for mount in mounts["value"])


@pytest.mark.parametrize(
    "kind, name, command", [("DaemonSet", "bayplan-agent", agent), ("Deployment", "bayplan-agent-gc", agent_gc)]
)
def test_command_lines_are_ones_that_bayplan_takes(kind: str, name: str, command: click.Command) -> None:
    (container,) = the(kind, name)["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bayplan", command.name]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"]} <= known
