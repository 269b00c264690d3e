"""What pods of a gang, and other pods, mean for where members go.

In come affinity terms, spread constraints and claims that members share. Out go a mask on slots and rules for the whole
gang. Start at `gang_relations.py`.
"""
