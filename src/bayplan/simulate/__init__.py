"""A cluster in memory: machines, kubelets that refuse like real ones, a clock, and schedulers to compare.

In: a scenario (`scenario/`). Out: a `Run` for each scheduler, and tables and pages that compare
them (`results/`). Start at `simulation.py`.
"""
