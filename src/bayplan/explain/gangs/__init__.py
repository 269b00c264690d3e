"""A gang's outcome as text and documents."""
