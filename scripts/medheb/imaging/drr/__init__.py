"""Projectors: from a CT volume to a radiograph."""
