"""Gangs as other systems write them, one file each, read into the one `Gang` that bayplan places. Start reading at `dialects/dialect.py`."""
