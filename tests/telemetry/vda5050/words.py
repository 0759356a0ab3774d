"""A robot's messages as the standard has them, for tests to change."""

import json

HEADER = {
    "headerId": 41, "timestamp": "2026-11-29T10:00:00.123Z", "version": "2.1.0",
    "manufacturer": "acme", "serialNumber": "0001",
}  # fmt: skip
POSITION = {"x": 1.5, "y": -2.0, "theta": 0.25, "mapId": "hall", "positionInitialized": True, "localizationScore": 0.9}
VELOCITY = {"vx": 0.3, "vy": 0.4, "omega": 0.1}

STATE = HEADER | {
    "orderId": "o7", "orderUpdateId": 1, "lastNodeId": "n2", "lastNodeSequenceId": 4,
    "nodeStates": [
        {"nodeId": "n3", "sequenceId": 6, "released": True},
        {"nodeId": "n4", "sequenceId": 8, "released": False, "nodePosition": {"x": 1, "y": 2, "mapId": "hall"}},
    ],
    "edgeStates": [
        {"edgeId": "e5", "sequenceId": 5, "released": True}, {"edgeId": "e7", "sequenceId": 7, "released": False},
    ],
    "actionStates": [
        {"actionId": "a1", "actionType": "pick", "actionStatus": "FINISHED", "resultDescription": "pallet 7"},
        {"actionId": "a2", "actionType": "drop", "actionStatus": "WAITING"},
    ],
    "driving": True, "paused": False, "newBaseRequest": True, "distanceSinceLastNode": 1.25,
    "operatingMode": "AUTOMATIC", "safetyState": {"eStop": "NONE", "fieldViolation": False},
    "errors": [{
        "errorType": "orderError", "errorLevel": "WARNING", "errorDescription": "not mine",
        "errorReferences": [{"referenceKey": "orderId", "referenceValue": "o8"}],
    }],
    "batteryState": {"batteryCharge": 62.5, "batteryVoltage": 48.1, "charging": False, "reach": 1000},
    "agvPosition": POSITION, "velocity": VELOCITY,
    "loads": [{"loadId": "p7", "loadType": "EPAL", "loadPosition": "front"}],
    "information": [],
}  # fmt: skip
CONNECTION = HEADER | {"connectionState": "ONLINE"}
VISUALIZATION = HEADER | {"agvPosition": POSITION, "velocity": VELOCITY}
FACTSHEET = HEADER | {
    "typeSpecification": {"seriesName": "Mover 3", "agvKinematic": "DIFF"},
    "protocolLimits": {"maxStringLens": {"idLen": 40, "idNumericalOnly": False}, "maxArrayLens": {"order.nodes": 20}},
    "protocolFeatures": {
        "optionalParameters": [],
        "agvActions": [
            {
                "actionType": "pick", "actionScopes": ["NODE"],
                "actionParameters": [
                    {"key": "height", "valueDataType": "FLOAT"},
                    {"key": "side", "valueDataType": "STRING", "isOptional": True},
                ],
            },
            {"actionType": "startPause", "actionScopes": ["INSTANT"]},
            {"actionType": "startCharging", "actionScopes": ["INSTANT", "NODE"]},
            {"actionType": "beep", "actionScopes": ["NODE"]},
            {"actionType": "reboot", "actionScopes": ["INSTANT"]},
        ],
    },
}  # fmt: skip
MESSAGES = {"state": STATE, "connection": CONNECTION, "visualization": VISUALIZATION, "factsheet": FACTSHEET}


def raw(message, **changed):
    return json.dumps(message | changed).encode()
