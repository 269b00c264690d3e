"""Which controllers run beside the test control plane, and where `make controllers` keeps them.

A controller is a Go package in a module of the registry. Versions come from a go.mod: that of the control plane, or one
below `go/`. Its program and the manifests that its tests apply (CRDs, webhooks) lie in the user's cache, one folder for
each version. Next: `build.py` builds what is missing, `operators.py` and `manager.py` start them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.control_plane.programs import go_module, user_cache

GO = Path(__file__).parent / "go"
SIGS, TRAINING_OPERATOR, KUBERAY, CHARTS = GO / "sigs", GO / "training-operator", GO / "kuberay", GO / "helm"


class NoController(Exception):
    """A controller is not built here. The message is one line for the person who runs the tests."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A program, the Go package that it is built from, and the manifests that belong to it.

    `manifests` are files, or folders of YAML files, in the Go module `module`. `go_module` is the folder of the go.mod
    that has the version.
    """

    name: str
    package: str
    module: str
    go_module: Path
    manifests: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def version(self) -> str:
        """The version of the module: "v0.12.0"."""
        written = (self.go_module / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", written, re.MULTILINE)
        assert found, f"{self.go_module}/go.mod does not require {self.module}"
        return found[1]

    @property
    def folder(self) -> Path:
        """The folder in the cache, the same for every clone of the repository."""
        return user_cache() / "controllers" / f"{self.name}-{self.version}"

    @property
    def program(self) -> Path:
        """The program, built or not."""
        return self.folder / self.name

    def manifest(self, source: str) -> Path:
        """The kept copy of one of `manifests`."""
        assert source in self.manifests, f"{source} is not kept; {self} keeps {', '.join(self.manifests)}"
        return self.folder / "manifests" / source

    @property
    def is_built(self) -> bool:
        """True if the program and all manifests are there."""
        return self.program.is_file() and all(self.manifest(each).exists() for each in self.manifests)

    def find(self) -> Path:
        """The program; raises NoController if it is not built."""
        if not self.is_built:
            raise NoController(f"no {self} in {self.folder}: run `make controllers`")
        return self.program


MANAGER = Controller(
    "kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes", go_module()
)
KUBECTL = Controller("kubectl", "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes", go_module())
HELM = Controller("helm", "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4", CHARTS)
JOB_SET = Controller(
    "jobset",
    "sigs.k8s.io/jobset",
    "sigs.k8s.io/jobset",
    SIGS,
    ("config/components/crd/bases", "config/components/webhook/manifests.yaml"),
)
LEADER_WORKER_SET = Controller(
    "lws", "sigs.k8s.io/lws/cmd", "sigs.k8s.io/lws", SIGS, ("config/crd/bases", "config/webhook/manifests.yaml")
)
KUEUE = Controller(
    "kueue",
    "sigs.k8s.io/kueue/cmd/kueue",
    "sigs.k8s.io/kueue",
    SIGS,
    ("config/components/crd/bases", "config/components/webhook/manifests.yaml"),
)
MPI = Controller(
    "mpi-operator",
    "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    "github.com/kubeflow/mpi-operator",
    SIGS,
    ("manifests/base/kubeflow.org_mpijobs.yaml",),
)
TRAINING = Controller(
    "training-operator",
    "github.com/kubeflow/training-operator/cmd/training-operator.v1",
    "github.com/kubeflow/training-operator",
    TRAINING_OPERATOR,
    ("manifests/base/crds/kubeflow.org_pytorchjobs.yaml", "manifests/base/webhook/manifests.yaml"),
)
RAY = Controller(
    "kuberay",
    "github.com/ray-project/kuberay/ray-operator",
    "github.com/ray-project/kuberay/ray-operator",
    KUBERAY,
    ("config/crd/bases",),
)

CONTROLLERS = (MANAGER, KUBECTL, HELM, JOB_SET, LEADER_WORKER_SET, KUEUE, MPI, RAY, TRAINING)
"""In the order in which they are built: those that share most with the control plane come first."""
