"""What services share beside their work: events, conditions, metrics, health, logs, leader election.

Nothing here decides, and nothing here slows down decisions: writes wait in an `Outbox`.
"""
