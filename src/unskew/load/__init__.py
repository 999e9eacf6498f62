"""Load: what channels report, and what balance and migration are worth."""
