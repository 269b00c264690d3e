"""Everything that is known from node reports, with one owner for it.

NodeResourceTopologies and Numatopologies come in; what each zone has free now goes out, less what the reports cannot
show yet. Start reading at `intake.py`.
"""
