"""Typed models of everything a person writes: config, sources, tasks, models, protocols."""
