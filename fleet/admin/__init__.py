"""Admin of the site and its robots: nothing here saves a robot; forms and buttons call `fleet.robots.actions`."""

from fleet.admin import alerts, audit, places, records, robots, silences, sites, tokens, users  # noqa: F401  (each registers its pages)
