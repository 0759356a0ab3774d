"""Reads what a robot sends, liberally: a wrong field costs that field, and nothing raises.

Each function answers with what was read, or with a `Complaint` when nothing of it can be used.
"""

from telemetry.drivers.contract import Complaint
from telemetry.drivers.vda5050.picture import Connection, Factsheet, Picture, Visualization

MAX_BYTES = 256 * 1024


def state(payload: bytes, max_bytes: int = MAX_BYTES) -> Picture | Complaint:
    raise NotImplementedError


def connection(payload: bytes, max_bytes: int = MAX_BYTES) -> Connection | Complaint:
    raise NotImplementedError


def visualization(payload: bytes, max_bytes: int = MAX_BYTES) -> Visualization | Complaint:
    raise NotImplementedError


def factsheet(payload: bytes, max_bytes: int = MAX_BYTES) -> Factsheet | Complaint:
    raise NotImplementedError
