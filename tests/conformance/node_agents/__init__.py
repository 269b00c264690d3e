"""How nfd-topology-updater and the resource-topology-exporter count, defects included: recordings hold it, and the
agent's own accounting is told apart from it.
"""
