"""Builders, one a family: from what sources offer to the pairs and rows of one task. See ``registry``."""
