"""MedHEB: rebuild the benchmark from its sources, evaluate embedding models on it, audit the result."""

__version__ = "0.1.0"
