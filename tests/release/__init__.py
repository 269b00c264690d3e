"""What `make release` writes and checks: `python -m tests.release dist`."""
