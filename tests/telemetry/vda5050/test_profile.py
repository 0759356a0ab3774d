"""A brand's settings: all have defaults, and what is wrong is refused by name."""

import msgspec
import pytest

from telemetry.drivers.vda5050.profile import Profile


def test_a_brand_without_settings_keeps_to_the_standard():
    profile = msgspec.convert({}, Profile)
    assert profile == Profile()
    assert (profile.interface, profile.major, profile.version) == ("uagv", "v2", "")
    assert (profile.instant_key, profile.pick, profile.start_charging) == ("both", "pick", "startCharging")
    assert profile.pause_supported
    assert not profile.idle_cancel
    assert profile.deviation_xy_m == 0.5


def test_settings_survive_the_way_to_the_database_and_back():
    profile = Profile(pick="grab", parameters={"pick": {"stationType": "floor", "height": 2}}, version="2.1.0")
    assert msgspec.convert(msgspec.to_builtins(profile), Profile) == profile


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("interface", "a/b", "interface"),
        ("interface", "#", "interface"),
        ("interface", "", "interface"),
        ("interface", "$SYS", "interface"),
        ("major", "2", "major"),
        ("version", "2.0", "version"),
        ("version", "2.0.0\n", "version"),
        ("instant_key", "none", "instant_key"),
        ("pick", "", "pick"),
        ("pick", "a\0", "pick"),
        ("parameters", {"fly": {}}, "parameters"),
        ("parameters", {"pick": []}, "parameters"),
        ("parameter_values", "json", "parameter_values"),
        ("base_steps", 0, "base_steps"),
        ("deviation_xy_m", 0.4, "deviation_xy_m"),
        ("deviation_theta_rad", 4, "deviation_theta_rad"),
        ("keepalive_s", 0, "keepalive_s"),
        ("max_payload_bytes", 10, "max_payload_bytes"),
        ("max_states_per_s", 0, "max_states_per_s"),
        ("pause_supported", "yes", "pause_supported"),
        ("colour", "red", "colour"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(setting, value, named):
    with pytest.raises(msgspec.ValidationError, match=named):
        msgspec.convert({setting: value}, Profile)
