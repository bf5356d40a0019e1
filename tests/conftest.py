"""Settings of the whole suite: hypothesis runs the same cases every time."""

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("deterministic")
