"""Imported by workers before they begin: all recipes, and folders in reversed order."""

import importlib

from make_all import turn_folders

from medheb.build.registry import RECIPES

for entry in RECIPES.values():
    importlib.import_module(entry.module)
turn_folders()
