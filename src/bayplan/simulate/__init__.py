"""A cluster in memory: machines, kubelets that refuse like real ones, a clock, and schedulers to compare."""
