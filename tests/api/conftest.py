"""Programs that call the operator API: `caller(user, *scopes)` gives one that speaks JSON with a token of that person."""

import json
from typing import Any

import pytest
from django.test import Client

from fleet.people.tokens import SCOPES, issue_token
from tests.actors import STEPS, SYSTEM


class Caller:
    def __init__(self, token: str) -> None:
        self.client = Client()
        self.token = token

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The response, with `.said`: its JSON."""
        raw = body if isinstance(body, (bytes, str)) else b"" if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        answer = self.client.generic(method, f"/api/v1{path}", raw, "application/json", headers=headers)
        answer.said = json.loads(answer.content) if answer.content and "json" in answer["Content-Type"] else None
        return answer


@pytest.fixture
def caller():
    def make(user: Any, *scopes: str) -> Caller:
        return Caller(issue_token(user, label="warehouse", scopes=scopes or list(SCOPES), by=SYSTEM))

    return make


@pytest.fixture
def program(caller, supervisor) -> Caller:
    """A program with every scope, of a supervisor of this site."""
    return caller(supervisor)


@pytest.fixture
def other_program(caller, other_supervisor) -> Caller:
    return caller(other_supervisor)


@pytest.fixture
def order(robot):
    return {"title": "Fetch pallet 7", "site": robot.site_id, "robot": robot.pk, "steps": STEPS}
