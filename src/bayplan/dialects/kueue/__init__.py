"""Pods that Kueue has admitted: their annotations make the gang, without an object of its own."""
