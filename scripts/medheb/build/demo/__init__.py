"""Recipes of the demo set, over scans and texts that ordinary packages carry."""
