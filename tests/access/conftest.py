"""The world that the table is tried on."""

from tests.access.world import world  # noqa: F401  (a fixture)
