"""Rank candidates, score without gifts, keep what is needed to recompute. Knows no source and no model."""
