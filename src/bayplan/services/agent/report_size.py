"""Keeps a report far below the API server's size limit: a node with tens of thousands of devices cannot list them all.

Input: a document. Output: the same document, or one without the lists that people and schedulers need least: amounts in zones, policies and
the fingerprint of pods always stay. An attribute of the report names what is missing, so that it is not mistaken for nothing, and so does a sentence for
the log. An API server takes 3 MiB in a request, and etcd 1.5 MiB in an object; the rest is left for other writers.
"""

from __future__ import annotations

import msgspec

from bayplan.cluster.reports import inventory
from bayplan.services.agent.report import Document, attribute_list, without_attributes

MOST_BYTES = 512 << 10
LEFT_OUT = "bayplan.io/left-out"
# What goes first is worth least: devices are still known by their number in each zone, pods by their fingerprint.
DETAILS = {inventory.DEVICES: "devices by name", inventory.PODS: "what each pod holds"}


def fitting(document: Document, most: int = MOST_BYTES) -> tuple[Document, tuple[str, ...]]:
    """The document cut to the size limit, as far as omitting details allows, and the sentences about it."""
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
    return fits, (f"the report would have more than {most >> 10} KiB: {details} are left out, amounts are not",)
