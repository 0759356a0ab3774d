"""Robots are shared out over gateways; each name is one process's; the dead and the frozen are replaced."""

import pytest
from django.db import connection

from telemetry.gateways.mqtt.sharing import Clash, Share
from telemetry.management.commands.gateway import name_of
from telemetry.models import GatewayPartition, GatewayProcess

pytestmark = pytest.mark.django_db


def died(name: str) -> None:
    """Its session has ended with it."""
    GatewayProcess.objects.filter(name=name).update(backend=0)


def froze(name: str) -> None:
    """It has not renewed its lease."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE telemetry_gatewayprocess SET until = now() - interval '1 s' WHERE name = %s", [name])
        cursor.execute("UPDATE telemetry_gatewaypartition SET until = now() - interval '1 s' WHERE owner = %s", [name])


def two() -> tuple[Share, Share]:
    a, b = (Share(name, 4, lease_s=600) for name in ("drover-a", "drover-b"))
    for share in (a, b, a, b):
        share.tend()
    return a, b


def test_each_gateway_has_its_fair_share():
    a, b = two()
    assert (a.mine, b.mine) == ({0, 1}, {2, 3})


@pytest.mark.parametrize("end", [died, froze])
def test_the_robots_of_a_gateway_that_is_gone_go_to_the_living(end):
    a, b = two()
    end("drover-b")
    assert a.tend() == {0, 1, 2, 3}
    if end is froze:  # it wakes up, and has none until its share is given back
        assert b.tend() == set()


def test_a_planned_end_frees_robots_and_name_at_once():
    a, b = two()
    a.release()
    assert b.tend() == {0, 1, 2, 3}
    assert list(GatewayProcess.objects.values_list("name", flat=True)) == ["drover-b"]
    assert not GatewayPartition.objects.filter(owner="drover-a").exists()


def test_a_second_process_under_the_same_name_is_told_who_has_it():
    first, second = (Share("drover-a", 4, lease_s=600, process=f"hall:{pid}:x") for pid in (17, 18))
    first.tend()
    with pytest.raises(Clash, match=r"drover-a runs already \(process 17 on hall\).*DROVER_GATEWAY"):
        second.tend()
    assert first.tend() == {0, 1, 2, 3}
    second.release()  # takes nothing away from the first
    assert GatewayProcess.objects.get().process == "hall:17:x"


@pytest.mark.parametrize("end", [died, froze])
def test_a_name_is_free_when_its_process_is_gone_and_who_comes_back_finds_it_taken(end):
    first, second = (Share("drover-a", 4, lease_s=600, process=f"hall:{pid}:x") for pid in (17, 18))
    first.tend()
    end("drover-a")
    assert second.tend() == {0, 1, 2, 3}
    with pytest.raises(Clash, match="process 18"):
        first.tend()


def test_why_it_hears_no_robot_is_there_for_all_to_read():
    a, _ = two()
    a.tend("the broker is away")
    assert GatewayProcess.objects.get(name="drover-a").trouble == "the broker is away"
    a.tend()
    assert GatewayProcess.objects.get(name="drover-a").trouble == ""


@pytest.mark.parametrize(
    ("instance", "name"),
    [("hall1", "drover-hall1"), ("Hall 1/#+", "drover-Hall-1---"), ("x" * 99, "drover-" + "x" * 53)],
)
def test_the_client_id_is_stable_and_fit_for_a_topic(instance, name):
    assert name_of(instance) == name


def test_a_gateway_that_has_long_heard_no_robot_gets_none_while_another_does():
    """A wrong password at one of them costs no robot its stop."""
    a, b = two()
    assert b.tend("the broker does not let us in", 9.9) == {2, 3}, "a broker that restarts is back by then"
    assert b.tend("the broker does not let us in", 10.0) == set()
    assert a.tend() == {0, 1, 2, 3}
    assert GatewayProcess.objects.get(name="drover-b").trouble == "the broker does not let us in"
    b.tend()  # it is let in
    a.tend()
    assert (a.tend(), b.tend()) == ({0, 1}, {2, 3})


def test_while_nobody_hears_the_broker_all_keep_their_robots():
    a, b = two()
    for deaf_s in (0.5, 9.5, 10.5, 60.0):
        assert (a.tend("away", deaf_s), b.tend("away", deaf_s)) == ({0, 1}, {2, 3})
