"""scheduler-plugins' three caches of topology reports, as plain data: no threads, no clock, no API server.

    views.py          what a filter gets to see of a node, and a report with requests subtracted from every zone
    known_pods.py     which pods count for a fingerprint, which hold something exclusively, which are foreign
    caches.py         Passthrough and DiscardReserved, which ask for the report every time
    over_reserve.py   OverReserve, which keeps copies,
    reserves pessimistically and replaces a copy when fingerprints agree

`cluster/reports/intake.py` runs them for a scheduler that is configured like scheduler-plugins. bayplan's own way is
the ledger (`cluster/reports/ledger.py`), which knows zones and needs none of this.
"""
