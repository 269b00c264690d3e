"""A fuzzer: examples, spoiled at random, through everything that reads them.

`make fuzz`, or `python -m tests.fuzz --help`.
"""
