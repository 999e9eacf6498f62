"""Advice before anyone changes code: which keys are hot, what their skew costs, and what each remedy would bring.

What is known comes from rows, from the event log of a job that ran, or from the checkpoint of a query of Spark's own.
Reading is apart from predicting: `predict` is arithmetic on `KeyLoads` and knows nothing of Spark.
"""
