"""Long-running services: scheduler, pod grouper, node agent and virtual kubelets. Each wires `edges/` to the core."""
