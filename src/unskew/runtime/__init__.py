"""A batch from its counts to its record: the part of the runtime that knows nothing of Spark."""
