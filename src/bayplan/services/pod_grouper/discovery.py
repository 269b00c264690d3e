"""Where objects of any kind are kept: the API server's own table of kinds, asked for one API version at a time.

Owners may be of kinds that are unknown here. An owner reference names `apiVersion` and `kind`; the result is a `ApiLocation`, whose path leads to the object. A
kind that is not installed has none: that is no error, and the lookup is repeated after a while, because the kind may be installed later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.versions import resources_of

# Seconds after which a kind that was not there is asked for again.
ABSENT_FOR = 30.0
# An owner reference may name any API version. Of those that serve nothing, only the latest are remembered.
MOST_ABSENT = 256


@dataclass(frozen=True, slots=True)
class ApiLocation:
    """Where objects of a kind are kept."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """The path of an object, or of all objects; `namespace` is left out for kinds that belong to the whole cluster."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        inside = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{root}{inside}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class Discovery:
    """Places by API version and kind, each version asked for once; `clock` in seconds."""

    def __init__(self, client: KubeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._versions: dict[str, tuple[float, dict[str, ApiLocation]]] = {}

    async def place(self, api_version: str, kind: str) -> ApiLocation | None:
        """Where objects of this kind are kept; None if the kind is not installed. Raises what the client raises."""
        asked_at, places = self._versions.get(api_version, (-ABSENT_FOR, {}))
        if kind not in places and self._clock() - asked_at >= ABSENT_FOR:
            places = await self._ask(api_version)
            self._versions.pop(api_version, None)
            self._versions[api_version] = (self._clock(), places)
            self._forget_absent()
        return places.get(kind)

    def _forget_absent(self) -> None:
        absent = [version for version, (_, places) in self._versions.items() if not places]
        for version in absent[: max(len(absent) - MOST_ABSENT, 0)]:
            del self._versions[version]

    def forget(self, api_version: str) -> None:
        """An object was not where its kind should be: the kind may have gone."""
        self._versions.pop(api_version, None)

    async def _ask(self, api_version: str) -> dict[str, ApiLocation]:
        served = await resources_of(self._client, api_version)
        return {
            each.kind: ApiLocation(api_version, each.name, each.namespaced) for each in served if "/" not in each.name
        }
