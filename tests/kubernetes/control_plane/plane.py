"""A real control plane on loopback for tests and measurements: etcd, kube-apiserver, and stock schedulers on demand.

    with ControlPlane() as plane:
        plane.apply(Path("deploy/crds"))                   # objects from YAML
        run_a_program("--kubeconfig", plane.kubeconfig)    # as the administrator
        with plane.start_stock_scheduler(): ...
        plane.etcd.pause(); plane.apiserver.restart()      # faults

In: the programs that `programs.py` finds. Out: addresses, kubeconfig files, raw requests, and a handle for each
program. All of it lives in one folder that is removed at the end, and ends with the process that started it. There is
no kubelet, and a controller manager only if one is given: without it, nothing ends a grace period or collects garbage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.kubernetes.control_plane import controller_manager, objects, stock_scheduler
from tests.kubernetes.control_plane.api_server import ApiServer
from tests.kubernetes.control_plane.certificates import Authority
from tests.kubernetes.control_plane.controller_manager import ControllerManager
from tests.kubernetes.control_plane.etcd import Etcd
from tests.kubernetes.control_plane.kubeconfigs import write_kubeconfig
from tests.kubernetes.control_plane.process import PortTaken
from tests.kubernetes.control_plane.programs import find_programs
from tests.kubernetes.control_plane.raw_api import Credentials, Json, RawApi
from tests.kubernetes.control_plane.scratch import scratch_folder
from tests.kubernetes.control_plane.stock_scheduler import StockScheduler

STARTS = 4
"""How often to try, should another program take a port between its choice and its use."""


class ControlPlane:
    """etcd and kube-apiserver, running between `with` and its end.

    `kubeconfig` is the administrator's. `api` sends raw requests as the administrator. `etcd` and `apiserver` are
    handles with start, stop, kill, restart, pause, resume, memory and cpu_seconds; so is `manager`, if the program of a
    controller manager is given.
    """

    etcd: Etcd
    apiserver: ApiServer
    manager: ControllerManager
    kubeconfig: Path
    api: RawApi
    authority: Authority

    def __init__(
        self,
        *,
        apiserver_arguments: Sequence[str] = (),
        manager_program: Path | None = None,
        manager_arguments: Sequence[str] = (),
    ) -> None:
        self._programs = find_programs()
        self._manager_program = manager_program
        self._apiserver_arguments = apiserver_arguments
        self._manager_arguments = manager_arguments
        self._cleaning_up = ExitStack()
        self._kubeconfigs = 0

    def __enter__(self) -> Self:
        for _ in range(STARTS - 1):
            try:
                return self._start()
            except PortTaken:
                continue
        return self._start()

    def __exit__(self, *exception: object) -> None:
        self._cleaning_up.close()

    def _start(self) -> Self:
        with ExitStack() as cleaning_up:
            self.folder = cleaning_up.enter_context(scratch_folder())
            self.authority = Authority(self.folder)
            self.serving = self.authority.issue_server()
            self._tokens = self.authority.make_token_key()
            self._administrator = self.authority.issue_client("admin", ["system:masters"])
            self.etcd = cleaning_up.enter_context(Etcd(self._programs.etcd, self.folder))
            self.etcd.start()
            self.apiserver = cleaning_up.enter_context(self._new_apiserver())
            self.apiserver.start()
            self.api = self.apiserver.api
            self.kubeconfig = self._write_kubeconfig(self._administrator)
            if self._manager_program is not None:
                self.manager = cleaning_up.enter_context(self._new_manager(self._manager_program))
                self.manager.start()
            self._cleaning_up = cleaning_up.pop_all()  # it is up: no longer here, but at the end of `with`
        return self

    def _new_apiserver(self) -> ApiServer:
        return ApiServer(
            self._programs.kube_apiserver,
            self.folder,
            self.etcd.url,
            self.authority,
            self.serving,
            self._administrator,
            self._tokens,
            self._apiserver_arguments,
            is_managed=self._manager_program is not None,
        )

    def _new_manager(self, program: Path) -> ControllerManager:
        return ControllerManager(
            program,
            self.folder,
            self.kubeconfig_for(controller_manager.USER),
            self.authority,
            self.serving,
            self._tokens,
            self._manager_arguments,
        )

    # Who asks

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of this user, member of these groups, by client certificate."""
        return self._write_kubeconfig(self.authority.issue_client(user, groups))

    def token_for(self, namespace: str, service_account: str, *, seconds: int = 3600) -> str:
        """A token of a service account that exists, by the TokenRequest API."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = self.api.post(path, {**request, "spec": {"expirationSeconds": seconds}})
        token: str = answer["status"]["token"]
        return token

    def kubeconfig_with_token(self, token: str) -> Path:
        """A kubeconfig of the token's owner."""
        return self._write_kubeconfig(token)

    def api_as(self, user: str, groups: Sequence[str] = ()) -> RawApi:
        """Raw requests as this user, member of these groups."""
        return self.api_with(self.authority.issue_client(user, groups))

    def api_with(self, credentials: Credentials) -> RawApi:
        """Raw requests with these credentials; None is anonymous."""
        return RawApi(self.apiserver.url, self.authority.certificate, credentials)

    def _write_kubeconfig(self, credentials: Credentials) -> Path:
        self._kubeconfigs += 1
        path = self.folder / f"{self._kubeconfigs}.kubeconfig"
        return write_kubeconfig(path, self.apiserver.url, self.authority.certificate, credentials)

    # What is there

    def apply(self, source: Path | Mapping[str, Any], *, namespace: str = "default") -> list[Json]:
        """Create or replace the objects of a YAML file, a folder of them, or a dictionary; as the server has them."""
        return [objects.apply(self.api, written, namespace) for written in objects.read_objects(source)]

    def get(self, path: str) -> Json:
        """The object or list at a path, as the administrator."""
        return self.api.get(path)

    def post(self, path: str, body: Json) -> Json:
        """Create an object in the collection at a path, as the administrator."""
        return self.api.post(path, body)

    def delete(self, path: str) -> None:
        """Delete the object or collection at a path at once, as the administrator."""
        self.api.delete(path)

    # Who schedules

    def start_stock_scheduler(
        self,
        *,
        scheduler_name: str = "default-scheduler",
        profiles: Sequence[Json] | None = None,
        percentage: int | None = None,
        qps: int = 5000,
        extenders: Sequence[Json] = (),
        verbosity: str = "",
    ) -> StockScheduler:
        """The stock kube-scheduler, ready; stopped with the plane if not before. See `stock_scheduler.configure`.

        `verbosity` is its flag `--vmodule`: which of its source files log how much.
        """
        configuration = stock_scheduler.configure(
            self.kubeconfig_for(stock_scheduler.USER),
            scheduler_name=scheduler_name,
            profiles=profiles,
            percentage=percentage,
            qps=qps,
            extenders=extenders,
        )
        scheduler = StockScheduler(
            self._programs.kube_scheduler,
            self.folder,
            configuration,
            self.authority,
            self.serving,
            verbosity,
        )
        self._cleaning_up.enter_context(scheduler)
        scheduler.start()
        return scheduler
