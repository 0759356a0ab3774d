"""A driver as the port shows it: robots that are called `maker/number`, with a few settings."""

from fleet.ports.drivers import Driver, Setting


def _wrong(profile):
    found = dict.fromkeys(profile.keys() - {"prefix", "pause"}, "there is no such setting")
    if not isinstance(profile.get("pause", True), bool):
        found["pause"] = "yes or no"
    return found


def _wrong_address(id, address, profile):
    parts = address.split("/")
    return (
        ""
        if len(parts) == 2 and all(parts) and not {"+", "#"} & set(address)
        else "Write maker/number, as the robot does."
    )


POST = Driver(
    "post", "Post office", "mqtt", "maker/number, as the robot says it", True,
    (
        Setting("prefix", "Prefix", "text", "uagv/v2", "Before every topic."),
        Setting("pause", "Can pause", "yes_no", True),
    ),
    {"suspect_after_s": 35, "offline_after_s": 65, "accept_s": 12},
    _wrong, _wrong_address, lambda id, address, profile: [f"{profile.get('prefix', 'uagv/v2')}/{address}/state"],
)  # fmt: skip
NATIVE = Driver("native", "Drover's own protocol", "socket")


def of_these(*drivers):
    """For `fleet.ports.drivers.source`."""
    return lambda: {driver.name: driver for driver in drivers}
