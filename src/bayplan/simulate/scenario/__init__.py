"""Scenario files: read, checked line by line, expanded into nodes and arrivals."""
