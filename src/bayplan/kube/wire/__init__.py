"""Objects as Kubernetes and other systems write them: one module for each API group and version."""
