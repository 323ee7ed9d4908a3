"""Adapters: how each model turns a query or a candidate into one vector."""
