"""The fixture ``golden``: inputs for which the output of the published scripts is known."""

from golden import golden

__all__ = ["golden"]
