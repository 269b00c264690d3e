"""Which kubelet a node runs, and whose decisions are therefore predicted.

A Node says its kubelet's version (`status.nodeInfo.kubeletVersion`), and nodes of one cluster differ while it is
upgraded. Kubelets of one minor version decide alike. What differs between versions is data in
`engine/kubelet/versions.py` and, apart from it, in `simulate/kubelet/versions.py`; docs/kubelet.md has the table.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

_WRITTEN = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?", re.DOTALL)
_MAJOR = 1


class KubeletVersion(IntEnum):
    """The kubelets whose decisions are known; the number is the minor version."""

    V1_34 = 34
    V1_35 = 35
    V1_36 = 36
    V1_37 = 37

    @property
    def text(self) -> str:
        """As people say it: 1.36."""
        return f"{_MAJOR}.{self.value}"

    @property
    def release(self) -> str:
        """The release that its decisions were compared with: v1.36.4."""
        return _RELEASES[self]


# A longer text is no version; what stands behind that is not looked at, and not kept.
LONGEST_VERSION = 128
_RELEASES = {
    KubeletVersion.V1_34: "v1.34.4",
    KubeletVersion.V1_35: "v1.35.8",
    KubeletVersion.V1_36: "v1.36.4",
    KubeletVersion.V1_37: "v1.37.1",
}
OLDEST, NEWEST = min(KubeletVersion), max(KubeletVersion)


def version_of(text: str) -> tuple[KubeletVersion, str]:
    """The version to judge a kubelet by, and what a user should know about that; nothing if it is the kubelet's own.

    A kubelet that does not say its version is judged as the newest.

    >>> version_of("v1.36.4-gke.1000")
    (<KubeletVersion.V1_36: 36>, '')
    """
    return _version_of(text[:LONGEST_VERSION])


@lru_cache(maxsize=256)
def _version_of(text: str) -> tuple[KubeletVersion, str]:
    if not text:
        return NEWEST, ""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return NEWEST, f'"{text[:60]}" is no version of a kubelet: judged as {NEWEST.text}'
    written = int(match[1]), int(match[2])
    if written > (_MAJOR, NEWEST):
        return NEWEST, f"{text[:60]} is newer than the kubelets that bayplan knows: judged as {NEWEST.text}"
    if written < (_MAJOR, OLDEST):
        return OLDEST, f"{text[:60]} is older than the kubelets that bayplan knows: judged as {OLDEST.text}"
    return KubeletVersion(written[1]), ""
