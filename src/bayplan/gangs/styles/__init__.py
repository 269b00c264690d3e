"""Gangs placed as Kueue or KAI would place them, for users who want the answers that they know.

A gang and a style's name come in; that system's seats go out. Start reading at `table.py`.
"""
