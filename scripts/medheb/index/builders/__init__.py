"""Builders: from what sources offer to the records of one task. The registry names them for tasks.tsv."""
