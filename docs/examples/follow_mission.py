"""Draw up a mission, run it, and follow it to its end. Standard library only.

usage: DROVER_URL=http://127.0.0.1:8000 DROVER_TOKEN=drover_api_… python follow_mission.py SITE PLACE [PLACE …]
SITE is its name or its id.
"""

import json
import os
import sys
import urllib.error
import urllib.request
import uuid

URL, TOKEN = os.environ["DROVER_URL"], os.environ["DROVER_TOKEN"]


def call(method, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    headers |= {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{URL}/api/v1{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=40) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.code}: {json.load(error)['detail']}")


if len(sys.argv) < 3:
    sys.exit(__doc__)
name, *places = sys.argv[1:]
site = next((s["id"] for s in call("GET", "/sites") if name in (s["name"], str(s["id"]))), None)
if site is None:
    sys.exit(f"The token knows no site {name!r}.")
steps = [{"command": "navigate", "params": {"place": place}} for place in places]
order = {"title": f"Visit {', '.join(places)}", "site": site, "steps": steps}
mission = call("POST", "/missions", order, **{"Idempotency-Key": str(uuid.uuid4())})
while True:
    print(f"{mission['state']} {mission['steps_done']}/{mission['steps_total']} {mission['waits_for']}".strip())
    if mission["ended_at"]:
        sys.exit(0 if mission["state"] == "success" else f"{mission['abort_reason']}: {mission['abort_detail']}")
    mission = call("GET", f"/missions/{mission['id']}?after={mission['version']}&wait=25")
