"""Where the agent learns about its node: sysfs, the kubelet's API, configuration and state files."""
