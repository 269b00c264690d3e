"""Keep a report far below the API server's size limit: a node may have tens of thousands of devices.

Large reports lose the least important lists. Amounts, policies and the fingerprint always stay, and an attribute names
what is missing. The API server accepts requests of 3 MiB and etcd objects of 1.5 MiB; other writers need some of it.
"""

from __future__ import annotations

import msgspec

from bayplan.cluster.reports import inventory
from bayplan.services.agent.report import Document, attribute_list, without_attributes

MAX_BYTES = 512 << 10
LEFT_OUT = "bayplan.io/left-out"
# Least important first: zones still count devices, and the fingerprint covers pods.
DETAILS = {inventory.DEVICES: "devices by name", inventory.PODS: "what each pod holds"}


def fitting(document: Document, most: int = MAX_BYTES) -> tuple[Document, tuple[str, ...]]:
    """The document within the size limit, if omitting details suffices, and a message about them."""
    left_out: list[str] = []
    fits = document
    for name in DETAILS:
        if len(msgspec.json.encode(fits)) <= most:
            break
        if any(each["name"] == name for each in document.get("attributes", ())):
            left_out.append(name)
            fits = without_attributes(document, left_out)
            fits["attributes"] += attribute_list({LEFT_OUT: ",".join(left_out)})
    if not left_out:
        return document, ()
    details = " and ".join(DETAILS[name] for name in left_out)
    return fits, (f"the report would have more than {most >> 10} KiB: {details} are omitted",)
