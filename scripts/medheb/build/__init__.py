"""Build a source's canonical image folder: one recipe a source, over ``imaging``."""
