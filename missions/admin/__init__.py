"""Admin of missions, of brands (what they can do are command types), and of dead letters."""

from missions.admin import brands, dead_letters, mission_templates, missions  # noqa: F401  (each registers its pages)
