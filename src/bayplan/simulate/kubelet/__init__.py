"""The virtual kubelet: admits and refuses pods like kubelet v1.36, on real CPU ids, memory blocks and devices."""
