"""What a pod asks for: effective requests, classes of equal pods, selectors and affinity terms."""
