"""A plugin and a dialect for bayplan, from a package of its own."""
