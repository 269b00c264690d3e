"""The order of a gang's pods, and the segments and parallel groups that follow from it."""
