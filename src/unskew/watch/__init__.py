"""What a query did and why, for people: a live page, one file to send around, a terminal.

Everything is read from the checkpoint, by `unskew.runtime.history.History`. The query may run, have stopped or have
crashed, and knows nothing of those who watch it.
"""
