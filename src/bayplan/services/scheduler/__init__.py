"""`bayplan scheduler`: the dispatcher of `scheduling/` run against an API server. Start reading at `service.py`.

    watches -> intake -> dispatcher -> Bind     -> binder        -> the pod has a node
                                    -> Refusal  -> announcer     -> events, conditions, the status of PodGroups
                                    -> Complete -> announcer
                                    -> Release  -> releasing     -> pods of a gang that cannot be completed make room

`run.py` starts all that and stops it gracefully. What is decided is never decided here.
"""
