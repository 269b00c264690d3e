"""The Kubernetes client: transport, credentials, lists and watches, leases. Only this package opens sockets."""
