"""What a robot is sent: exactly this, and the official schema of its version takes all of it."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from telemetry.drivers.vda5050 import writing
from telemetry.drivers.vda5050.outgoing import Action, At, Edge, Header, Node, Order
from telemetry.drivers.vda5050.profile import Profile
from tests.telemetry.vda5050 import recorded

AT = datetime(2026, 11, 29, 10, 0, 0, 123999, tzinfo=UTC)
VERSIONS = ("2.0.0", "2.1.0")
HEADER = Header(header_id=7, at=AT, version="2.0.0", address="acme/0001")
PAUSE = Action(id="a1", type="startPause", blocking="NONE")


def schema(version, message):
    text = (recorded.folder(f"schemas/{version}") / f"{message}.schema").read_text()
    return jsonschema.Draft202012Validator(json.loads(text))


# --- exactly this


def test_an_order_as_it_stands_on_the_wire():
    pick = Action(id="o.2", type="pick", parameters={"loadId": "pallet 7", "height": None})
    nodes = (
        Node(id="start", sequence=0, at=At(x=1, y=2, theta=0.5, map_id="hall", deviation_xy=0.5, deviation_theta=3)),
        Node(id="A", sequence=2, released=False, at=At(x=3, y=4, map_id="hall"), actions=(pick,), description="Dock A"),
    )
    edges = (Edge(id="e1", sequence=1, start="start", end="A", released=False),)
    told = json.loads(writing.order(HEADER, Order(id="o", update=3, nodes=nodes, edges=edges), Profile()))
    assert told == {
        "headerId": 7, "timestamp": "2026-11-29T10:00:00.123Z", "version": "2.0.0",
        "manufacturer": "acme", "serialNumber": "0001", "orderId": "o", "orderUpdateId": 3,
        "nodes": [
            {
                "nodeId": "start", "sequenceId": 0, "released": True, "actions": [],
                "nodePosition": {
                    "x": 1, "y": 2, "theta": 0.5, "mapId": "hall",
                    "allowedDeviationXY": 0.5, "allowedDeviationXy": 0.5, "allowedDeviationTheta": 3,
                },
            },
            {
                "nodeId": "A", "sequenceId": 2, "released": False, "nodeDescription": "Dock A",
                "nodePosition": {"x": 3, "y": 4, "mapId": "hall"},
                "actions": [{
                    "actionType": "pick", "actionId": "o.2", "blockingType": "HARD",
                    "actionParameters": [{"key": "loadId", "value": "pallet 7"}],
                }],
            },
        ],
        "edges": [{
            "edgeId": "e1", "sequenceId": 1, "released": False, "startNodeId": "start", "endNodeId": "A", "actions": [],
        }],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("version", "key", "keys"),
    [
        ("2.0.0", "both", {"actions", "instantActions"}),
        ("2.0.0", "actions", {"actions"}),
        ("2.0.0", "instantActions", {"instantActions"}),
        ("1.1.0", "both", {"actions", "instantActions"}),
        ("2.1.0", "instantActions", {"actions", "instantActions"}),  # the schema asks for it
        ("2.1.0", "actions", {"actions"}),
    ],
)
def test_instant_actions_stand_under_the_keys_that_a_robot_looks_for(version, key, keys):
    header = Header(header_id=1, at=AT, version=version, address="acme/1")
    told = json.loads(writing.instant_actions(header, [PAUSE], Profile(instant_key=key)))
    assert told.keys() - {"headerId", "timestamp", "version", "manufacturer", "serialNumber"} == keys
    assert all(told[name][0]["actionType"] == "startPause" for name in keys)


def test_a_time_of_another_zone_is_written_in_utc():
    at = datetime(2026, 11, 29, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    told = json.loads(
        writing.instant_actions(Header(header_id=1, at=at, version="2.1.0", address="a/b"), [], Profile())
    )
    assert told["timestamp"] == "2026-11-29T10:00:00.000Z"


def test_an_angle_is_brought_within_half_a_turn():
    node = Node(id="n", sequence=0, at=At(x=0, y=0, theta=7.0, map_id="m"))
    told = json.loads(writing.order(HEADER, Order(id="o", update=0, nodes=(node,)), Profile()))
    assert told["nodes"][0]["nodePosition"]["theta"] == pytest.approx(7.0 - 2 * 3.14159265359)


@pytest.mark.parametrize(
    ("how", "version", "value", "written"),
    [
        ("typed", "2.0.0", 2.5, 2.5),
        ("typed", "2.0.0", True, True),
        ("typed", "2.0.0", "1", "1"),
        ("typed", "2.0.0", [1, 2], [1, 2]),
        ("typed", "2.0.0", {"a": 1}, '{"a":1}'),  # 2.0 knows no objects as values
        ("typed", "2.1.0", {"a": 1}, {"a": 1}),
        ("strings", "2.1.0", 2.5, "2.5"),
        ("strings", "2.1.0", 2.0, "2"),
        ("strings", "2.1.0", False, "false"),
        ("strings", "2.1.0", "x", "x"),
        ("strings", "2.1.0", [1], "[1]"),
    ],
)
def test_parameters_are_written_as_the_brand_wants_them(how, version, value, written):
    header = Header(header_id=1, at=AT, version=version, address="acme/1")
    action = Action(id="a", type="t", parameters={"k": value})
    told = json.loads(writing.instant_actions(header, [action], Profile(parameter_values=how)))
    assert told["actions"][0]["actionParameters"] == [{"key": "k", "value": written}]


def test_a_topic():
    assert writing.topic(Profile(interface="acme", major="v3"), "KIT/0001", "order") == "acme/v3/KIT/0001/order"


# --- the official schemas

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
metres = st.floats(-1e6, 1e6)
VALUES = [True, 0, -1.5, 1e300, "", "\0\U0001f916", [], [[1], {"a": None}], {}, {"a": {"b": [1]}}]
values = st.sampled_from(VALUES)
actions = st.builds(
    Action, id=names, type=names, blocking=st.sampled_from(["NONE", "SOFT", "HARD"]), description=st.just("") | names,
    parameters=st.dictionaries(names, st.none() | values, max_size=2),
)  # fmt: skip
places = st.builds(
    At, x=metres, y=metres, theta=st.none() | st.floats(-1000, 1000), map_id=names,
    deviation_xy=st.none() | st.floats(0, 100), deviation_theta=st.none() | st.floats(0, 3.14),
)  # fmt: skip
profiles = st.builds(
    Profile,
    instant_key=st.sampled_from(["both", "actions", "instantActions"]),
    parameter_values=st.sampled_from(["typed", "strings"]),
)
headers = st.builds(
    Header, header_id=st.integers(0, 2**32 - 1), at=st.datetimes(timezones=st.just(UTC)),
    version=st.sampled_from(VERSIONS), address=st.tuples(names, names).map("/".join),
)  # fmt: skip


@st.composite
def orders(draw):
    count = draw(st.integers(1, 4))
    base = draw(st.integers(1, count))
    ids = draw(st.lists(names, min_size=count, max_size=count))
    few = st.just(()) | st.tuples(actions)
    nodes = [
        Node(id=one, sequence=2 * n, released=n < base, at=draw(st.none() | places), actions=draw(few),
             description=draw(st.just("") | names))
        for n, one in enumerate(ids)
    ]  # fmt: skip
    edges = [
        Edge(id=f"e{n}", sequence=2 * n + 1, start=ids[n], end=ids[n + 1], released=n + 1 < base, actions=draw(few))
        for n in range(count - 1)
    ]
    return Order(id=draw(names), update=draw(st.integers(0, 2**31)), nodes=tuple(nodes), edges=tuple(edges))


MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def check(validators, raw, version):
    told = json.loads(raw)
    validators[version].validate(told)
    assert TIME.fullmatch(told["timestamp"])


def test_every_order_passes_the_schema_of_its_version():
    validators = {version: schema(version, "order") for version in VERSIONS}

    @MANY
    @given(headers, orders(), profiles)
    def run(header, order, profile):
        check(validators, writing.order(header, order, profile), header.version)

    run()


def test_all_instant_actions_pass_the_schema_of_their_version():
    validators = {version: schema(version, "instantActions") for version in VERSIONS}

    @MANY
    @given(headers, st.lists(actions, min_size=1, max_size=4), profiles)
    def run(header, chosen, profile):
        check(validators, writing.instant_actions(header, chosen, profile), header.version)

    run()


@pytest.mark.parametrize("how", ["typed", "strings"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_parameter_passes_both_schemas_of_a_version(version, how):
    action = Action(id="a", type="t", parameters={str(n): value for n, value in enumerate([*VALUES, None])})
    header, profile = Header(header_id=1, at=AT, version=version, address="a/b"), Profile(parameter_values=how)
    order = Order(id="o", update=0, nodes=(Node(id="n", sequence=0, actions=(action,)),))
    schema(version, "order").validate(json.loads(writing.order(header, order, profile)))
    schema(version, "instantActions").validate(json.loads(writing.instant_actions(header, [action], profile)))


def test_the_schema_of_2_0_takes_no_instant_action_without_its_second_name():
    """Its text and every robot say actionType; this is why both are written."""
    told = json.loads(writing.instant_actions(HEADER, [PAUSE], Profile(instant_key="actions")))
    validator = schema("2.0.0", "instantActions")
    assert validator.is_valid(told)
    del told["actions"][0]["actionName"]
    assert not validator.is_valid(told)
