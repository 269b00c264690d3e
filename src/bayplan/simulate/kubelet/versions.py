"""From which version on a kubelet does what, for the virtual kubelet.

Not shared with `engine/kubelet/versions.py`: a mistake would have to be made twice.
"""

from __future__ import annotations

from bayplan.cluster.reports.kubelet_version import KubeletVersion

HINTS_ONLY_WHERE_DEVICES_ARE = KubeletVersion.V1_36
SPREADS_INSIDE_SOCKETS = KubeletVersion.V1_37
PASSES_OVER_CONTAINERS_WITHOUT_MEMORY = KubeletVersion.V1_37
