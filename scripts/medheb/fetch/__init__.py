"""Fetch: download what a manifest pins, verify it, unpack it safely, and say how it went."""
