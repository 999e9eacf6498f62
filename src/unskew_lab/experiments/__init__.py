"""The papers' experiments, one module or package per paper."""
