"""Gangs placed as Kueue or KAI would place them, for users who want the answers that they know."""
