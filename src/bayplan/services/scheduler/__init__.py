"""`bayplan scheduler`: the dispatcher against an API server. Start reading at `service.py`.

    watching -> intake -> dispatcher -> Bind          -> binding/     -> the pod has a node
                                     -> Unschedulable -> announcing/  -> events, conditions
                                     -> Complete      -> announcing/  -> the status of PodGroups
                                     -> Release       -> releasing    -> pods of a partially bound gang go

`run.py` starts and stops all of it. Decisions are made in `dispatch/`, never here.
"""
