"""Where a service meets the world beside its work: events, conditions, metrics, health, logs and the lease.

Nothing here decides anything, and nothing here may slow down who decides: what has to be sent is put into an `Outbox` and sent when there is time.
"""
