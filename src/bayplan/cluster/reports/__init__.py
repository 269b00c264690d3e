"""Everything that is known from node reports: what a node says, what it does not show yet, and which report counts."""
