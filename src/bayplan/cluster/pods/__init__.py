"""What a pod asks for.

Pods come in; effective requests, classes of equal pods, selectors and affinity terms go out. Start reading at
`request.py`, then `pod_class.py`.
"""
