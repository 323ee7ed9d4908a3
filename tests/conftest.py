"""For all tests: property tests have no deadline, since a busy machine is no fault."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
